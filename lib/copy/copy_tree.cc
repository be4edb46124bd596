#include "copy/copy_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "base/acl.h"
#include "base/node.h"
#include "base/printable.h"
#include "comm/records.h"
#include "copy/plan_check.h"
#include "copy/remote.h"
#include "dataset/view.h"
#include "names/lookup.h"
#include "names/set_names.h"
#include "sidecar/names.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// One thread copies a file up to this size (bytes).
constexpr std::uint64_t kSmall = 1u << 20;
// The number of files of each rank after which the ranks exchange their reports.
constexpr std::size_t kSlice = 1024;
// The number of small files of other ranks that are copied at once.
constexpr unsigned kSmallApart = 16;
// The same for CopyRequest::far, and the number of large files. While one large file waits for its first or
// last answers, the others use the line.
constexpr unsigned kSmallFar = 64, kLargeFar = 3;
// The number of sidecars of single files after which a family of files counts as single files.
constexpr std::size_t kMostOthers = 8;

bool IsWithin(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" || path.starts_with(directory + "/");
}

Status OnDestination(const Status& failure) {
  return failure.ok() ? failure : Status(Code::kWriteFailed, failure.message());
}

// One call of PlanCopy.
class Planner {
 public:
  /// `apart`: this process does not see the destination.
  Planner(FileSystem& fs, CopyPlan& plan, bool apart) : fs_(fs), plan_(plan), apart_(apart) {}

  Status Add(const std::string& from, const std::string& to) {
    const auto stat = fs_.Stat(from);
    if (stat.status().code() == Code::kNotFound)
      return {Code::kInvalidArgument, fmt::format("{}: there is no such file or directory", from)};
    LZY_RETURN_IF_ERROR(stat.status());
    if (!IsLzyName(BaseNameOf(from))) LZY_RETURN_IF_ERROR(CheckCopyName(to));
    if (!apart_) LZY_RETURN_IF_ERROR(CheckApart(from, to, *stat));
    families_.clear();
    Visit(from, to, *stat);
    std::string below = JoinPath(from, "-");  // the beginning of all paths below the source
    below.pop_back();
    for (const auto& family : families_) FindLostOf(family.second, below, to);
    return inside_ ? Inside(to, from) : Status::Ok();
  }

 private:
  // Compares the real paths of the source and the destination that the user named.
  Status CheckApart(const std::string& from, const std::string& to, const FileStat& stat) {
    LZY_ASSIGN_OR_RETURN(const std::string real_from, fs_.RealPath(from));
    const auto real_to = fs_.RealPath(to);
    if (!real_to.ok()) {
      return {Code::kInvalidArgument, fmt::format("{}: its directory does not exist, or cannot be entered: {}", to,
                                                  real_to.status().message())};
    }
    if (*real_to == real_from) return {Code::kInvalidArgument, fmt::format("{} and {} are the same", from, to)};
    if (stat.type != FileStat::Type::kDirectory) return Status::Ok();
    if (IsWithin(*real_to, real_from)) return Inside(to, from);
    above_.clear();
    for (std::string at = *real_to;; at = DirectoryOf(at)) {
      if (const auto one = fs_.Stat(at); one.ok() && one->inode != 0) above_.emplace(one->file_system, one->inode);
      if (DirectoryOf(at) == at) break;
    }
    return Status::Ok();
  }

  static Status Inside(const std::string& to, const std::string& from) {
    return {Code::kInvalidArgument, fmt::format("{} is inside {}: a directory cannot be copied into itself", to, from)};
  }

  void Fail(const std::string& from, const std::string& to, Status status) {
    CopyReport report;
    report.from = from;
    report.to = to;
    report.status = std::move(status);
    plan_.failures.push_back(std::move(report));
  }

