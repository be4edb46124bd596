#include "diff/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>

#include "base/printable.h"
#include "comm/records.h"
#include "dataset/view.h"
#include "names/survey.h"
#include "request/report.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// Of a member of a set, what one process sees of it.
struct Sight {
  std::uint32_t rank = 0;
  bool in_b = false;
  bool data = false;
  std::uint32_t members = 0;  ///< of the set, as its sidecar records it; 0: unknown
  LZY_FIELDS(rank, in_b, data, members)
};

std::string MissingText(const std::string& path) {
  return fmt::format("{}: it is missing, but its sidecar is there. Restore it with: lzy-restore {}", path, ShellQuote(path));
}

// One call of Diff on one rank. What it finds here is in report_.
class Differ {
 public:
  Differ(const Context& context, bool deep, DiffReport& report)
      : context_(context), fs_(context.fs), report_(report) {
    request_.deep = deep;
    request_.threads = ThreadsFor(context);
    request_.stop = context.stop;
    request_.progress = [this](std::uint64_t bytes) {
      const std::uint64_t done = compared_ += bytes;
      if (context_.progress) context_.progress("compare", done, 0);
    };
  }

  /// Files or directories. Local.
  Status Named(std::string a, std::string b) {
    LZY_ASSIGN_OR_RETURN(const auto in_a, Look(a));
    LZY_ASSIGN_OR_RETURN(const auto in_b, Look(b));
    const bool dir_a = IsDirectory(in_a), dir_b = IsDirectory(in_b);
    if (dir_a && dir_b) {
      report_.kind = DiffKind::kDirectories;
      if (in_a->device == in_b->device && in_a->inode == in_b->inode) WarnOfOne(a, b);
      Directories(a, b, "");
      return Stopped();
    }
    if (dir_a) a = JoinPath(a, BaseNameOf(b));
    if (dir_b) b = JoinPath(b, BaseNameOf(a));
    report_.a = a;
    report_.b = b;
    LZY_ASSIGN_OR_RETURN(const auto file_a, dir_a ? Look(a) : in_a);
    LZY_ASSIGN_OR_RETURN(const auto file_b, dir_b ? Look(b) : in_b);
    if (IsDirectory(file_a) || IsDirectory(file_b)) {
      return {Code::kInvalidArgument, fmt::format("{}: is a directory, and {} is a file", IsDirectory(file_a) ? a : b,
                                                  IsDirectory(file_a) ? b : a)};
    }
    // A file that is missing, without a sidecar that would tell of it, is a wrong path.
    for (const auto& [file, path] : {std::pair(file_a, a), std::pair(file_b, b)}) {
      if (!file && !HasSidecar(path)) return {Code::kInvalidArgument, fmt::format("{}: there is no such file or directory", path)};
    }
    if (file_a && file_b && file_a->device == file_b->device && file_a->inode == file_b->inode) WarnOfOne(a, b);
    Pair("", a, b, file_a.has_value(), file_b.has_value(), nullptr, nullptr);
    return Stopped();
  }

