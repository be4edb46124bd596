#include "diff/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <set>

#include "base/printable.h"
#include "comm/records.h"
#include "dataset/sights.h"
#include "dataset/view.h"
#include "names/survey.h"
#include "remote/files.h"
#include "request/report.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// What one process sees of a named file or directory.
struct PathSight {
  bool sees = false;  ///< it sees the file or its sidecar
  bool there = false;  ///< it sees the file
  FileStat stat;
  LZY_FIELDS(sees, there, stat)
};

/// The ranks that compare two paths.
struct Meeting {
  int by = 0;       ///< the rank that compares; it sees A, and also B if `tells` is -1
  int tells = -1;   ///< the rank through which B is read; -1: none
};

/// What one process sees of a member.
struct MemberSight {
  std::uint32_t rank = 0;
  bool in_b = false;
  bool data = false;
  std::uint32_t members = 0;  ///< of the set, as its sidecar records it; 0: unknown
  LZY_FIELDS(rank, in_b, data, members)
};

std::string MissingText(const std::string& path) {
  return fmt::format("{}: it is missing, but its sidecar is there. Restore it with: lzy-restore {}", path, ShellQuote(path));
}

// One call of Diff on one rank. report_ has its results.
class Differ {
 public:
  Differ(const Context& context, bool deep, DiffReport& report)
      : context_(context), files_a_(&context.fs), files_b_(&context.fs), report_(report) {
    request_.deep = deep;
    request_.threads = ThreadsFor(context);
    request_.stop = context.stop;
    request_.progress = [this](std::uint64_t bytes) {
      const std::uint64_t done = compared_ += bytes;
      if (context_.progress) context_.progress("compare", done, 0);
    };
  }

  /// Compares files or directories. Collective.
  Status Named(const std::string& a, const std::string& b) {
    LZY_ASSIGN_OR_RETURN(const Meeting meeting, Meet(a, b));
    Status compared;
    const Status ran = WithFiles(meeting.tells >= 0, [&](Caller* caller) {
      if (context_.comm.rank() != meeting.by) return;
      const Elsewhere elsewhere(*this, caller, meeting.tells);
      compared = CompareNamed(a, b);
    });
    const Status done = Agree(context_.comm, ran.ok() ? compared : ran);
    LZY_RETURN_IF_ERROR(BroadcastRecord(context_.comm, report_, meeting.by));
    return done;
  }

