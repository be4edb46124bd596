#include "copy/set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/partial_view.h"
#include "base/printable.h"
#include "comm/records.h"
#include "commit/protect.h"
#include "copy/member.h"
#include "copy/remote.h"
#include "dataset/sights.h"
#include "dataset/view.h"
#include "names/resolve.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// One call of CopySet.
class SetCopier {
 public:
  SetCopier(const Context& context, const std::string& from, const std::string& to, const CopyRequest& request,
            const std::function<void(CopyReport)>& finished, CopySetReport& report)
      : context_(context),
        comm_(context.comm),
        from_(from),
        to_(to),
        request_(request),
        finished_(finished),
        report_(report) {
    request_.member = request.protect;
    request_.protect = false;
  }

  Status Run(bool protect) {
    LZY_RETURN_IF_ERROR(CheckPattern(from_));
    LZY_RETURN_IF_ERROR(CheckPattern(to_));
    if (!HasRankPlaceholder(to_)) {
      return {Code::kInvalidArgument, fmt::format("{}: has no %r, and {} has: a set is copied to a set", to_, from_)};
    }
    LZY_RETURN_IF_ERROR(CheckCopyName(to_));
    LZY_RETURN_IF_ERROR(FindSource());
    LZY_RETURN_IF_ERROR(LearnGeometry());
    LZY_RETURN_IF_ERROR(DealMembers());
    LZY_RETURN_IF_ERROR(CheckTarget());
    LZY_ASSIGN_OR_RETURN(const bool suspect, HasSuspects());
    if (suspect) return Status::Ok();
    LZY_RETURN_IF_ERROR(CopyMembers());
    ReportMissing(protect);
    if (!protect || failed_ || !missing_.empty()) return Status::Ok();
    return ProtectCopies();
  }

 private:
  Status FindSource() {
    LZY_ASSIGN_OR_RETURN(auto found, ResolvePath(context_.fs, comm_, from_, Resolve::kProtectable));
    if (found.size() == 1 && found[0].kind == DatasetKind::kSet) {
      source_ = std::move(found[0]);
      return Status::Ok();
    }
    return {Code::kInvalidArgument, fmt::format("{}: stands for {} datasets; name one set", from_, found.size())};
  }

  // An unprotected source has no geometry.
  Status LearnGeometry() {
    options_ = context_.options;
    options_.device_dirs.clear();
    LZY_ASSIGN_OR_RETURN(const DatasetView view, OpenDataset(context_, source_, {}));
    if (!view.committed) return Status::Ok();
    committed_members_ = view.superblock.members;
    if (view.IsPartial()) elsewhere_ = view.needed_nodes;
    source_root_ = view.superblock.dataset_root;
    rules_ = RulesOf(view);
    KeepGeometry(view.superblock, view.info, false, options_);
    return CheckOptions(options_);
  }