  void Visit(const std::string& from, const std::string& to, const FileStat& stat) {
    if (!targets_.insert(to).second) {
      return Fail(from, to,
                  {Code::kInvalidArgument, fmt::format("{}: another source has the same name, {}", from, to)});
    }
    switch (stat.type) {
      case FileStat::Type::kDirectory:
        return VisitDirectory(from, to, stat);
      case FileStat::Type::kRegular:
        return VisitFile(from, to, stat);
      case FileStat::Type::kOther:
        break;
    }
    const auto text = fs_.ReadLink(from);
    if (text.ok()) {
      plan_.links.push_back({*text, to, stat});
    } else {
      Fail(from, to,
           {Code::kIo,
            fmt::format("{}: is neither a file nor a directory nor a symbolic link; it was not copied", from)});
    }
  }

  void VisitDirectory(const std::string& from, const std::string& to, const FileStat& stat) {
    if (above_.contains({stat.file_system, stat.inode})) {
      inside_ = true;
      return;
    }
    const auto names = fs_.List(from);
    if (!names.ok()) return Fail(from, to, names.status());
    plan_.directories.push_back({from, to, stat});
    const auto attributes = fs_.DirectoryAttributes(from);
    if (!attributes.ok()) Fail(from, to, attributes.status());
    if (attributes.ok() && !attributes->empty()) plan_.attributes[to] = *attributes;
    const std::set<std::string> all(names->begin(), names->end());
    std::optional<Directory> directory;
    for (const std::string& name : *names) {
      const std::string path = JoinPath(from, name);
      if (const auto lost = DataPathOf(path); lost && !all.contains(BaseNameOf(*lost))) {
        if (!directory) directory.emplace(fs_, from);
        if (!directory->HomeOf(name)) FailLost(*lost, JoinPath(to, BaseNameOf(*lost)));
      }
      if (const auto data = DataPathOf(name)) families_[FamilyOf(from, *data)].push_back(JoinPath(from, *data));
      if (IsLzyName(name)) continue;
      const auto below = fs_.Stat(path, /*follow=*/false);
      if (below.ok()) {
        Visit(path, JoinPath(to, name), *below);
      } else if (below.status().code() != Code::kNotFound) {  // removed meanwhile
        Fail(path, JoinPath(to, name), below.status());
      }
    }
  }

