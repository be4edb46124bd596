// lzy-copy: copies files and directories. Each byte is compared with its committed hash where there is one, healed from
// parity, and read back where it arrived; the copy is protected. The rest is RunTool (common/tool.h).
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"
#include "base/rate_limit.h"
#include "common/tool.h"
#include "copy/other_end.h"
#include "common/streams.h"
#include "link/host_files.h"
#include "request/deletion_record.h"
#include "sidecar/names.h"
#include "tuning/tuning.h"

namespace {

using lzy::Code;
using lzy::CopyReport;
using lzy::FormatSize;
using lzy::ReadBack;
using lzy::Status;

constexpr std::array<const char*, 3> kReadBacks = {"none", "cache", "device"};  // by ReadBack

/// The command line.
struct Wish {
  std::vector<std::string> verify, limit;
  bool no_protect = false;
  bool dry_run = false;
  lzy::CopyRequest request;
  lzy::OtherEnd other_end;
  std::uint64_t rate = 0;
};

Status CheckWish(Wish& wish) {
  wish.request.protect = !wish.no_protect;
  LZY_RETURN_IF_ERROR(wish.other_end.CheckOptions());
  if (!wish.verify.empty()) {
    const auto at = std::ranges::find(kReadBacks, wish.verify.back());
    if (at == kReadBacks.end()) {
      return {Code::kInvalidArgument,
              fmt::format("--verify: '{}' is not accepted: device, cache or none", wish.verify.back())};
    }
    wish.request.read_back = static_cast<ReadBack>(at - kReadBacks.begin());
  }
  LZY_ASSIGN_OR_RETURN(wish.rate, lzy::ParseLimit(wish.limit));
  return Status::Ok();
}

/// The results for all files.
struct Totals {
  std::uint64_t files = 0, already = 0, failed = 0;
  std::uint64_t bytes = 0, compared = 0, same_root = 0, protects = 0;
  std::uint64_t reread = 0, healed = 0, sent_again = 0, resumed = 0, lost = 0;

  void Add(const CopyReport& report) {
    reread += report.reread;
    healed += report.healed;
    sent_again += report.sent_again;
    resumed += report.resumed;
    if (!report.status.ok()) {
      ++failed;
      return;
    }
    ++(report.already ? already : files);
    if (!report.already) bytes += report.bytes;
    compared += report.compared;
    same_root += report.same_root;
    protects += !report.root.empty();
    for (const lzy::ByteRange& range : report.lost) lost += range.length;
  }
};

lzy::Json ToJson(const CopyReport& report) {
  lzy::Json json = {{"from", report.from},
                    {"to", report.to},
                    {"copied", report.status.ok() && !report.already},
                    {"bytes", report.bytes},
                    {"compared", report.compared},
                    {"reread", report.reread},
                    {"healed", report.healed},
                    {"sent_again", report.sent_again}};
  if (report.already) json["already"] = true;
  if (report.resumed > 0) json["resumed"] = report.resumed;
  if (!report.root.empty()) json["root"] = report.root;
  if (!report.root.empty()) json["same_root"] = report.same_root;
  for (const lzy::ByteRange& range : report.lost)
    json["lost"].push_back({{"offset", range.offset}, {"length", range.length}});
  if (!report.warnings.empty()) json["warnings"] = report.warnings;
  if (report.kept) json["resumable"] = true;
  if (!report.status.ok()) json["error"] = lzy::ToJson(report.status);
  return json;
}

std::string SummaryOf(const Totals& totals, const lzy::CopyPlan& plan, const Wish& wish, double seconds) {
  std::string text = fmt::format(
      "copied {}, {}, in {:.1f} s ({}/s)", lzy::Plural(totals.files, "file"), FormatSize(totals.bytes), seconds,
      FormatSize(static_cast<std::uint64_t>(static_cast<double>(totals.bytes) / std::max(seconds, 1e-3))));
  if (!plan.links.empty()) text += fmt::format(", {}", lzy::Plural(plan.links.size(), "symbolic link"));
  if (!plan.further_names.empty()) text += fmt::format(", {}", lzy::Plural(plan.further_names.size(), "hard link"));
  constexpr std::array<const char*, 3> kHow = {"not read back", "read back from the page cache",
                                               "read back from the device"};
  if (totals.files > 0) text += fmt::format("; {}", kHow[static_cast<std::size_t>(wish.request.read_back)]);
  text += "\n";
  // Their sizes and times show that an earlier copy was whole. They may be damaged since.
  if (totals.already > 0) {
    text += fmt::format("  {} there already, by size and time; {} not read again\n", lzy::Plural(totals.already, "file"), totals.already == 1 ? "it was" : "they were");
  }
  if (totals.resumed > 0) text += fmt::format("  {} of an earlier copy used\n", FormatSize(totals.resumed));
  if (totals.compared > 0)
    text += fmt::format("  {} compared with committed hashes\n", lzy::Plural(totals.compared, "file"));
  if (totals.healed > 0)
    text += fmt::format("  {} damaged in the source, and rebuilt in the copy\n", FormatSize(totals.healed));
  if (totals.sent_again > 0)
    text += fmt::format("  {} arrived wrong, and written again\n", FormatSize(totals.sent_again));
  if (totals.lost > 0) text += fmt::format("  {} damaged or edited in the copy, too\n", FormatSize(totals.lost));
  if (totals.protects > 0) {
    text += fmt::format("  {} protected, {} with the root of the source\n", lzy::Plural(totals.protects, "file"),
                        totals.same_root);
  }
  return text;
}

/// One run of lzy-copy, on one rank.
class CopyRun {
 public:
  CopyRun(lzy::ToolRun& run, Wish& wish) : run_(run), wish_(wish) {}