  /// Compares two sets. Each rank may see other members of them. Collective.
  Status Sets(const std::string& a, const std::string& b) {
    report_.kind = DiffKind::kSets;
    std::vector<MemberSight> mine;
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
      for (const bool in_b : {false, true}) {
        const std::string& pattern = in_b ? b : a;
        LZY_RETURN_IF_ERROR(CheckPattern(pattern));
        if (!HasRankPlaceholder(pattern) || pattern.find('*') != std::string::npos) {
          return {Code::kInvalidArgument, fmt::format("{}: is not accepted: a set is compared with a set, each a pattern with %r and without '*'", pattern)};
        }
        LookForMembers(pattern, in_b, mine);
      }
      return Status::Ok();
    }));
    return CompareMembers(a, b, mine);
  }

 private:
  /// While an object of this class exists, files_b_ are the files of rank `tells`, which `caller` calls. If `caller` is
  /// null, they are the files of this rank.
  class Elsewhere {
   public:
    Elsewhere(Differ& differ, Caller* caller, int tells) : differ_(differ) {
      if (caller == nullptr || tells < 0) return;
      files_ = FilesOf(*caller, tells);
      differ_.files_b_ = files_.get();
    }
    ~Elsewhere() { differ_.files_b_ = &differ_.context_.fs; }
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;

   private:
    Differ& differ_;
    std::unique_ptr<FileSystem> files_;
  };

  // Runs `work`. If `of_others`, passes a Caller with which it can read files of other ranks; then this is collective.
  Status WithFiles(bool of_others, const std::function<void(Caller*)>& work) {
    if (of_others) return WithRemoteFiles(context_, [&](Caller& caller) { work(&caller); });
    return NoThrow([&] { work(nullptr); });
  }

  // Chooses the ranks. A rank that sees both compares, if there is one. Collective.
  Result<Meeting> Meet(const std::string& a, const std::string& b) {
    Meeting meeting;
    if (context_.comm.size() == 1) return meeting;
    std::array<PathSight, 2> mine;
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] { mine = {SightOf(a), SightOf(b)}; }));
    LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(context_.comm, mine));
    std::array<std::vector<int>, 2> seers;
    for (int rank = 0; rank < context_.comm.size(); ++rank) {
      for (std::size_t side = 0; side < 2; ++side) {
        if (all[static_cast<std::size_t>(rank)][side].sees) seers[side].push_back(rank);
      }
    }
    std::vector<int> both;
    std::ranges::set_intersection(seers[0], seers[1], std::back_inserter(both));
    if (!both.empty()) {
      meeting.by = both[0];
    } else if (!seers[0].empty()) {
      meeting.by = seers[0][0];
      if (!seers[1].empty()) meeting.tells = seers[1][0];
    } else if (!seers[1].empty()) {
      meeting.by = seers[1][0];
    }
    if (context_.comm.rank() != meeting.by) return meeting;
    for (std::size_t side = 0; side < 2; ++side) {
      const int counts = side == 1 && meeting.tells >= 0 ? meeting.tells : meeting.by;
      const auto sight = [&](int rank) { return all[static_cast<std::size_t>(rank)][side]; };
      for (const int rank : seers[side]) {
        if (!sight(counts).there || !sight(rank).there || LooksSame(sight(counts).stat, sight(rank).stat)) continue;
        report_.warnings.push_back(fmt::format("{}: ranks {} and {} see different files there; what rank {} sees was compared",
                                               side == 0 ? a : b, counts, rank, counts));
        break;
      }
    }
    return meeting;
  }

  PathSight SightOf(const std::string& path) {
    const auto stat = context_.fs.Stat(path);
    if (stat.ok()) return {true, true, *stat};
    return {stat.status().code() == Code::kNotFound && HasSidecar(context_.fs, path), false, {}};
  }

  // Compares two paths. This rank sees at least `a`, or no rank does.
  Status CompareNamed(std::string a, std::string b) {
    LZY_ASSIGN_OR_RETURN(const auto in_a, Look(*files_a_, a));
    LZY_ASSIGN_OR_RETURN(const auto in_b, Look(*files_b_, b));
    LZY_RETURN_IF_ERROR(CheckThere(a, in_a, b, in_b));
    const bool dir_a = IsDirectory(in_a), dir_b = IsDirectory(in_b);
    if (dir_a && dir_b) {
      report_.kind = DiffKind::kDirectories;
      if (in_a->file_system == in_b->file_system && in_a->inode == in_b->inode) WarnOfOne(a, b);
      Directories(a, b, "");
      return Stopped();
    }
    if (dir_a) a = JoinPath(a, BaseNameOf(b));
    if (dir_b) b = JoinPath(b, BaseNameOf(a));
    report_.a = a;
    report_.b = b;
    LZY_ASSIGN_OR_RETURN(const auto file_a, dir_a ? Look(*files_a_, a) : in_a);
    LZY_ASSIGN_OR_RETURN(const auto file_b, dir_b ? Look(*files_b_, b) : in_b);
    if (IsDirectory(file_a) || IsDirectory(file_b)) {
      return {Code::kInvalidArgument, fmt::format("{}: is a directory, and {} is a file", IsDirectory(file_a) ? a : b,
                                                  IsDirectory(file_a) ? b : a)};
    }
    LZY_RETURN_IF_ERROR(CheckThere(a, file_a, b, file_b));
    if (file_a && file_b && file_a->file_system == file_b->file_system && file_a->inode == file_b->inode) WarnOfOne(a, b);
    Pair("", a, b, file_a.has_value(), file_b.has_value(), nullptr, nullptr);
    return Stopped();
  }

  // A file that is missing and has no sidecar is a wrong path.
  Status CheckThere(const std::string& a, const std::optional<FileStat>& in_a, const std::string& b, const std::optional<FileStat>& in_b) {
    const bool wrong_a = !in_a && !HasSidecar(*files_a_, a), wrong_b = !in_b && !HasSidecar(*files_b_, b);
    if (!wrong_a && !wrong_b) return Status::Ok();
    return {Code::kInvalidArgument, fmt::format("{}: there is no such file or directory", wrong_a ? a : b)};
  }

  static bool IsDirectory(const std::optional<FileStat>& stat) { return stat && stat->type == FileStat::Type::kDirectory; }
  Status Stopped() const {
    return context_.stop && context_.stop() ? Status(Code::kInterrupted, "interrupted") : Status::Ok();
  }

  /// nullopt if nothing has that name.
  static Result<std::optional<FileStat>> Look(FileSystem& fs, const std::string& path) {
    const auto stat = fs.Stat(path);
    if (stat.ok()) return std::optional(*stat);
    if (stat.status().code() == Code::kNotFound) return std::optional<FileStat>();
    return stat.status();
  }
  static bool HasSidecar(FileSystem& fs, const std::string& path) { return FindSidecar(fs, path).ok(); }
  void WarnOfOne(const std::string& a, const std::string& b) {
    report_.warnings.push_back(fmt::format("{} and {} are one and the same", a, b));
  }

  void Take(FileDiff diff) {
    if (diff.verdict == DiffVerdict::kSame) {
      ++report_.same;
      report_.same_bytes += diff.bytes_a;
    } else if (diff.status.code() != Code::kInterrupted) {
      report_.differences.push_back(std::move(diff));
    }
  }

  // Compares two files; at least one should exist.
  void Pair(const std::string& name, const std::string& a, const std::string& b, bool is_a, bool is_b, Directory* in_a, Directory* in_b) {
    Take(Compared(name, a, b, is_a, is_b, in_a, in_b));
  }

  FileDiff Compared(const std::string& name, const std::string& a, const std::string& b, bool is_a, bool is_b, Directory* in_a,
                    Directory* in_b) {
    if (is_a && is_b) {
      FileDiff diff = DiffFiles(context_.options, {*files_a_, a, in_a}, {*files_b_, b, in_b, files_b_ != files_a_}, request_);
      diff.name = name;
      return diff;
    }
    FileDiff diff;
    diff.name = name;
    diff.a = a;
    diff.b = b;
    if (is_a || is_b) {
      diff.verdict = is_a ? DiffVerdict::kOnlyA : DiffVerdict::kOnlyB;
      if (const auto stat = (is_a ? files_a_ : files_b_)->Stat(is_a ? a : b); stat.ok()) (is_a ? diff.bytes_a : diff.bytes_b) = stat->size;
      const std::string& missing = is_a ? b : a;
      if (HasSidecar(is_a ? *files_b_ : *files_a_, missing)) diff.warnings.push_back(MissingText(missing));
    } else {
      diff.status = {Code::kUnprotected, fmt::format("{} and {} are both missing, and a sidecar tells that there was such a file. Restore them with: "
                                                     "lzy-restore", a, b)};
    }
    return diff;
  }

  // Names of the files of a directory, including lost ones.
  std::set<std::string> NamesIn(Directory& directory) {
    std::set<std::string> names;
    const auto all = directory.Names();
    if (!all.ok()) {
      FileDiff diff;
      diff.a = diff.b = directory.PathOf("");
      diff.status = all.status();
      report_.differences.push_back(std::move(diff));
      return names;
    }
    for (const std::string& name : **all) {
      if (!IsLzyName(name)) {
        names.insert(name);
      } else if (const auto data = DataPathOf(name); data && !directory.UserOf(name)) {
        names.insert(*data);
      }
    }
    return names;
  }

  void Directories(const std::string& a, const std::string& b, const std::string& below) {
    std::vector<std::string> further;
    {
      Directory in_a(*files_a_, a), in_b(*files_b_, b);
      std::set<std::string> names = NamesIn(in_a);
      names.merge(NamesIn(in_b));
      for (const std::string& name : names) {
        if (!Stopped().ok()) return;
        if (Entry(in_a, in_b, name, JoinPath(below, name))) further.push_back(name);
      }
    }
    for (const std::string& name : further) Directories(JoinPath(a, name), JoinPath(b, name), JoinPath(below, name));
  }

  enum class Type { kNone, kFile, kDirectory, kLink, kOther };
  static Result<Type> TypeOf(FileSystem& fs, const std::string& path, std::string& text) {
    const auto stat = fs.Stat(path, /*follow=*/false);
    if (stat.status().code() == Code::kNotFound) return Type::kNone;
    LZY_RETURN_IF_ERROR(stat.status());
    if (stat->type == FileStat::Type::kRegular) return Type::kFile;
    if (stat->type == FileStat::Type::kDirectory) return Type::kDirectory;
    const auto link = fs.ReadLink(path);
    if (!link.ok()) return Type::kOther;
    text = *link;
    return Type::kLink;
  }

  // Compares one name in two directories. Returns true if it is a directory in both.
  bool Entry(Directory& in_a, Directory& in_b, const std::string& name, const std::string& below) {
    const std::string a = in_a.PathOf(name), b = in_b.PathOf(name);
    std::string text_a, text_b;
    const auto seen_a = TypeOf(*files_a_, a, text_a), seen_b = TypeOf(*files_b_, b, text_b);
    // An entry that cannot be examined may exist.
    if (!seen_a.ok() || !seen_b.ok()) {
      FileDiff unknown;
      unknown.name = below;
      unknown.a = a;
      unknown.b = b;
      unknown.status = seen_a.ok() ? seen_b.status() : seen_a.status();
      Take(std::move(unknown));
      return false;
    }
    const Type type_a = *seen_a, type_b = *seen_b;
    if (type_a == Type::kDirectory && type_b == Type::kDirectory) return true;
    const auto file_or_none = [](Type type) { return type == Type::kFile || type == Type::kNone; };
    if (file_or_none(type_a) && file_or_none(type_b)) {
      Pair(below, a, b, type_a == Type::kFile, type_b == Type::kFile, &in_a, &in_b);
      return false;
    }
    FileDiff diff;
    diff.a = a;
    diff.b = b;
    diff.name = below;
    const Type either = type_a == Type::kNone ? type_b : type_a;
    if (either == Type::kDirectory && (type_a == Type::kNone || type_b == Type::kNone)) diff.name += '/';
    if (type_a == Type::kNone || type_b == Type::kNone) {
      diff.verdict = type_a == Type::kNone ? DiffVerdict::kOnlyB : DiffVerdict::kOnlyA;
    } else if (type_a == Type::kLink && type_b == Type::kLink) {
      diff.verdict = text_a == text_b ? DiffVerdict::kSame : DiffVerdict::kDifferent;
      diff.ranges_known = false;
      diff.status = text_a == text_b ? Status::Ok() : Status(Code::kInvalidArgument, fmt::format("{} leads to '{}', {} to '{}'", a, text_a, b, text_b));
    } else if (type_a != type_b) {
      constexpr const char* kTypes[] = {"missing", "a file", "a directory", "a symbolic link", "a special file"};
      diff.verdict = DiffVerdict::kDifferent;
      diff.ranges_known = false;
      diff.status = {Code::kInvalidArgument, fmt::format("{} is {}, {} is {}", a, kTypes[static_cast<int>(type_a)], b, kTypes[static_cast<int>(type_b)])};
    } else {
      diff.status = {Code::kIo, fmt::format("{}: is neither a file nor a directory nor a symbolic link; it was not compared", a)};
    }
    Take(std::move(diff));
    return false;
  }

  void LookForMembers(const std::string& pattern, bool in_b, std::vector<MemberSight>& mine) {
    Survey survey(context_.fs, Resolve::kProtectable);
    for (const auto& [rank, member] : survey.MembersOf(pattern)) {
      const bool set = member.peek && member.peek->committed && member.peek->kind == DatasetKind::kSet;
      mine.push_back({rank, in_b, context_.fs.Stat(member.path).ok(), set ? member.peek->members : 0});
    }
  }

  /// For one member: the processes that see its data in A and in B.
  struct Seen {
    std::set<int> a, b;
    /// Chooses the ranks for this member: one that sees both; if there is none, one that sees A reads through one that sees
    /// B. Members are dealt by rank. Rank 0 if there is nothing to read.
    Meeting Meet(std::uint32_t rank) const {
      std::vector<int> both;
      std::ranges::set_intersection(a, b, std::back_inserter(both));
      const auto one_of = [&](const auto& processes) { return *std::next(processes.begin(), static_cast<std::ptrdiff_t>(rank % processes.size())); };
      if (!both.empty()) return {one_of(both)};
      if (!a.empty()) return {one_of(a), b.empty() ? -1 : one_of(b)};
      return {b.empty() ? 0 : one_of(b)};
    }
  };

  // The members of one side whose data each process sees. Copies of an older commit do not count.
  Result<std::vector<std::vector<std::uint32_t>>> WhoSees(const std::string& pattern, bool in_b,
                                                          const std::vector<std::vector<MemberSight>>& all) {
    std::vector<std::vector<std::uint32_t>> seen(all.size());
    for (std::size_t process = 0; process < all.size(); ++process) {
      for (const MemberSight& sight : all[process]) {
        if (sight.in_b == in_b && sight.data) seen[process].push_back(sight.rank);
      }
    }
    DatasetRef set{DatasetKind::kSet, pattern, {}};
    for (const std::uint32_t rank : seen[static_cast<std::size_t>(context_.comm.rank())]) set.members[rank] = ExpandPattern(pattern, rank);
    LZY_RETURN_IF_ERROR(DropOldSights(context_, set, seen));
    return seen;
  }

  Status CompareMembers(const std::string& a, const std::string& b, const std::vector<MemberSight>& mine) {
    LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(context_.comm, mine));
    std::map<std::uint32_t, Seen> members;
    for (std::size_t process = 0; process < all.size(); ++process) {
      for (const MemberSight& sight : all[process]) {
        members.try_emplace(sight.rank);
        for (std::uint32_t rank = 0; rank < sight.members; ++rank) members.try_emplace(rank);
      }
    }
    for (const bool in_b : {false, true}) {
      LZY_ASSIGN_OR_RETURN(const auto seen, WhoSees(in_b ? b : a, in_b, all));
      for (std::size_t process = 0; process < seen.size(); ++process) {
        for (const std::uint32_t rank : seen[process]) (in_b ? members[rank].b : members[rank].a).insert(static_cast<int>(process));
      }
    }
    if (members.empty()) return {Code::kInvalidArgument, fmt::format("{} and {}: nothing matches them", a, b)};
    const bool apart = std::ranges::any_of(members, [](const auto& member) { return member.second.Meet(member.first).tells >= 0; });
    const Status ran = WithFiles(apart, [&](Caller* caller) {
      for (const auto& [rank, seen] : members) CompareMember(a, b, rank, seen.Meet(rank), seen, caller);
    });
    LZY_RETURN_IF_ERROR(Agree(context_.comm, ran));
    DiffReport here = std::move(report_);
    LZY_ASSIGN_OR_RETURN(const auto reports, AllGatherRecords(context_.comm, here));
    report_ = DiffReport();
    report_.kind = DiffKind::kSets;
    for (const DiffReport& one : reports) {
      report_.same += one.same;
      report_.same_bytes += one.same_bytes;
      std::ranges::copy(one.differences, std::back_inserter(report_.differences));
    }
    std::ranges::sort(report_.differences, {}, [](const FileDiff& diff) { return std::stoull(diff.name); });
    const auto stopped = context_.comm.AllReduceMax(!Stopped().ok());
    LZY_RETURN_IF_ERROR(stopped.status());
    return *stopped != 0 ? Status(Code::kInterrupted, "interrupted") : Status::Ok();
  }

  void CompareMember(const std::string& a, const std::string& b, std::uint32_t rank, const Meeting& meeting, const Seen& seen, Caller* caller) {
    if (meeting.by != context_.comm.rank() || !Stopped().ok()) return;
    const Elsewhere elsewhere(*this, caller, meeting.tells);
    Pair(std::to_string(rank), ExpandPattern(a, rank), ExpandPattern(b, rank), !seen.a.empty(), !seen.b.empty(), nullptr, nullptr);
  }

  const Context& context_;
  FileSystem* const files_a_;
  FileSystem* files_b_;  // other files while an Elsewhere exists
  DiffReport& report_;
  FileDiffRequest request_;
  std::atomic<std::uint64_t> compared_ = 0;
};

}  // namespace

int ExitCodeOf(const DiffReport& report) {
  if (!report.status.ok()) return ExitCodeOf(report.status);
  int code = 0;
  // If one of several pairs was refused, it could not be judged.
  constexpr int kUsage = 3, kNoSidecar = 4;
  const bool several = report.same + report.differences.size() > 1;
  for (const FileDiff& diff : report.differences) {
    const int one = ExitCodeOf(diff);
    code = CombineExitCodes(code, several && one == kUsage ? kNoSidecar : one);
  }
  return code;
}

DiffReport Diff(const Context& context, const std::string& a, const std::string& b, bool deep) {
  DiffReport report;
  report.a = a;
  report.b = b;
  const Status status = NoThrow([&]() -> Status {
    Differ differ(context, deep, report);
    if (HasRankPlaceholder(a) || HasRankPlaceholder(b)) return differ.Sets(a, b);
    return differ.Named(a, b);
  });
  report.status = status;
  if (report.kind == DiffKind::kSets) {
    report.a = a;
    report.b = b;
  }
  return report;
}

}  // namespace lzy