  // Chooses a rank for each member: one that sees the member and the directory of its copy. If there is none, one that sees
  // the directory reads the member from a rank that sees it. Among several ranks, prefers the one with the member's number:
  // on node-local disks, that rank will look for the copy.
  Status DealMembers() {
    std::vector<std::uint32_t> here;
    for (const auto& [rank, path] : source_.members) {
      if (source_.IsDealtHere(rank) && context_.fs.Stat(path).ok()) here.push_back(rank);
    }
    LZY_ASSIGN_OR_RETURN(auto all, AllGatherRecords(comm_, here));
    LZY_RETURN_IF_ERROR(DropOldSights(context_, source_, all));
    std::map<std::uint32_t, std::vector<int>> holders;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      for (const std::uint32_t member : all[static_cast<std::size_t>(rank)]) holders[member].push_back(rank);
    }
    // 2: this rank sees the directory of the copy; 1: it could, but there is no such directory yet.
    std::vector<std::uint8_t> reach;
    std::map<std::string, std::uint8_t> directories;  // each is examined once, even if many members go there
    for (const auto& [member, ranks] : holders) {
      const auto [at, is_new] = directories.try_emplace(DirectoryOf(ExpandPattern(to_, member)));
      if (is_new) at->second = IsDirectory(context_.fs, at->first) ? 2 : MayHave(context_.fs, at->first);
      reach.push_back(at->second);
    }
    LZY_ASSIGN_OR_RETURN(const auto reached, AllGatherRecords(comm_, reach));
    for (const auto& theirs : reached) {
      if (theirs.size() != holders.size()) return {Code::kInternal, fmt::format("{}: another rank does not answer what was asked", to_)};
    }
    std::size_t index = 0;
    for (const auto& [member, ranks] : holders) {
      std::vector<int> see, both, could;
      for (int rank = 0; rank < comm_.size(); ++rank) {
        const std::uint8_t sees = reached[static_cast<std::size_t>(rank)][index];
        if (sees > 1) see.push_back(rank);
        if (sees > 0) could.push_back(rank);
      }
      ++index;
      // The directory of the copy does not exist yet. Preferably a rank that sees the member makes it.
      if (see.empty()) std::ranges::set_intersection(ranks, could, std::back_inserter(see));
      if (see.empty()) see = could;
      std::ranges::set_intersection(ranks, see, std::back_inserter(both));
      const std::vector<int>& from = both.empty() ? see : both;
      const bool own = std::ranges::find(from, static_cast<int>(member)) != from.end();
      const int target = own ? static_cast<int>(member) : from[member % from.size()];
      if (both.empty()) apart_ = true;
      if (target == comm_.rank()) mine_.emplace_back(member, both.empty() ? ranks : std::vector<int>());
    }
    for (const auto& [member, ranks] : holders) {
      if (ranks[0] == comm_.rank()) first_of_.push_back(member);
    }
    LZY_RETURN_IF_ERROR(ReportShare());
    report_.members = holders.size();
    // A set has all members from 0 on. If some are missing, the copy would be a set with lost members.
    const std::uint32_t expected = std::max(committed_members_, holders.empty() ? 0 : holders.rbegin()->first + 1);
    for (std::uint32_t member = 0; member < expected; ++member) {
      if (!holders.contains(member)) missing_.push_back(member);
    }
    if (missing_.empty() || request_.salvage) return Status::Ok();
    if (!elsewhere_.empty()) {
      return {Code::kInvalidArgument, fmt::format("{}: some members are not visible from here; copy it with mpiexec, at least one rank on each of {}",
                                                  from_, fmt::join(elsewhere_, " "))};
    }
    return {Code::kInvalidArgument,
            fmt::format("{}: some members are missing; rebuild them first: lzy-restore '{}'", from_, from_)};
  }

  // Collective, because a rank that copies a member need not see it.
  Status ReportShare() {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> sizes;
    for (const std::uint32_t member : first_of_) {
      const auto stat = context_.fs.Stat(PathOf(member));
      sizes.emplace_back(member, stat.ok() ? stat->size : 0);
    }
    LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(comm_, sizes));
    const std::map<std::uint32_t, std::uint64_t> size_of(all.begin(), all.end());
    std::uint64_t total = 0, mine = 0;
    for (const auto& [member, size] : size_of) total += size;
    for (const auto& one : mine_) mine += size_of.at(one.first);
    const double share = total == 0 ? 1.0 : static_cast<double>(mine) / static_cast<double>(total);
    if (request_.dealt) request_.dealt(mine_.empty() ? 0.0 : share);
    return Status::Ok();
  }

  std::string PathOf(std::uint32_t member) const {
    const auto here = source_.members.find(member);
    return here != source_.members.end() ? here->second : ExpandPattern(source_.path, member);
  }

  // An existing member that is not replaced would become part of the copy.
  Status CheckTarget() {
    const auto found = ResolvePath(context_.fs, comm_, to_, Resolve::kProtectable);
    std::uint64_t here = 0;
    if (found.ok()) {
      for (const DatasetRef& there : *found) {
        for (const auto& [rank, path] : there.members) here = std::max<std::uint64_t>(here, rank + 1);
      }
    }
    LZY_ASSIGN_OR_RETURN(const std::uint64_t most, comm_.AllReduceMax(here));
    const std::uint64_t expected = report_.members + missing_.size();
    if (most > expected) {
      return {Code::kInvalidArgument,
              fmt::format("{}: has a member {}, and {} ends with member {}; remove what is there, or name another destination",
                          to_, most - 1, from_, expected - 1)};
    }
    std::uint64_t left = 0;  // 1 + number of a missing member that exists at the destination
    for (const std::uint32_t member : missing_) {
      if (context_.fs.Stat(ExpandPattern(to_, member), /*follow=*/false).ok()) left = member + std::uint64_t{1};
    }
    LZY_ASSIGN_OR_RETURN(left, comm_.AllReduceMax(left));
    if (left == 0) return CheckApart();
    return {Code::kInvalidArgument,
            fmt::format("{}: has a member {}, which {} has lost; remove what is there, or name another destination", to_, left - 1, from_)};
  }

  // No copy may replace a member of the source: patterns such as ck.0.%r and ck.%r.0 have a file in common.
  Status CheckApart() {
    std::set<std::pair<std::uint64_t, std::uint64_t>> sources;  // file system and inode
    for (const auto& [rank, path] : source_.members) {
      const auto stat = context_.fs.Stat(path);
      if (stat.ok()) sources.emplace(stat->file_system, stat->inode);
    }
    std::uint64_t common = 0;  // 1 + number of a member of the destination that is one of the source
    for (std::uint64_t member = 0; member < report_.members + missing_.size(); ++member) {
      const auto stat = context_.fs.Stat(ExpandPattern(to_, static_cast<std::uint32_t>(member)));
      if (stat.ok() && sources.contains({stat->file_system, stat->inode})) common = member + 1;
    }
    LZY_ASSIGN_OR_RETURN(common, comm_.AllReduceMax(common));
    if (common == 0) return Status::Ok();
    return {Code::kInvalidArgument, fmt::format("{}: is a member of {}, too; nothing was copied. Name another destination",
                                                ExpandPattern(to_, static_cast<std::uint32_t>(common - 1)), from_)};
  }

  Status CopyMembers() {
    std::vector<std::pair<std::uint32_t, CopyReport>> reports;
    const auto copy = [&](Caller* caller) {
      const auto self = SelfCommunicator();
      Options options = context_.options;
      options.threads = ThreadsFor(context_);
      const Context alone{context_.fs, *self, options, {}, context_.stop};
      for (const auto& [member, holders] : mine_) {
        if (context_.stop && context_.stop()) break;
        request_.open = {};
        request_.judged = WasJudged(member);
        if (!holders.empty()) {
          request_.open = [&](const std::string& from) {
            return OpenRemoteSource(*caller, holders, from, request_.wait);
          };
        }
        reports.emplace_back(member, CopyMember(alone, member));
      }
    };
    if (apart_) {
      LZY_RETURN_IF_ERROR(
          Agree(comm_, WithRemoteSources(context_, {request_.salvage, !rules_.empty()}, Given(), {},
                                         [&](Caller& caller) { copy(&caller); })));
    } else {
      LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { copy(nullptr); }));
    }
    LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm_, reports));
    std::map<std::uint32_t, CopyReport> sorted;
    for (const auto& theirs : all) sorted.insert(theirs.begin(), theirs.end());
    failed_ = sorted.size() < report_.members;
    for (auto& [member, report] : sorted) {
      failed_ = failed_ || !report.status.ok();
      all_compared_ = all_compared_ && report.compared && report.lost.empty();
      finished_(std::move(report));
    }
    LZY_ASSIGN_OR_RETURN(const std::uint64_t stopped, comm_.AllReduceMax(context_.stop && context_.stop()));
    return stopped == 0 ? Status::Ok() : Status(Code::kInterrupted, "interrupted");
  }

  // The files that other ranks may read here. What the set is was agreed with them, but they may be on a hostile machine. So only
  // files count that the pattern of the user leads to.
  std::set<std::string> Given() const {
    std::set<std::string> given;
    if (!MayHave(context_.fs, from_)) return given;
    std::set<std::pair<std::uint64_t, std::uint64_t>> named;  // file system and inode
    for (const auto& [rank, path] : source_.members) {
      const auto stat = context_.fs.Stat(ExpandPattern(from_, rank));
      if (stat.ok()) named.emplace(stat->file_system, stat->inode);
    }
    for (const auto& [rank, member] : source_.members) {
      for (const std::string& path : {member, ExpandPattern(source_.path, rank)}) {
        const auto stat = context_.fs.Stat(path);
        if (stat.ok() && named.contains({stat->file_system, stat->inode})) given.insert(path);
      }
    }
    return given;
  }

  // True if HasSuspects compares the member with what the set records, or its own sidecar is of the last commit.
  bool WasJudged(std::uint32_t member) const {
    const auto rule = rules_.find(member);
    return rule != rules_.end() && rule->second.known;
  }

  // The set of the copies would call damage of such a member, or its older content, intact. So nothing is copied. Collective.
  Result<bool> HasSuspects() {
    std::vector<std::uint32_t> mine, unusable;
    for (const auto& [member, rule] : rules_) {
      if (!rule.usable) unusable.push_back(member);
    }
    // Only the process that has a sidecar open knows whether all hashes of it are known.
    LZY_ASSIGN_OR_RETURN(unusable, UniteRecords(comm_, unusable));
    const std::set<std::uint32_t> candidates(unusable.begin(), unusable.end());
    std::vector<std::string> unknown;
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      for (const std::uint32_t member : first_of_) {
        if (request_.salvage || !candidates.contains(member)) continue;
        const MemberRule& rule = rules_.at(member);
        if (!rule.known) {
          unknown.push_back(PathOf(member));
        } else if (!IsAsRecorded(context_.fs, PathOf(member), rule.record, context_.options.key.get())) {
          mine.push_back(member);
        }
      }
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const auto unchecked, UniteRecords(comm_, unknown));
    for (const std::string& path : unchecked) {
      report_.warnings.push_back(fmt::format("{}: the sidecars that record its content are lost, so it was copied without a check", path));
    }
    LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(comm_, mine));
    const std::set<std::uint32_t> suspects(all.begin(), all.end());
    if (suspects.empty()) return false;
    CopyReport report;
    report.from = ExpandPattern(from_, *suspects.begin());
    report.to = ExpandPattern(to_, *suspects.begin());
    report.changed = true;
    const std::string more = suspects.size() > 1 ? fmt::format(" (the same of {} more)", suspects.size() - 1) : "";
    report.status = {Code::kBusy, fmt::format("{}: has no sidecar of the last commit of its set, and another content than this commit{}: damage, or an "
                                              "older version. So the set was not copied. What to do: lzy-verify {}", report.from, more, ShellQuote(from_))};
    finished_(std::move(report));
    report_.warnings.clear();  // they say that members were copied
    return true;
  }

  // With salvage, the other members were copied.
  void ReportMissing(bool protect) {
    for (const std::uint32_t member : missing_) {
      CopyReport report;
      report.from = ExpandPattern(from_, member);
      report.to = ExpandPattern(to_, member);
      report.status = {Code::kBeyondRepair,
                       elsewhere_.empty()
                           ? fmt::format("{}: is missing, so it was not copied; if it can be rebuilt: lzy-restore '{}'", report.from, from_)
                           : fmt::format("{}: is not visible from here, so it was not copied", report.from)};
      finished_(std::move(report));
    }
    if (missing_.empty() || !protect) return;
    report_.warnings.push_back(fmt::format("{}: is not protected, because it lacks members", to_));
  }

  CopyReport CopyMember(const Context& alone, std::uint32_t member) {
    const std::string from = PathOf(member);
    const std::string to = ExpandPattern(to_, member);
    if (const Status made = context_.fs.MakeDirectories(DirectoryOf(to)); !made.ok()) {
      CopyReport report;
      report.from = from;
      report.to = to;
      report.status = {Code::kWriteFailed, made.message()};
      return report;
    }
    return CopyFile(alone, from, to, request_);
  }

  // Reads the copies again. If they have changed, the root differs.
  Status ProtectCopies() {
    LZY_ASSIGN_OR_RETURN(const auto found, ResolvePath(context_.fs, comm_, to_, Resolve::kProtectable));
    if (found.size() != 1) return {Code::kInternal, fmt::format("{}: stands for {} datasets", to_, found.size())};
    const Context context{context_.fs, comm_, options_, context_.progress, context_.stop};
    ProtectRequest request;
    request.origin_known = true;
    // If all copies were compared with the hashes of their set, it does not matter what older sidecars in the destination say of them.
    request.force = source_root_ && all_compared_;
    const DatasetReport done = Protect(context, found[0], request);
    // With `force` they are about an older copy.
    if (!request.force) report_.warnings.insert(report_.warnings.end(), done.warnings.begin(), done.warnings.end());
    LZY_RETURN_IF_ERROR(done.status);
    if (!done.repair_first.empty()) {
      std::string files;
      for (const std::string& file : done.repair_first) files += fmt::format(" {}", ShellQuote(file));
      if (done.state != DatasetState::kDamaged) {
        return {Code::kWriteFailed, fmt::format("{}: was copied, but not protected: by the sidecars that they have, copies are not to be committed; a "
                                                "warning says why. See first what is to be done: lzy-verify{}", to_, files)};
      }
      return {Code::kWriteFailed, fmt::format("{}: was copied, but not protected: copies that were protected one by one are damaged; repair "
                                              "them first: lzy-verify --repair{}", to_, files)};
    }
    if (done.devices != report_.members) {
      return {Code::kWriteFailed, fmt::format("{}: was copied, but {} members were protected instead of {}: somebody else makes files there",
                                              to_, done.devices, report_.members)};
    }
    if (done.state != DatasetState::kIntact) {
      return {Code::kWriteFailed,
              fmt::format("{}: was copied, but not protected: some of it is damaged already; see lzy-verify", to_)};
    }
    if (request.force && *source_root_ != done.root) {
      return {Code::kWriteFailed, fmt::format("{}: was copied and protected, but the copies were changed in between; see lzy-diff --deep {} {}", to_,
                                              ShellQuote(from_), ShellQuote(to_))};
    }
    report_.root = done.root.Hex();
    report_.same_root = source_root_ && *source_root_ == done.root;
    return Status::Ok();
  }

  const Context& context_;
  Communicator& comm_;
  const std::string& from_;
  const std::string& to_;
  CopyRequest request_;
  const std::function<void(CopyReport)>& finished_;
  CopySetReport& report_;
  DatasetRef source_;
  Options options_;  // of the copies' protection
  std::uint32_t committed_members_ = 0;  // of the source; 0: it is not protected
  std::optional<Hash> source_root_;
  bool all_compared_ = true;  // each block of each copy, with its committed hash
  std::map<std::uint32_t, MemberRule> rules_;  // of the members of the source, if it is protected
  std::vector<std::uint32_t> first_of_;        // members for which this rank is the first that sees them
  std::vector<std::pair<std::uint32_t, std::vector<int>>> mine_;  ///< members to copy; the ranks that see them, if this one does not
  std::vector<std::uint32_t> missing_;  ///< members that the source has lost, or that no rank sees
  std::vector<std::string> elsewhere_;  ///< the nodes that have all members, if some may be on nodes without a rank
  bool apart_ = false;  ///< a rank copies a member that it does not see
  bool failed_ = false;
};

}  // namespace

CopySetReport CopySet(const Context& context, const std::string& from, const std::string& to,
                      const CopyRequest& request, const std::function<void(CopyReport)>& finished) {
  CopySetReport report;
  report.status = NoThrow([&] { return SetCopier(context, from, to, request, finished, report).Run(request.protect); });
  return report;
}

}  // namespace lzy
