#include "common/set_aside.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/printable.h"
#include "common/print.h"
#include "names/set_names.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// The most files in one command; if there are more, a sentence describes them.
constexpr std::size_t kMostFiles = 32;

struct Member {
  std::string path, sidecar;
  bool present = false;
  std::optional<FileStat> stat;
  std::optional<Peek> peek;  // of the sidecar that has its name
  bool any() const { return stat.has_value() || present; }
};

std::vector<Member> MembersOf(FileSystem& fs, const std::string& pattern, std::uint32_t count) {
  std::vector<Member> members;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    Member& member = members.emplace_back();
    member.path = ExpandPattern(pattern, rank);
    if (const auto stat = fs.Stat(member.path, /*follow=*/false); stat.ok()) member.stat = *stat;
    const auto own = SidecarPath(member.path);
    member.present = own.ok() && fs.Stat(*own, /*follow=*/false).ok();
    if (!member.present) continue;
    member.sidecar = *own;
    if (auto peek = PeekSidecar(fs, *own); peek.ok()) member.peek = *std::move(peek);
  }
  return members;
}

/// How to move these members and their sidecars away and to restore the set. A sentence where that is no single command: base
/// names of members in directories of their own may be the same.
std::string MoveAndRestore(FileSystem& fs, const std::vector<Member>& members, const std::string& pattern) {
  const std::string directory = DirectoryOf(members.front().path);
  std::string files, names;
  bool together = 2 * members.size() <= kMostFiles;
  for (const Member& member : members) {
    together = together && DirectoryOf(member.path) == directory;
    names += fmt::format("{}{}", names.empty() ? "" : " ", ShellQuote(member.path));
    if (member.stat) files += " " + ShellQuote(member.path);
    if (member.present) files += " " + ShellQuote(member.sidecar);
  }
  if (!together) {
    return fmt::format("move {} and the sidecars of these to another place, then type lzy-restore {}",
                       members.size() > kMostFiles ? Plural(members.size(), "newer member") : names, ShellQuote(pattern));
  }
  std::string away = JoinPath(directory, "newer");
  while (fs.Stat(away, /*follow=*/false).ok()) away += "1";
  const std::string to = ShellQuote(away);
  return fmt::format("mkdir {} && mv -n{} {} && lzy-restore {}", to, files, to, ShellQuote(pattern));
}

}  // namespace

std::string OlderSetAdvice(FileSystem& fs, const std::string& path, const Peek& peek) {
  const auto pattern = PatternFromTail(path, peek.name, peek.rank);
  if (!pattern) return "";
  std::vector<Member> newer;
  std::string missing;
  for (const Member& member : MembersOf(fs, *pattern, peek.members)) {
    const bool is_older = member.peek && member.peek->uuid == peek.uuid;
    if (is_older && !member.stat) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", Printable(member.path));
    if (!is_older && member.any()) newer.push_back(member);
  }
  std::string out;
  if (!newer.empty()) out += fmt::format("  to have the older set back, as far as that can be restored: {}\n", MoveAndRestore(fs, newer, *pattern));
  if (!missing.empty()) out += fmt::format("  of the older set, {} is missing\n", missing);
  return out + "  if it is not wanted, move it away together with its sidecar\n";
}

std::string OlderCommitAdvice(FileSystem& fs, const DatasetReport& report) {
  if (report.state != DatasetState::kUnrepairable || report.kind != DatasetKind::kSet || report.devices == 0) return "";
  const std::vector<Member> members = MembersOf(fs, report.path, report.devices);
  const auto commit_of = [&](const Member& member) -> std::uint64_t {  // 0: none that is older
    const bool older = member.peek && member.peek->committed && UuidText(member.peek->uuid) == report.uuid &&
                       member.peek->generation < report.generation;
    return older && member.stat && HasSizeAndTime(*member.stat, member.peek->stamp) ? member.peek->generation : 0;
  };
  std::map<std::uint64_t, std::size_t> commits;
  for (const Member& member : members) ++commits[commit_of(member)];
  commits.erase(0);
  for (const auto& [generation, count] : commits) {
    if (count + report.parity < members.size()) continue;
    std::vector<Member> others;
    for (const Member& member : members) {
      if (commit_of(member) != generation && member.any()) others.push_back(member);
    }
    if (others.empty()) continue;
    return fmt::format("  {} of {} members are as commit {} left them, and the set can be restored as it was then: {}\n", count,
                       members.size(), generation, MoveAndRestore(fs, others, report.path));
  }
  return "";
}

}  // namespace lzy