  /// Collective.
  void Run() {
    std::vector<std::string> sources = run_.arguments().paths;
    const std::string destination = sources.back();
    sources.pop_back();
    if (sources.empty())
      return run_.Fail(
          {Code::kInvalidArgument, "the destination is missing: lzy-copy SRC... DST (see lzy-copy --help)"});
    const auto is_pattern = [](const std::string& path) { return lzy::HasRankPlaceholder(path); };
    if (std::ranges::any_of(run_.arguments().paths, is_pattern)) return RunSet(sources, destination);
    if (const Status planned = Plan(sources, destination); !planned.ok()) return run_.Fail(planned);
    if (wish_.dry_run) return PrintPlan();
    lzy::TuneForWork(plan_.bytes);
    wish_.other_end.AddStreams(plan_.bytes);
    const auto begin = std::chrono::steady_clock::now();
    const Status done = Copy();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!run_.Interrupted() && !done.ok()) run_.Fail(done);
    AdviseResume();
    PrintTotals(seconds);
  }

 private:
  bool IsLinkLost() const { return wish_.other_end.near_end() != nullptr && !wish_.other_end.near_end()->status().ok(); }
  // What the other end has proven is kept there, but its report did not come.
  void AdviseResume() {
    if (!IsLinkLost()) return;
    run_.Advise("  large files keep what was proven; to go on: add --resume to the same command\n");
  }

