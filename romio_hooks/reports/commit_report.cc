#include "hooks/reports/commit_report.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "hooks/reports/messages.h"
#include "request/commit_record.h"

namespace lzy::hooks {
namespace {

/// Reports how many bytes have rotted, in two parts: blocks with parity, and blocks whose row was overwritten since
/// (docs/design/commit.md "Rot that a commit finds"). Gives a command for each part.
void ReportDamage(const Options& options, const DatasetReport& report) {
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;
  for (const Damage& damage : report.damage) {
    bytes += damage.length;
    lost += damage.beyond_repair ? damage.length : 0;
  }
  if (bytes == 0) return;
  const std::string path = ShellQuote(report.path);
  std::string text = fmt::format(
      "{}: {} that this program did not write differ from their hashes, so the old hashes were kept. To see {}: lzy-verify "
      "{}{}",
      report.path, FormatSize(bytes), lost < bytes ? "and repair them" : "them", lost < bytes ? "--repair " : "", path);
  if (lost > 0) {
    text += fmt::format(
        ". {} of them cannot be repaired any more, because other blocks of their rows were overwritten: write them again, or "
        "accept them as they are: lzy-protect --force {}",
        FormatSize(lost), path);
  }
  Say(options, Options::Log::kWarn, text);
}

}  // namespace

void ReportCommit(const Options& options, const DatasetReport& report, std::optional<std::uint64_t> uncompared,
                  std::uint64_t differing) {
  if (!report.status.ok()) return;
  for (const std::string& warning : report.warnings) {
    // The text of the warning is its own key, so that each different warning is said once.
    const bool names_it = warning.find(report.path) != std::string::npos;
    SayOnce(options, Options::Log::kWarn, report.path, warning.c_str(),
            names_it ? warning : fmt::format("{}: {}", report.path, warning));
  }
  ReportDamage(options, report);
  Say(options, Options::Log::kInfo,
      fmt::format("{}: generation {} of {} made in {:.3f} s", report.path, report.generation, FormatSize(report.bytes),
                  report.phases.total));
  if (options.report.empty()) return;
  // The commit stands even if its record cannot be written.
  const Status status = AppendCommitRecord(options.report, report, uncompared, differing);
  if (!status.ok()) SayOnce(options, Options::Log::kWarn, options.report, "report", status.message());
}

void ReportFailure(const Options& options, const std::string& path, const Status& status, const char* kind) {
  SayOnce(options, Options::Log::kWarn, path, "commit",
          fmt::format("{}{}: no redundancy was made: {}; it stays at risk until the next commit. After you have fixed that, "
                      "commit it with: {}",
                      kind, path, status.message(), ProtectCommand(options, path)));
}

std::string ProtectCommand(const Options& options, const std::string& path) {
  std::string words = "lzy-protect ";
  for (const char* name : {"parity", "group", "block-size", "stripe", "device-dirs"}) {
    const bool told = !options.device_dirs.empty() && options.given.contains(name);
    if (told) words += fmt::format("--{} {} ", name, ShellQuote(OptionText(options, name)));
  }
  return words + ShellQuote(path);
}

}  // namespace lzy::hooks