  // Files of one family may be members of a set: their paths differ in numbers only. A set may also have a directory for each member.
  static std::string FamilyOf(const std::string& directory, const std::string& name) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const bool numbered = std::ranges::any_of(name, is_digit);
    std::string family = numbered ? directory + "/" : "";
    for (const char c : numbered ? name : JoinPath(directory, name)) {
      if (!is_digit(c)) family += c;
      if (is_digit(c) && !family.ends_with('#')) family += '#';
    }
    return family;
  }

  // Reports members of sets that are gone with their sidecars, because only the other members know them. `family`: protected files.
  // Of each set, one sidecar is read. If the family has only single files, a few are read. `below`: the beginning
  // of the paths of the source.
  void FindLostOf(const std::vector<std::string>& family, const std::string& below, const std::string& to) {
    std::size_t others = 0;
    std::set<std::string> known;
    for (auto data = family.begin(); data != family.end() && others < kMostOthers; ++data) {
      const auto sidecar = SidecarPath(*data);
      if (known.contains(*data) || !sidecar.ok()) continue;
      const auto set = PeekSet(fs_, *sidecar);
      const auto pattern = set.ok() && !set->members.empty() ? PatternFromTail(*data, set->peek.name, set->peek.rank) : std::nullopt;
      ++others;
      if (!pattern) continue;
      others = 0;
      bool lost = false;
      for (const MemberRecord& member : set->members) {
        const std::string path = ExpandPattern(*pattern, member.rank);
        known.insert(path);
        lost = lost || IsGone(path);
      }
      if (lost) FailLostMembers(*pattern, set->peek.members, below, to);
    }
  }

  bool IsGone(const std::string& member) {
    return fs_.Stat(member, /*follow=*/false).status().code() == Code::kNotFound && !HasSidecar(member);
  }

  // What the newest sidecars of a set record. Members on other nodes are not lost: of their nodes, no member is here. If most members
  // are missing, these few were taken out of their set.
  void FailLostMembers(const std::string& pattern, std::uint32_t members, const std::string& below, const std::string& to) {
    std::map<std::uint32_t, PeekedSet> here;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      const auto sidecar = SidecarPath(ExpandPattern(pattern, rank));
      auto set = sidecar.ok() ? PeekSet(fs_, *sidecar) : Result<PeekedSet>(sidecar.status());
      if (!set.ok() || set->members.empty()) continue;
      here.emplace(rank, std::move(*set));
    }
    if (here.empty()) return;
    const auto of = [](const auto& one) -> const Peek& { return one.second.peek; };
    const Uuid set_uuid = of(*std::ranges::max_element(here, {}, [&](const auto& one) { return of(one).wall_time_ns; })).uuid;
    std::erase_if(here, [&](const auto& one) { return of(one).uuid != set_uuid; });
    const std::uint64_t last = of(*std::ranges::max_element(here, {}, [&](const auto& one) { return of(one).generation; })).generation;
    std::map<std::uint32_t, std::string> recorded;  // nodes by rank
    for (const auto& [rank, set] : here) {
      if (set.peek.generation != last) continue;
      for (const MemberRecord& member : set.members) recorded[member.rank] = member.domain;
    }
    std::set<std::string> nodes;
    std::vector<std::uint32_t> gone;
    for (const auto& [rank, node] : recorded) {
      if (!IsGone(ExpandPattern(pattern, rank))) nodes.insert(node);
    }
    for (const auto& [rank, node] : recorded) {
      const std::string path = ExpandPattern(pattern, rank);
      if (nodes.contains(node) && IsGone(path) && path.starts_with(below)) gone.push_back(rank);
    }
    if (gone.size() > std::max<std::size_t>(here.size(), here.begin()->second.peek.parity)) return;
    for (const std::uint32_t rank : gone) {
      const std::string path = ExpandPattern(pattern, rank);
      Fail(path, JoinPath(to, path.substr(below.size())),
           {Code::kUnreadable, fmt::format("{}: is missing with its sidecar, and is a member of a set; what to do: lzy-verify {}", path,
                                            ShellQuote(pattern))});
    }
  }

  // A file that should be copied, but is missing.
  void FailLost(const std::string& from, const std::string& to) {
    Fail(from, to,
         {Code::kUnreadable,
          fmt::format("{}: is missing, and its sidecar is there; what to do: lzy-verify {}", from, ShellQuote(from))});
  }

  // Of several names of a file, the one with the sidecar is copied, and the others become hard links to that copy.
  void VisitFile(const std::string& from, const std::string& to, const FileStat& stat) {
    if (stat.links > 1) {
      const auto [at, is_new] = first_names_.try_emplace({stat.file_system, stat.inode}, plan_.files.size());
      if (!is_new) {
        CopyPlan::Entry& first = plan_.files[at->second];
        if (HasSidecar(first.from) || !HasSidecar(from)) return plan_.further_names.push_back({first.to, to, stat});
        for (CopyPlan::Entry& further : plan_.further_names) {
          if (further.from == first.to) further.from = to;
        }
        plan_.further_names.push_back({to, first.to, first.stat});
        first = {from, to, stat};
        return;
      }
    }
    plan_.files.push_back({from, to, stat});
    plan_.bytes += stat.size;
  }

  bool HasSidecar(const std::string& path) {
    const auto sidecar = SidecarPath(path);
    return sidecar.ok() && fs_.Stat(*sidecar, /*follow=*/false).ok();
  }

  FileSystem& fs_;
  CopyPlan& plan_;
  const bool apart_;
  std::set<std::string> targets_;
  // The destination and the directories above it. If one of them is found in the source, it is mounted at two places.
  std::set<std::pair<std::uint64_t, std::uint64_t>> above_;
  std::map<std::string, std::vector<std::string>> families_;  // paths of protected files of the present source
  bool inside_ = false;  // the destination is inside the source
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> first_names_;  // of files with several names: index in plan_.files
};