  // A set, which ranks may see parts of.
  void RunSet(const std::vector<std::string>& sources, const std::string& destination) {
    if (sources.size() != 1 || !lzy::HasRankPlaceholder(sources[0])) {
      return run_.Fail({Code::kInvalidArgument,
                        "a set is copied alone, from one pattern with %r to another: lzy-copy 'SRC.%r' 'DST.%r'"});
    }
    if (wish_.dry_run) return run_.Fail({Code::kInvalidArgument, "--dry-run: is not accepted for sets"});
    const auto begin = std::chrono::steady_clock::now();
    lzy::CopySetReport set;
    wish_.other_end.AddStreams(std::numeric_limits<std::uint64_t>::max());
    WithRequest([&](const lzy::Context& context, const lzy::CopyRequest& request) {
      set = lzy::CopySet(context, sources[0], destination, request, [&](const CopyReport& report) { PrintReport(report); });
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (const std::string& warning : set.warnings) run_.Warn(warning);
    if (!run_.Interrupted() && !set.status.ok()) run_.Fail(set.status);
    AdviseResume();
    if (set.members > 0) PrintTotals(seconds);
    if (set.root.empty()) return;
    run_.Say(fmt::format("  set of {} protected{}\n", lzy::Plural(set.members, "member"),
                         set.same_root ? ", with the root of the source" : ""));
    run_.extra()["set"] = {{"from", sources[0]},
                           {"to", destination},
                           {"members", set.members},
                           {"root", set.root},
                           {"same_root", set.same_root}};
  }

  Status Plan(const std::vector<std::string>& sources, const std::string& destination) {
    LZY_ASSIGN_OR_RETURN(plan_, lzy::PlanTogether(run_.comm(), run_.fs(), sources, destination, wish_.request.resume,
                                                  wish_.dry_run));
    return Status::Ok();
  }

  void PrintPlan() {
    for (const CopyReport& failure : plan_.failures) run_.Fail(failure.status);
    for (const lzy::CopyPlan::Entry& file : plan_.files) {
      run_.Say(fmt::format("{} -> {} ({})\n", lzy::Printable(file.from), lzy::Printable(file.to),
                           FormatSize(file.stat.size)));
      run_.extra()["copies"].push_back(
          {{"from", file.from}, {"to", file.to}, {"copied", false}, {"bytes", file.stat.size}});
    }
    run_.Say(fmt::format("would copy {}, {}\n", lzy::Plural(plan_.files.size(), "file"), FormatSize(plan_.bytes)));
  }

  Status Copy() {
    Status done;
    WithRequest([&](const lzy::Context& context, const lzy::CopyRequest& request) {
      done = lzy::CopyAll(context, plan_, request, [&](const CopyReport& report) { PrintReport(report); });
    });
    return done;
  }

  // Makes the request, with objects that live as long as the copying. The rate is that of all ranks together.
  void WithRequest(const std::function<void(const lzy::Context&, const lzy::CopyRequest&)>& work) {
    const lzy::Context context = run_.MakeContext();
    lzy::CopyRequest request = wish_.request;
    request.far = run_.names() != nullptr;
    const std::size_t sources = std::max<std::size_t>(plan_.sight.sources.size(), 1);
    double mine = 1;  // share of this rank in the bytes to copy or, if it only reads, in the bytes to read
    std::optional<lzy::RateLimit> limit;
    request.dealt = [&](double share) {
      mine = share > 0 ? share : 1.0 / static_cast<double>(sources);
      limit.emplace(static_cast<double>(wish_.rate) * share);
    };
    request.wait = [&](std::uint64_t bytes) { limit->Take(bytes, context.stop); };
    // Rank 0 shows its own share of the work of all ranks. It knows its own finished work more precisely.
    request.progress = [&, total = plan_.bytes,
                        done = std::make_shared<std::atomic<std::uint64_t>>(0)](std::uint64_t bytes) {
      const std::uint64_t now = *done += static_cast<std::uint64_t>(static_cast<double>(bytes) / mine);
      run_.ShowProgress("copy", total > 0 ? std::min(now, total) : now, total, NoteOfProgress());
    };
    work(context, request);
  }

  std::string NoteOfProgress() const {
    std::string note;
    if (healed_ > 0) note += fmt::format("  {} healed", FormatSize(healed_));
    if (sent_again_ > 0) note += fmt::format("  {} sent again", FormatSize(sent_again_));
    return note;
  }

  // An error that prevents writing one file usually prevents writing others, too: a full disk. The first one is reported,
  // and the others are counted (PrintRepeated). The cause is at the end of the message.
  bool IsRepeated(const CopyReport& report) {
    if (report.status.code() != Code::kWriteFailed) return false;
    std::string text = report.status.message();
    if (text.ends_with(')')) text.erase(std::min(text.rfind(" ("), text.size()));  // what to do about it
    const std::size_t cause = text.rfind(": ");
    return ++failures_[cause == std::string::npos ? text : text.substr(cause + 2)] > 1;
  }

  void PrintRepeated() {
    for (const auto& [what, count] : lacks_) {
      if (count > 1) run_.Warn(fmt::format("the same of {} more: {}", count - 1, what));
    }
    for (const auto& [cause, count] : failures_) {
      if (count == 1) continue;
      run_.Fail({Code::kWriteFailed, fmt::format("{} more file{} could not be copied: {}", count - 1, count == 2 ? "" : "s", cause)});
    }
  }

  // All ranks count; rank 0 reports.
  void PrintReport(const CopyReport& report) {
    if (report.status.code() == Code::kInterrupted) return;
    for (const std::string& warning : report.warnings) {
      // If a file system lacks a feature, it lacks it for every copy.
      const bool of_copy = warning.starts_with(report.to + ": ");
      if (!of_copy || ++lacks_[warning.substr(report.to.size() + 2)] == 1) run_.Warn(warning);
    }
    if (report.directory) return;
    totals_.Add(report);
    healed_ = totals_.healed;
    sent_again_ = totals_.sent_again;
    if (!report.status.ok() && IsRepeated(report)) {
      run_.Count(report.to, ExitCodeOf(report));
    } else if (!report.status.ok()) {
      const bool named = report.to.empty() || report.status.message().find(report.from) != std::string::npos ||
                         report.status.message().find(report.to) != std::string::npos;
      run_.Fail(named ? report.status : report.status.WithContext(report.to), ExitCodeOf(report));
      if (report.kept)
        run_.Advise(fmt::format("  what was proven of {} is kept; to go on: add --resume to the same command\n", lzy::Printable(report.to)));
    } else {
      run_.CountFinished(report.to);
      if (report.unprotected) RecordUnprotected(report.to);
      if (const int code = ExitCodeOf(report); code != 0) run_.Count(report.to, code);
      if (report.healed > 0) {
        run_.Say(fmt::format(
            "{}: {} damaged in {}, and rebuilt in the copy\n  repair the source{} with: lzy-verify --repair {}\n",
            lzy::Printable(report.to), FormatSize(report.healed), lzy::Printable(report.from), WhereIs(report.from),
            lzy::ShellQuote(PathOf(report.from))));
      }
      for (const lzy::ByteRange& range : report.lost) {
        run_.Say(fmt::format("{}: bytes {} to {} are damaged or edited, as in {}\n", lzy::Printable(report.to), range.offset,
                             range.offset + range.length - 1, lzy::Printable(report.from)));
      }
    }
    if (run_.arguments().json) run_.extra()["copies"].push_back(ToJson(report));
  }

  // The user wanted no sidecar. So it is no loss that a scrub reports on the machine of the copy.
  void RecordUnprotected(const std::string& path) {
    if (run_.names() != nullptr ? !run_.names()->IsHere(path) : run_.comm().rank() != 0) return;
    (void)lzy::AppendDeletion(lzy::CatalogInUse(run_.options()), {lzy::WallClockNs(), lzy::CatalogPath(PathOf(path), /*is_set=*/false)});
  }

  // For commands to type: on which machine, and the path there.
  std::string WhereIs(const std::string& name) const {
    return run_.names() == nullptr || run_.names()->IsHere(name) ? "" : " on " + lzy::Printable(run_.names()->host());
  }
  std::string PathOf(const std::string& name) const { return run_.names() == nullptr ? name : run_.names()->PathOf(name); }

  void PrintTotals(double seconds) {
    PrintRepeated();
    if (totals_.files + totals_.already > 0 || (totals_.failed == 0 && !IsLinkLost())) run_.Say(SummaryOf(totals_, plan_, wish_, seconds));
    run_.extra()["copied"] = {{"files", totals_.files},
                              {"already", totals_.already},
                              {"failed", totals_.failed},
                              {"bytes", totals_.bytes},
                              {"compared", totals_.compared},
                              {"healed", totals_.healed},
                              {"sent_again", totals_.sent_again},
                              {"resumed", totals_.resumed},
                              {"lost", totals_.lost},
                              {"seconds", seconds},
                              {"verify", kReadBacks[static_cast<std::size_t>(wish_.request.read_back)]}};
    if (wish_.other_end.near_end() != nullptr) run_.extra()["link"] = wish_.other_end.Describe();
  }

  lzy::ToolRun& run_;
  Wish& wish_;
  lzy::CopyPlan plan_;
  Totals totals_;
  std::map<std::string, std::size_t> failures_;  // of the destination, by their cause
  std::map<std::string, std::size_t> lacks_;     // warnings of copies, without their names
  std::atomic<std::uint64_t> healed_ = 0, sent_again_ = 0;  // as in totals_, for any thread
};

}  // namespace

int main(int argc, char** argv) {
  lzy::Tool tool;
  tool.name = "lzy-copy";
  tool.reads_through_links = true;
  tool.summary = "Copies files and directories, and proves what arrived.";
  tool.changes = "the destination only; with --dry-run, nothing";
  tool.table_options = {"parity", "group", "block-size", "stripe"};
  tool.path_help =
      "SRC... DST, files or directories, and where their copies go: into DST if it ends with a slash; SRC or DST may be HOST:PATH";
  tool.rest = "add --resume to the same command to do the rest";
  Wish wish;
  tool.add_options = [&](lzy::Arguments& arguments) {
    arguments.SetExitCodes(
        "0 all copied and proven; 2 a source is damaged beyond repair; 3 bad option or path; 4 with --key, a\n"
        "source is not sealed; 5 a copy could not be written or proven; 6 a source could not be read; 7 internal or MPI error;\n"
        "8 out of memory; 9 a source changed during the copy, or may have an edit");
    arguments.AddValues(
        "--verify", "HOW", wish.verify,
        "how the copy is read back: from the device, past the page cache (device, the default), from the page cache "
        "(cache), or not at all (none)",
        "device cache none");
    arguments.AddFlag("--no-protect", wish.no_protect, "make no sidecars for the copies");
    arguments.AddFlag("--resume", wish.request.resume,
                      "go on where an earlier copy ended: skip files that are there, and go on within large ones");
    arguments.AddValues("--limit", "RATE", wish.limit, "copy no more than so many bytes per second (500M)");
    arguments.AddFlag("--salvage", wish.request.salvage,
                      "copy damaged blocks that cannot be rebuilt as they are, and list them");
    arguments.AddFlag("--dry-run", wish.dry_run, "print what would be copied, and copy nothing");
    wish.other_end.AddOptions(arguments);
  };
  tool.check_options = [&] { return CheckWish(wish); };
  tool.action = [] { return lzy::Action::kProtect; };
  tool.run = [&](lzy::ToolRun& run) { CopyRun(run, wish).Run(); };
  const std::vector<std::string> words(argv, argv + argc);
  tool.meet_other_end = [&](lzy::Arguments& arguments, const lzy::Options& options, lzy::Communicator& comm) {
    return wish.other_end.Meet(words, arguments, options, comm);
  };
  // What the other end of a copy between machines is started with. It is no option for people.
  if (words.size() == 2 && words[1] == "--serve") return lzy::EndStreams(tool.name, lzy::ServeCopy(tool));
  return lzy::RunTool(tool, argc, argv);
}
