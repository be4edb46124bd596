#include "common/failure_advice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "base/printable.h"
#include "common/moved_files.h"
#include "common/paths.h"
#include "common/set_aside.h"
#include "names/content_match.h"
#include "names/former_names.h"
#include "names/provers.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// The data files of a dataset that this process knows.
std::vector<std::string> FilesOf(const DatasetRef& dataset) {
  std::vector<std::string> files;
  if (dataset.kind == DatasetKind::kShared) files.push_back(dataset.path);
  for (const auto& [rank, path] : dataset.members) files.push_back(path);
  return files;
}

/// A sidecar of the dataset that exists but cannot be read; empty if there is none.
std::string RuinedSidecar(FileSystem& fs, const DatasetRef& dataset) {
  for (const std::string& file : FilesOf(dataset)) {
    const auto sidecar = FindSidecar(fs, file);
    if (sidecar.ok() && !PeekSidecar(fs, *sidecar).ok()) return *sidecar;
  }
  return "";
}

// True if any file of the dataset has a sidecar, readable or not.
bool HasSidecar(FileSystem& fs, const DatasetRef& dataset) {
  return std::ranges::any_of(FilesOf(dataset), [&](const std::string& file) { return FindSidecar(fs, file).ok(); });
}

// False only if permission is missing. Other failures, such as a missing file, are not about permission.
bool MayAccess(const std::string& path, int mode) {
  return faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0 || errno != EACCES;
}

/// An object with the name of a sidecar that cannot be one, such as a directory. While it exists, no other advice helps.
std::string Obstacle(FileSystem& fs, const DatasetRef& dataset) {
  for (const std::string& file : FilesOf(dataset)) {
    const auto sidecar = SidecarPath(file);
    const auto stat = sidecar.ok() ? fs.Stat(*sidecar, /*follow=*/false) : Result<FileStat>(sidecar.status());
    if (!stat.ok() || stat->type == FileStat::Type::kRegular) continue;
    return fmt::format("  {} has the name that the sidecar must have: rename it, for example: mv -n {} {}\n", Printable(*sidecar), ShellQuote(*sidecar),
                       ShellQuote(FreeName(fs, file)));
  }
  return "";
}

/// After an I/O error: says which file may not be read, or that nothing can be written beside the data.
std::string PlaceAdvice(FileSystem& fs, const DatasetReport& report, const DatasetRef& dataset, Action action) {
  if (report.status.code() != Code::kIo && report.status.code() != Code::kWriteFailed) return "";
  for (const std::string& file : FilesOf(dataset)) {
    const auto sidecar = FindSidecar(fs, file);
    // Data and sidecar may have different owners.
    for (const std::string& path : {file, sidecar.ok() ? *sidecar : file}) {
      if (MayAccess(path, R_OK)) continue;
      return fmt::format("  you have no permission to read {}: ask its owner to run this command, or to let you read it\n", Printable(path));
    }
  }
  // These write nothing.
  if (action == Action::kVerify || action == Action::kInfo) return "";
  const std::vector<std::string> files = FilesOf(dataset);
  const std::string some = files.empty() ? dataset.path : files[0];
  const std::string directory = DirectoryOf(some);
  // A read-only mount comes before permissions: no permission helps there.
  struct statvfs system {};
  if (statvfs(directory.c_str(), &system) == 0 && (system.f_flag & ST_RDONLY) != 0) {
    return fmt::format(
        "  {} is on a file system that is mounted read-only. lzy-verify and lzy-info work there; for anything else, mount it "
        "for writing, or copy data and sidecars elsewhere\n",
        Printable(some));
  }
  if (MayAccess(directory, W_OK)) return "";
  return fmt::format(
      "  you have no permission to write to {}, where the sidecars are. lzy-verify and lzy-info work there; for anything else, "
      "ask its owner to run this command, or to let you write there\n",
      Printable(directory));
}

bool SameRealPath(FileSystem& fs, const std::string& a, const std::string& b) {
  const auto real_a = fs.RealPath(a), real_b = fs.RealPath(b);
  return real_a.ok() && real_b.ok() && *real_a == *real_b;
}

/// The path that a member had at its commit. It may be in another directory now, if the pattern has directories: the first one counts that
/// is there.
std::string FormerPath(FileSystem& fs, const std::string& path, const Peek& peek) {
  const std::string name = ExpandPattern(peek.name, peek.rank);
  std::string base = DirectoryOf(path);
  for (auto left = std::ranges::count(name, '/'); left >= 0; --left, base = DirectoryOf(base)) {
    std::string former = JoinPath(base, name);
    if (fs.Stat(DirectoryOf(former)).ok()) return former;
  }
  return JoinPath(DirectoryOf(path), BaseNameOf(name));
}