// One call of CopyAll.
class TreeCopier {
 public:
  TreeCopier(const Context& context, const CopyPlan& plan, const CopyRequest& request,
             const std::function<void(CopyReport)>& finished)
      : context_(context), fs_(context.fs), plan_(plan), request_(request), finished_(finished) {
    request_.sync_name = false;
    targets_ = plan.sight.targets;
    for (int rank = 0; plan.sight.targets.empty() && rank < context.comm.size(); ++rank) targets_.push_back(rank);
    for (const CopyPlan::Entry& directory : plan.directories) {
      if (!plan.sight.apart && directory.stat.inode != 0) sources_.emplace(directory.stat.file_system, directory.stat.inode);
    }
    const auto here = std::ranges::find(targets_, context.comm.rank());
    if (here != targets_.end()) place_ = static_cast<std::size_t>(here - targets_.begin());
  }

  // Makes directories before their contents, and sets their times afterwards.
  Status Run() {
    for (const CopyReport& failure : plan_.failures) finished_(failure);
    LZY_RETURN_IF_ERROR(OnFirstTarget([&] { MakeDirectories(); }));
    LZY_RETURN_IF_ERROR(BroadcastRecord(context_.comm, closed_, targets_[0]));
    LZY_RETURN_IF_ERROR(CopyFiles());
    return OnFirstTarget([&] {
      for (const CopyPlan::Entry& link : plan_.links) MakeLink(link);
      for (const CopyPlan::Entry& name : plan_.further_names) MakeFurtherName(name);
      FinishDirectories();
    });
  }

 private:
  // Runs `work` on the first target; its reports go to `finished` on all ranks.
  template <class Work>
  Status OnFirstTarget(const Work& work) {
    std::vector<CopyReport> told;
    if (context_.comm.rank() == targets_[0] && !Stopped()) {
      const Status done = NoThrow([&] { work(); });
      if (!done.ok()) Note("", "", done);
      told = std::exchange(notes_, {});
    }
    LZY_RETURN_IF_ERROR(BroadcastRecord(context_.comm, told, targets_[0]));
    for (CopyReport& report : told) finished_(std::move(report));
    return Status::Ok();
  }

  bool Stopped() const { return context_.stop && context_.stop(); }
  void Note(const std::string& from, const std::string& to, const Status& status) {
    if (status.ok()) return;
    CopyReport report;
    report.from = from;
    report.to = to;
    report.status = status;
    notes_.push_back(std::move(report));
  }
  void ReportAcl(const CopyPlan::Entry& directory) {
    CopyReport report;
    report.from = directory.from;
    report.to = directory.to;
    report.directory = true;
    WarnOfAcl(directory.to, report.warnings);
    notes_.push_back(std::move(report));
  }
  bool IsClosed(const std::string& path) const {
    return std::ranges::any_of(closed_, [&](const std::string& directory) { return IsWithin(path, directory); });
  }

  // A link in place of a directory would lead elsewhere. The destination that the user named may be a link.
  Status MakeDirectory(const CopyPlan::Entry& directory) {
    const std::string& path = directory.to;
    const auto there = fs_.Stat(path, /*follow=*/false);
    if (there.status().code() == Code::kNotFound) {
      LZY_RETURN_IF_ERROR(fs_.MakeDirectories(path));
      return CloseDirectory(directory);
    }
    LZY_RETURN_IF_ERROR(there.status());
    if (there->type == FileStat::Type::kDirectory) {
      if (!sources_.contains({there->file_system, there->inode})) return Status::Ok();
      return {Code::kIo, fmt::format("{}: is a directory of the source, mounted here", path)};
    }
    if (path == plan_.destination && IsDirectory(fs_, path)) {
      return Status::Ok();
    }
    const bool link = fs_.ReadLink(path).ok();
    return {Code::kIo,
            fmt::format("{}: is {}, where the copy has a directory", path,
                        link ? "a symbolic link, which is not followed below the destination" : "no directory")};
  }

  // Until the directory has its access, users whom the source keeps out must not enter it: files in it may be open to all.
  Status CloseDirectory(const CopyPlan::Entry& directory) {
    auto made = fs_.Stat(directory.to);
    const std::uint32_t allowed = NarrowedMode(directory.stat.mode, AclOf(directory.to)) | 0700;
    if (!made.ok() || (made->mode & 0777 & ~allowed) == 0) return Status::Ok();
    made->mode = 0700;
    return fs_.SetDirectory(directory.to, *made, {});
  }

