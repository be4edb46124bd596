// lzy-diff: whether two copies hold the same bytes, and which ranges differ. The rest is RunTool (common/tool.h).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "common/tool.h"

namespace {

using lzy::DiffKind;
using lzy::DiffReport;
using lzy::DiffVerdict;
using lzy::FileDiff;
using lzy::FormatSize;
using lzy::Printable;

constexpr std::size_t kMostRanges = 20;

constexpr const char* kVerdicts[] = {"same", "different", "only-a", "only-b", "unknown"};  // by DiffVerdict
constexpr const char* kKinds[] = {"files", "directories", "sets"};                         // by DiffKind

lzy::Json ToJson(const FileDiff& diff) {
  lzy::Json json = {{"a", diff.a},
                    {"b", diff.b},
                    {"verdict", kVerdicts[static_cast<std::size_t>(diff.verdict)]},
                    {"bytes_a", diff.bytes_a},
                    {"bytes_b", diff.bytes_b}};
  if (!diff.name.empty()) json["name"] = diff.name;
  if (diff.block_size > 0) json["block_size"] = diff.block_size;
  if (diff.verdict == DiffVerdict::kDifferent && diff.ranges_known) {
    json["ranges"] = lzy::Json::array();
    for (const lzy::Interval& range : diff.ranges) json["ranges"].push_back({{"offset", range.begin}, {"length", range.end - range.begin}});
  }
  if (!diff.status.ok()) json["why"] = diff.status.message();
  return json;
}

lzy::Json ToJson(const DiffReport& report, bool deep) {
  lzy::Json json = {{"a", report.a},
                    {"b", report.b},
                    {"kind", kKinds[static_cast<std::size_t>(report.kind)]},
                    {"by", deep ? "data" : "hashes"},
                    {"same", report.same},
                    {"same_bytes", report.same_bytes},
                    {"differences", lzy::Json::array()}};
  for (const FileDiff& diff : report.differences) json["differences"].push_back(ToJson(diff));
  return json;
}

std::string NameOf(const FileDiff& diff) {
  return Printable(diff.name.empty() ? diff.a : diff.name);
}

std::string RangesText(const FileDiff& diff) {
  std::string text;
  for (std::size_t i = 0; i < std::min(diff.ranges.size(), kMostRanges); ++i) {
    text += fmt::format("  bytes {} to {}\n", diff.ranges[i].begin, diff.ranges[i].end - 1);
  }
  if (diff.ranges.size() > kMostRanges) {
    text += fmt::format("  and {} more; --json lists all of them\n", lzy::Plural(diff.ranges.size() - kMostRanges, "range"));
  }
  return text;
}

std::string TextOf(const FileDiff& diff, const DiffReport& report) {
  const std::string member = report.kind == DiffKind::kSets ? "member " : "";
  switch (diff.verdict) {
    case DiffVerdict::kOnlyA:
      return fmt::format("{}{}: only in A ({})\n", member, NameOf(diff), Printable(diff.a));
    case DiffVerdict::kOnlyB:
      return fmt::format("{}{}: only in B ({})\n", member, NameOf(diff), Printable(diff.b));
    case DiffVerdict::kDifferent:
      break;
    case DiffVerdict::kSame:
    case DiffVerdict::kUnknown:
      return {};
  }
  if (!diff.ranges_known) {
    const std::string how = diff.bytes_a == diff.bytes_b ? diff.status.message() : fmt::format("{} bytes in A, {} bytes in B", diff.bytes_a, diff.bytes_b);
    return fmt::format("{}{}: different: {}\n", member, NameOf(diff), Printable(how));
  }
  std::string text = fmt::format("{}{}: {} of {} differ{}", member, NameOf(diff), FormatSize(diff.DifferentBytes()),
                                 FormatSize(std::max(diff.bytes_a, diff.bytes_b)), diff.by_data ? "" : fmt::format(", in blocks of {}", FormatSize(diff.block_size)));
  if (diff.bytes_a != diff.bytes_b) text += fmt::format("; {} bytes in A, {} bytes in B", diff.bytes_a, diff.bytes_b);
  return text + "\n" + RangesText(diff);
}

std::string SummaryOf(const DiffReport& report, bool deep) {
  std::uint64_t different = 0, unknown = 0;
  for (const FileDiff& diff : report.differences) ++(diff.verdict == DiffVerdict::kUnknown ? unknown : different);
  const char* const by = deep ? "by their data" : "by their hashes";
  if (report.kind == DiffKind::kFiles) {
    if (different + unknown > 0) return {};
    return fmt::format("{} and {} are the same: {}, {}\n", Printable(report.a), Printable(report.b), FormatSize(report.same_bytes), by);
  }
  const char* const what = report.kind == DiffKind::kSets ? "member" : "file";
  std::string text = fmt::format("{} the same ({}, {})", lzy::Plural(report.same, what), FormatSize(report.same_bytes), by);
  text += fmt::format(", {} different", different);
  if (unknown > 0) text += fmt::format(", {} could not be compared", unknown);
  return text + "\n";
}

// The same report on all ranks; rank 0 prints.
void PrintReport(lzy::ToolRun& run, const DiffReport& report, bool deep) {
  for (const std::string& warning : report.warnings) run.Warn(warning);
  for (const FileDiff& diff : report.differences) {
    run.Say(TextOf(diff, report));
    for (const std::string& warning : diff.warnings) run.Warn(warning);
    if (diff.verdict == DiffVerdict::kUnknown) {
      run.Fail(diff.status, 0);
    } else if (!diff.status.ok() && diff.bytes_a != diff.bytes_b) {
      run.Warn(fmt::format("which ranges differ is not known: {}", diff.status.message()));
    }
  }
  run.Say(SummaryOf(report, deep));
  run.extra()["diff"] = ToJson(report, deep);
}

void RunDiff(lzy::ToolRun& run, bool deep) {
  const std::vector<std::string>& paths = run.arguments().paths;
  if (paths.size() != 2) {
    return run.Fail({lzy::Code::kInvalidArgument,
                     fmt::format("{} given; two are needed: lzy-diff A B (see lzy-diff --help)", lzy::Plural(paths.size(), "path"))});
  }
  const DiffReport report = lzy::Diff(run.MakeContext(), paths[0], paths[1], deep);
  if (run.Interrupted()) return;
  if (!report.status.ok()) return run.Fail(report.status);
  PrintReport(run, report, deep);
  // Not as failures of their own: one code for all that was found.
  run.Count(paths[0], lzy::ExitCodeOf(report));
}

}  // namespace

int main(int argc, char** argv) {
  bool deep = false;
  lzy::Tool tool;
  tool.name = "lzy-diff";
  tool.summary = "Tells whether two copies hold the same bytes, and which byte ranges differ.";
  tool.changes = "nothing";
  tool.path_help = "A B, two files, two directories or two file-set patterns (name.%r); a file and a directory: the file of that name in it";
  tool.rest = "run the same command again";
  tool.add_options = [&](lzy::Arguments& arguments) {
    arguments.SetExitCodes(
        "0 the same; 1 different; 3 bad option or path, or different block sizes or keys; 4 not protected, or\n"
        "hashes damaged; 6 I/O error or no permission; 7 internal or MPI error; 8 out of memory; 9 changed since its last commit");
    arguments.AddFlag("--deep", deep, "read and compare the data of both, instead of the hashes in their sidecars; needs no sidecars");
  };
  tool.action = [] { return lzy::Action::kInfo; };
  tool.run = [&](lzy::ToolRun& run) { RunDiff(run, deep); };
  return lzy::RunTool(tool, argc, argv);
}