/// For a file beside the sidecar `beside` of a member of a set, while `its` proves what the file holds. `members`: the name that the sidecar of
/// the member must have. Nothing is overwritten.
std::string ExchangeAdvice(FileSystem& fs, const std::string& beside, const std::string& its, const std::string& members) {
  const std::string away = beside + ".away";
  const bool same = SameRealPath(fs, its, members);
  std::string moves = fmt::format("mv -n {} {} && mv -n {} {}", ShellQuote(beside), ShellQuote(away), ShellQuote(its), ShellQuote(beside));
  if (same || !fs.Stat(members, /*follow=*/false).ok()) moves += fmt::format(" && mv -n {} {}", ShellQuote(away), ShellQuote(members));
  return fmt::format("  by its content the file is not that member: it has the sidecar of another file. To give it its own: {}\n", moves);
}

/// For a file that was a member of a set, and has another name now. It may be damaged: then lzy-protect would refuse it, and only
/// under its name in the set it can be repaired.
std::string RenamedMemberAdvice(FileSystem& fs, const DatasetReport& report, const std::string& repeated) {
  const auto sidecar = FindSidecar(fs, report.path);
  const auto peek = sidecar.ok() ? PeekSidecar(fs, *sidecar) : Result<Peek>(sidecar.status());
  const auto stat = fs.Stat(report.path);
  if (!peek.ok() || peek->kind != DatasetKind::kSet || !stat.ok()) return "";
  const std::string former = FormerPath(fs, report.path, *peek);
  const auto own = SidecarPath(former);
  if (former == report.path) return OlderSetAdvice(fs, report.path, *peek);
  if (!own.ok()) return "";
  std::string moves;
  const auto move = [&](const std::string& from, const std::string& to) {
    if (from == to || fs.Stat(to, /*follow=*/false).ok()) return;
    moves += fmt::format("{}mv -n {} {}", moves.empty() ? "" : " && ", ShellQuote(from), ShellQuote(to));
  };
  if (!fs.Stat(former, /*follow=*/false).ok()) {
    move(report.path, former);
    move(JoinPath(DirectoryOf(report.path), BaseNameOf(*sidecar)), *own);
  }
  const bool fits = HasSizeAndTime(*stat, peek->stamp);
  const auto as_committed = fits ? HoldsCommitted(fs, report.path, *sidecar, nullptr) : Result<bool>(MayBe(*stat, peek->stamp));
  if (as_committed.ok() && !*as_committed) {
    // Only the sidecars changed places.
    if (const auto prover = FindProver(fs, report.path, *sidecar, nullptr); prover.ok() && *prover) {
      return ExchangeAdvice(fs, JoinPath(DirectoryOf(report.path), BaseNameOf(*sidecar)), (*prover)->sidecar, *own);
    }
  }
  if (fits && as_committed.ok() && !*as_committed) {
    const char* const what = "  it was a member of a set, and is damaged. Only under its name there can it be repaired";
    return moves.empty() ? fmt::format("{}: give it the name {} again, which another file has now\n", what, Printable(former))
                         : fmt::format("{}: {}\n", what, moves);
  }
  const std::string alone = fmt::format("to protect it alone: lzy-protect {}{}\n", repeated, ShellQuote(report.path));
  // For example, a file of an older commit that a restore kept. It must not replace the file that has the name now.
  if (fs.Stat(former, /*follow=*/false).ok()) return fmt::format("  it was {} before, and another file has that name now; {}", Printable(former), alone);
  return fmt::format("  if the file was renamed by mistake, rename it back: {}; {}", moves, alone);
}

// The object with the name of a lost file, and a free name for it.
std::string MoveAway(FileSystem& fs, const std::string& path) {
  return fmt::format("mv -n {} {}", ShellQuote(path), ShellQuote(FreeName(fs, path)));
}

// A link with the name of a lost file. If it leads to a file without a sidecar, the lost file may have been moved there. A
// member cannot be a link, so this is only for shared files.
std::string LinkText(FileSystem& fs, const std::string& path, DatasetKind kind) {
  const auto real = fs.RealPath(path);
  const auto sidecar = SidecarPath(path), there = SidecarPath(real.ok() ? *real : path);
  const bool free = kind == DatasetKind::kShared && real.ok() && sidecar.ok() && there.ok() && !fs.Stat(*there, /*follow=*/false).ok();
  std::string out;
  if (free) {
    out = fmt::format("  {} is a symbolic link to {} now; if the file was moved there, its sidecar belongs there, too: mv -n {} {}\n",
                      Printable(path), Printable(*real), ShellQuote(*sidecar), ShellQuote(*there));
  }
  return out + fmt::format("  {} is a symbolic link now; first move it away: {}\n", Printable(path), MoveAway(fs, path));
}