  // The attributes of its source.
  const Attributes& AttributesOf(const std::string& directory) const {
    static const Attributes kNone;
    const auto attributes = plan_.attributes.find(directory);
    return attributes == plan_.attributes.end() ? kNone : attributes->second;
  }
  Acl AclOf(const std::string& directory) const {
    const Attributes& attributes = AttributesOf(directory);
    const auto acl = attributes.find(kAccessAcl);
    return acl == attributes.end() ? Acl() : Acl(acl->second.begin(), acl->second.end());
  }

  void MakeDirectories() {
    for (const CopyPlan::Entry& directory : plan_.directories) {
      if (IsClosed(directory.to)) continue;
      const Status made = MakeDirectory(directory);
      if (made.ok()) continue;
      closed_.push_back(directory.to);
      Note(directory.from, directory.to, OnDestination(made));
    }
  }

  // Copies in slices, so that results can be reported meanwhile.
  Status CopyFiles() {
    const std::size_t slice = kSlice * targets_.size();
    for (std::size_t first = 0; first < plan_.files.size(); first += slice) {
      const std::size_t end = std::min(plan_.files.size(), first + slice);
      if (request_.dealt) request_.dealt(ShareOf(first, end));
      std::vector<std::pair<std::uint64_t, CopyReport>> mine;
      LZY_RETURN_IF_ERROR(Agree(context_.comm, WithSources(first, end, [&] { mine = CopyMine(first, end); })));
      LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(context_.comm, mine));
      std::map<std::uint64_t, CopyReport> reports;
      for (const auto& theirs : all) reports.insert(theirs.begin(), theirs.end());
      for (auto& [index, report] : reports) finished_(std::move(report));
      LZY_ASSIGN_OR_RETURN(const std::uint64_t stopped, context_.comm.AllReduceMax(Stopped()));
      if (stopped != 0) return {Code::kInterrupted, "interrupted"};
    }
    return Status::Ok();
  }

  // Runs `work` with a request_ that opens sources of a slice on the ranks that see them. Collective if these are other ranks. A rank
  // gives away only what the plan says.
  template <class Work>
  Status WithSources(std::size_t first, std::size_t end, const Work& work) {
    if (!plan_.sight.apart) return NoThrow(work);
    std::set<std::string> given;
    if (std::ranges::find(plan_.sight.sources, context_.comm.rank()) != plan_.sight.sources.end()) {
      for (std::size_t i = first; i < end; ++i) given.insert(plan_.files[i].from);
    }
    // A rank that only reads reports progress, too, because it may be rank 0.
    const auto progress = place_ ? nullptr : request_.progress;
    const Status done = WithRemoteSources(context_, {.salvage = request_.salvage}, given, progress, [&](Caller& caller) {
      request_.open = [&](const std::string& from) {
        return OpenRemoteSource(caller, plan_.sight.sources, from, request_.wait);
      };
      work();
    });
    request_.open = {};
    return done;
  }

  // The share of the bytes of a slice that this rank copies.
  double ShareOf(std::size_t first, std::size_t end) const {
    if (!place_) return 0;
    std::uint64_t all = 0, mine = 0;
    for (std::size_t i = first; i < end; ++i) {
      all += plan_.files[i].stat.size;
      if (i % targets_.size() == *place_) mine += plan_.files[i].stat.size;
    }
    return all == 0 ? 1.0 : static_cast<double>(mine) / static_cast<double>(all);
  }

  // Copies this rank's files of a slice. Returns reports by the number of the file.
  std::vector<std::pair<std::uint64_t, CopyReport>> CopyMine(std::size_t first, std::size_t end) {
    if (!place_) return {};
    const auto self = SelfCommunicator();
    const unsigned threads = ThreadsFor(context_);
    Options alone = context_.options;
    alone.threads = threads;
    const Context by_all{fs_, *self, alone, {}, context_.stop};
    Options single = context_.options;
    single.threads = 1;
    const Context by_one{fs_, *self, single, {}, context_.stop};
    std::vector<std::size_t> small, large;
    for (std::size_t i = first; i < end; ++i) {
      if (i % targets_.size() != *place_ || IsClosed(plan_.files[i].to)) continue;
      (plan_.files[i].stat.size <= kSmall ? small : large).push_back(i);
    }
    std::vector<std::pair<std::uint64_t, CopyReport>> reports;
    std::mutex mutex;
    const auto copy = [&](const Context& context, std::size_t i) {
      if (Stopped()) return;
      CopyRequest request = request_;
      request.follow = plan_.files[i].to == plan_.destination;
      CopyReport report = CopyFile(context, plan_.files[i].from, plan_.files[i].to, request);
      const std::lock_guard lock(mutex);
      reports.emplace_back(i, std::move(report));
    };
    // A thread that waits for another rank needs no processor.
    const unsigned side_by_side = plan_.sight.apart ? std::max(threads, request_.far ? kSmallFar : kSmallApart) : threads;
    ParallelFor(small.size(), side_by_side, [&](std::size_t i) { copy(by_one, small[i]); });
    ParallelFor(large.size(), request_.far ? kLargeFar : 1, [&](std::size_t i) { copy(by_all, large[i]); });
    return reports;
  }

  // Makes the name under a temporary one first, so that an existing file is replaced in one step.
  template <class Make>
  void MakeName(const CopyPlan::Entry& entry, const Make& make) {
    // A random name, because another copy may be writing a file that will have this name.
    const std::string name = fmt::format("{:016x}", DrawRandom<std::uint64_t>());
    const std::string temporary = NewCopyPath(JoinPath(DirectoryOf(entry.to), name));
    Status made = make(temporary);
    if (made.ok()) made = fs_.Rename(temporary, entry.to);
    if (!made.ok()) (void)fs_.Remove(temporary);
    Note(entry.from, entry.to, OnDestination(made));
  }

  void MakeLink(const CopyPlan::Entry& link) {
    if (IsClosed(link.to)) return;
    const auto text = fs_.ReadLink(link.to);
    const auto there = fs_.Stat(link.to, /*follow=*/false);
    if (text.ok() && *text == link.from && there.ok() && HasMtime(*there, link.stat.mtime_ns)) return;
    MakeName(link, [&](const std::string& temporary) { return fs_.MakeLink(link.from, temporary, link.stat); });
  }

  // If the first name was not copied, that was reported.
  void MakeFurtherName(const CopyPlan::Entry& name) {
    const auto first = fs_.Stat(name.from, /*follow=*/false);
    if (IsClosed(name.to) || !first.ok() || !HasMtime(*first, name.stat.mtime_ns) || first->size != name.stat.size)
      return;
    const auto there = fs_.Stat(name.to, /*follow=*/false);
    if (there.ok() && there->inode == first->inode && there->file_system == first->file_system) return;
    MakeName(name, [&](const std::string& temporary) { return fs_.MakeHardLink(name.from, temporary); });
  }

  // Finishes the innermost directories first, so that setting the times of one does not change those of another. The
  // directories of single files are not copied, but their names are synced.
  void FinishDirectories() {
    for (auto one = plan_.directories.rbegin(); one != plan_.directories.rend(); ++one) {
      if (IsClosed(one->to)) continue;
      Status done = fs_.SetDirectory(one->to, one->stat, AttributesOf(one->to));
      if (done.ok()) done = fs_.SyncDirectory(one->to);
      Note(one->from, one->to, OnDestination(done));
      if (done.ok() && !HasItsAcls(one->to)) ReportAcl(*one);
    }
    std::set<std::string> others;
    for (const auto* list : {&plan_.files, &plan_.links, &plan_.further_names}) {
      for (const CopyPlan::Entry& entry : *list) others.insert(DirectoryOf(entry.to));
    }
    for (const CopyPlan::Entry& directory : plan_.directories) others.insert(DirectoryOf(directory.to));
    for (const CopyPlan::Entry& directory : plan_.directories) others.erase(directory.to);
    for (const std::string& directory : others) Note("", directory, OnDestination(fs_.SyncDirectory(directory)));
  }

  bool HasItsAcls(const std::string& directory) {
    const Attributes& wanted = AttributesOf(directory);
    if (!wanted.contains(kAccessAcl) && !wanted.contains(kDefaultAcl)) return true;
    const auto has = fs_.DirectoryAttributes(directory);
    return has.ok() && std::ranges::all_of(std::array{kAccessAcl, kDefaultAcl}, [&](const char* name) {
             const auto acl = wanted.find(name), there = has->find(name);
             return acl == wanted.end() || (there != has->end() && there->second == acl->second);
           });
  }

  const Context& context_;
  FileSystem& fs_;
  const CopyPlan& plan_;
  CopyRequest request_;
  const std::function<void(CopyReport)>& finished_;
  std::vector<int> targets_;           // ranks that copy
  std::optional<std::size_t> place_;   // number of this rank among them
  std::set<std::pair<std::uint64_t, std::uint64_t>> sources_;  // directories of the source, if this rank sees source and copy
  std::vector<std::string> closed_;    // directories that could not be made: nothing in them is copied
  std::vector<CopyReport> notes_;
};