  /// Sets, of which each rank may see other members. Collective.
  Status Sets(const std::string& a, const std::string& b) {
    report_.kind = DiffKind::kSets;
    std::vector<Sight> mine;
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
  static bool IsDirectory(const std::optional<FileStat>& stat) { return stat && stat->type == FileStat::Type::kDirectory; }
  Status Stopped() const {
    return context_.stop && context_.stop() ? Status(Code::kInterrupted, "interrupted") : Status::Ok();
  }

  /// nullopt: there is nothing of that name.
  Result<std::optional<FileStat>> Look(const std::string& path) {
    const auto stat = fs_.Stat(path);
    if (stat.ok()) return std::optional(*stat);
    if (stat.status().code() == Code::kNotFound) return std::optional<FileStat>();
    return stat.status();
  }
  bool HasSidecar(const std::string& path) { return FindSidecar(fs_, path).ok(); }
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

  // Two files of which at least one should be there.
  void Pair(const std::string& name, const std::string& a, const std::string& b, bool is_a, bool is_b, Directory* in_a, Directory* in_b) {
    Take(Compared(name, a, b, is_a, is_b, in_a, in_b));
  }

  FileDiff Compared(const std::string& name, const std::string& a, const std::string& b, bool is_a, bool is_b, Directory* in_a,
                    Directory* in_b) {
    if (is_a && is_b) {
      FileDiff diff = DiffFiles(fs_, context_.options, a, b, request_, in_a, in_b);
      diff.name = name;
      return diff;
    }
    FileDiff diff;
    diff.name = name;
    diff.a = a;
    diff.b = b;
    if (is_a || is_b) {
      diff.verdict = is_a ? DiffVerdict::kOnlyA : DiffVerdict::kOnlyB;
      if (const auto stat = fs_.Stat(is_a ? a : b); stat.ok()) (is_a ? diff.bytes_a : diff.bytes_b) = stat->size;
      const std::string& missing = is_a ? b : a;
      if (HasSidecar(missing)) diff.warnings.push_back(MissingText(missing));
    } else {
      diff.status = {Code::kUnprotected, fmt::format("{} and {} are both missing, and a sidecar tells that there was such a file. Restore them with: "
                                                     "lzy-restore", a, b)};
    }
    return diff;
  }

  // Names of what a directory has, or has lost.
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
      Directory in_a(fs_, a), in_b(fs_, b);
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
  Result<Type> TypeOf(const std::string& path, std::string& text) {
    const auto stat = fs_.Stat(path, /*follow=*/false);
    if (stat.status().code() == Code::kNotFound) return Type::kNone;
    LZY_RETURN_IF_ERROR(stat.status());
    if (stat->type == FileStat::Type::kRegular) return Type::kFile;
    if (stat->type == FileStat::Type::kDirectory) return Type::kDirectory;
    const auto link = fs_.ReadLink(path);
    if (!link.ok()) return Type::kOther;
    text = *link;
    return Type::kLink;
  }

  // One name of two directories. True if it is a directory in both.
  bool Entry(Directory& in_a, Directory& in_b, const std::string& name, const std::string& below) {
    const std::string a = in_a.PathOf(name), b = in_b.PathOf(name);
    std::string text_a, text_b;
    const auto seen_a = TypeOf(a, text_a), seen_b = TypeOf(b, text_b);
    // What cannot be looked at may be there.
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

  void LookForMembers(const std::string& pattern, bool in_b, std::vector<Sight>& mine) {
    Survey survey(fs_, Resolve::kProtectable);
    for (const auto& [rank, member] : survey.MembersOf(pattern)) {
      const bool set = member.peek && member.peek->committed && member.peek->kind == DatasetKind::kSet;
      mine.push_back({rank, in_b, fs_.Stat(member.path).ok(), set ? member.peek->members : 0});
    }
  }

  /// By member: the processes that see its data in A and in B.
  struct Seen {
    std::set<std::size_t> a, b;
  };

  Status CompareMembers(const std::string& a, const std::string& b, const std::vector<Sight>& mine) {
    LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(context_.comm, mine));
    std::map<std::uint32_t, Seen> members;
    for (std::size_t process = 0; process < all.size(); ++process) {
      for (const Sight& sight : all[process]) {
        Seen& seen = members[sight.rank];
        if (sight.data) (sight.in_b ? seen.b : seen.a).insert(process);
        for (std::uint32_t rank = 0; rank < sight.members; ++rank) members.try_emplace(rank);
      }
    }
    if (members.empty()) return {Code::kInvalidArgument, fmt::format("{} and {}: nothing matches them", a, b)};
    for (const auto& [rank, seen] : members) CompareMember(a, b, rank, seen);
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

  // By one of the processes that see both; by rank 0 if there is nothing to read.
  void CompareMember(const std::string& a, const std::string& b, std::uint32_t rank, const Seen& seen) {
    if (!Stopped().ok()) return;
    std::vector<std::size_t> able;
    std::ranges::set_intersection(seen.a, seen.b, std::back_inserter(able));
    const std::size_t by = able.empty() ? 0 : able[rank % able.size()];
    if (by != static_cast<std::size_t>(context_.comm.rank())) return;
    const std::string in_a = ExpandPattern(a, rank), in_b = ExpandPattern(b, rank), name = std::to_string(rank);
    if (able.empty() && !seen.a.empty() && !seen.b.empty()) {
      FileDiff diff;
      diff.name = name;
      diff.a = in_a;
      diff.b = in_b;
      diff.status = {Code::kIo, fmt::format("no process sees both {} and {}. Copies on disks of different nodes cannot be compared yet", in_a, in_b)};
      return Take(std::move(diff));
    }
    Pair(name, in_a, in_b, !seen.a.empty(), !seen.b.empty(), nullptr, nullptr);
  }

  const Context& context_;
  FileSystem& fs_;
  DiffReport& report_;
  FileDiffRequest request_;
  std::atomic<std::uint64_t> compared_ = 0;
};

}  // namespace

int ExitCodeOf(const DiffReport& report) {
  if (!report.status.ok()) return ExitCodeOf(report.status);
  int code = 0;
  // One pair that was refused among others is one that could not be judged.
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
    const Status named = AgreeOn(context.comm, [&] { return context.comm.rank() == 0 ? differ.Named(a, b) : Status::Ok(); });
    LZY_RETURN_IF_ERROR(BroadcastRecord(context.comm, report));
    return named;
  });
  report.status = status;
  if (report.kind == DiffKind::kSets) {
    report.a = a;
    report.b = b;
  }
  return report;
}

}  // namespace lzy