// A link that leads to no protected file, beside the sidecar of the file that had its name.
std::string LinkAdvice(FileSystem& fs, const DatasetRef& dataset, const std::string& repeated) {
  const auto sidecar = SidecarPath(dataset.path);
  const bool is_link = dataset.kind == DatasetKind::kShared && fs.ReadLink(dataset.path).ok() && sidecar.ok();
  const auto peek = is_link ? PeekSidecar(fs, *sidecar) : Result<Peek>(Code::kNotFound, dataset.path);
  if (!peek.ok()) return "";
  // Sidecars were exchanged. A restore of this name would not make its file.
  if (peek->kind == DatasetKind::kSet) {
    return fmt::format("  it is a symbolic link now, and {} is of a member of a set: give the sidecars their names back\n", Printable(*sidecar));
  }
  return fmt::format("{}  restore with: lzy-restore {}{}\n", LinkText(fs, dataset.path, dataset.kind), repeated, ShellQuote(dataset.path));
}

}  // namespace

std::string AdviceBeforeRestore(FileSystem& fs, const DatasetReport& report, const std::vector<HeldMember>& moved) {
  const std::set<std::string> lost = LostFiles(report);
  std::string out = OlderCommitAdvice(fs, report) + HeldMembersText(moved);
  for (const std::string& path : lost) {
    const auto there = fs.Stat(path, /*follow=*/false);
    if (!there.ok() || there->type == FileStat::Type::kRegular) continue;
    if (fs.ReadLink(path).ok()) {
      // A link to a protected file is in its place; the lost file is the one that the link leads to.
      const auto beside = SidecarPath(path);
      if (report.kind == DatasetKind::kSet || (beside.ok() && fs.Stat(*beside, /*follow=*/false).ok())) out += LinkText(fs, path, report.kind);
      continue;
    }
    const char* const what = there->type == FileStat::Type::kDirectory ? "a directory" : "no regular file";
    out += fmt::format("  {} is {} now; first move it away: {}\n", Printable(path), what, MoveAway(fs, path));
  }
  return out;
}

std::string NoSetAdvice(FileSystem& fs, const DatasetReport& report, const DatasetRef& dataset, const std::string& repeated) {
  constexpr std::size_t kMost = 8;
  const auto& members = dataset.members;
  const bool can_be = members.size() > 1 && members.rbegin()->first + 1 == members.size();
  if (dataset.kind != DatasetKind::kSet || report.generation != 0 || members.empty() || can_be) return "";
  std::string alone, bare;
  for (const auto& [rank, path] : members) {
    const auto sidecar = FindSidecar(fs, path);
    const auto peek = sidecar.ok() ? PeekSidecar(fs, *sidecar) : Result<Peek>(sidecar.status());
    // What is known of it is told elsewhere.
    if (sidecar.ok() && (!peek.ok() || peek->kind == DatasetKind::kSet)) return "";
    // lzy-protect refuses what may be a renamed, damaged file; lzy-verify says so.
    (sidecar.ok() || RottenAs(fs, path, nullptr) ? alone : bare) += " " + ShellQuote(path);
  }
  const char* const why = members.size() == 1 ? "  only one file matches, and a set has at least two." : "  a set has members 0 to p-1.";
  if (members.size() > kMost) return fmt::format("{} Name the files one by one\n", why);
  std::string out;
  if (!alone.empty()) out += fmt::format("{} To check what was protected alone: lzy-verify {}{}\n", why, repeated, alone.substr(1));
  if (!bare.empty()) out += fmt::format("{} To protect {} alone: lzy-protect {}{}\n", why, members.size() == 1 ? "it" : "files", repeated, bare.substr(1));
  return out;
}

std::string AdviceAfterFailure(FileSystem& fs, const DatasetReport& report, const DatasetRef& dataset, Action action,
                               const std::string& repeated, bool all_seen, const std::vector<HeldMember>& moved) {
  if (std::string obstacle = Obstacle(fs, dataset); !obstacle.empty()) return obstacle;
  if (report.status.code() == Code::kUnprotected) {
    if (std::string link = LinkAdvice(fs, dataset, repeated); !link.empty()) return link;
    if (dataset.kind == DatasetKind::kShared && fs.ReadLink(dataset.path).ok() && !fs.Stat(FollowLink(fs, dataset.path)).ok()) {
      return "  the link leads to no file: remove it, or make the file\n";
    }
    if (report.another) {
      if (std::string renamed = RenamedMemberAdvice(fs, report, repeated); !renamed.empty()) return renamed;
    }
    // The message says what to do.
    if (dataset.kind == DatasetKind::kShared && RottenAs(fs, FollowLink(fs, dataset.path), nullptr)) return "";
  }
  if (report.status.code() == Code::kUnprotected && all_seen) {
    if (std::string none = NoSetAdvice(fs, report, dataset, repeated); !none.empty()) return none;
  }
  const std::string ruined = RuinedSidecar(fs, dataset);
  // If the tool refused the action, its message has the reason and the advice.
  const bool refused = action == Action::kProtect || action == Action::kRemove;
  if (refused && report.status.code() == Code::kUnprotected && ruined.empty() && !report.unsealed) return "";
  return FailureAdvice(report, ruined, repeated, HasSidecar(fs, dataset)) +
         AdviceBeforeRestore(fs, report, moved) + PlaceAdvice(fs, report, dataset, action);
}

}  // namespace lzy