// True if the copies go below the destination. An interrupted copy may have created it, so whether it exists must not change
// the meaning of a command.
Result<bool> GoesInto(FileSystem& fs, const std::vector<std::string>& sources, const std::string& destination,
                      bool resume, bool there) {
  if (sources.size() > 1 || destination.ends_with('/')) {
    if (there) return true;
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: is no directory, so nothing can be copied into it", destination));
  }
  if (!there || !IsDirectory(fs, sources[0])) return there;
  if (resume) return false;
  return Status(Code::kInvalidArgument,
                fmt::format("{0}: exists; to copy {1} into it, write {0}/; to go on with an earlier copy, add --resume",
                            destination, sources[0]));
}

}  // namespace

Result<CopyPlan> PlanCopy(FileSystem& fs, const std::vector<std::string>& sources, const std::string& destination,
                          bool resume, std::optional<bool> is_directory) {
  CopyPlan plan;
  LZY_RETURN_IF_ERROR(NoThrow([&]() -> Status {
    const bool there = is_directory ? *is_directory : IsDirectory(fs, destination);
    LZY_ASSIGN_OR_RETURN(const bool into, GoesInto(fs, sources, destination, resume, there));
    plan.destination = destination;
    Planner planner(fs, plan, is_directory.has_value());
    for (const std::string& source : sources) {
      if (into && BaseNameOf(source) == "..") {
        return {Code::kInvalidArgument,
                fmt::format("{}: name the directory itself, so that its copy has a name", source)};
      }
      LZY_RETURN_IF_ERROR(planner.Add(source, into ? JoinPath(destination, BaseNameOf(source)) : destination));
    }
    return Status::Ok();
  }));
  return plan;
}

Result<CopyPlan> PlanTogether(Communicator& comm, FileSystem& fs, const std::vector<std::string>& sources,
                              const std::string& destination, bool resume, bool dry_run) {
  LZY_ASSIGN_OR_RETURN(const CopySight sight, LookAround(comm, fs, sources, destination, dry_run));
  bool is_directory = IsDirectory(fs, destination);
  LZY_RETURN_IF_ERROR(BroadcastRecord(comm, is_directory, sight.targets[0]));
  CopyPlan plan;
  LZY_RETURN_IF_ERROR(AgreeOn(comm, [&]() -> Status {
    if (comm.rank() != sight.sources[0]) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(plan, PlanCopy(fs, sources, destination, resume,
                                        sight.apart ? std::optional(is_directory) : std::nullopt));
    plan.sight = sight;
    return Status::Ok();
  }));
  LZY_RETURN_IF_ERROR(BroadcastRecord(comm, plan, sight.sources[0]));
  LZY_RETURN_IF_ERROR(CheckPlan(plan, {sources, destination, resume, is_directory, sight}));
  return plan;
}

Status CopyAll(const Context& context, const CopyPlan& plan, const CopyRequest& request,
               const std::function<void(CopyReport)>& finished) {
  return TreeCopier(context, plan, request, finished).Run();
}

}  // namespace lzy
