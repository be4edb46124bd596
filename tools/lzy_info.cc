// lzy-info: geometry, state, root, sizes and age of datasets, from metadata alone. With --prune, removes files of lzy that
// are not needed. With --tuning, measures the fastest sizes on this machine, and the fastest way to add up parity between nodes. The
// rest is RunTool (common/tool.h).
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"
#include "catalog/summary.h"
#include "comm/records.h"
#include "common/tool.h"
#include "names/orphans.h"
#include "names/reach.h"
#include "names/resolve.h"
#include "request/deletion_record.h"
#include "sidecar/names.h"
#include "tuning/exchange_tuning.h"
#include "tuning/tuning.h"

namespace {

using lzy::Orphan;
using lzy::Status;

/// The orphans that any rank found, without duplicates, by path; the same on all ranks. Collective. On a file system
/// that all nodes share, every rank finds the same files; on local disks, each finds its own.
lzy::Result<std::map<std::string, Orphan>> GatherOrphans(lzy::Communicator& comm, const std::vector<Orphan>& mine) {
  LZY_ASSIGN_OR_RETURN(const auto all, lzy::UniteRecords(comm, mine));
  std::map<std::string, Orphan> orphans;
  for (const Orphan& orphan : all) {
    // A file that only some ranks could lock is no longer called in use: the others met the lock of a rank of this run
    // that looked at the same moment.
    auto [at, fresh] = orphans.emplace(orphan.path, orphan);
    if (!fresh && orphan.kept.empty()) at->second.kept.clear();
  }
  return orphans;
}

/// Lists what nothing needs below `path`. Removes it if `prune` is set and `dry_run` is not. Collective.
Status HandleOrphans(lzy::ToolRun& run, const std::string& path, bool prune, bool dry_run) {
  // Files may have been moved to a directory below, or to another one of the command, without their sidecars.
  const auto directories = [&] { return lzy::DirectoriesOf(run.fs(), run.arguments().paths, lzy::Resolve::kProtectable); };
  lzy::AddToReach(run.fs(), directories, lzy::Reach::kNamed);
  auto mine = lzy::FindOrphans(run.fs(), path);
  // A directory that is not on this node may be on another one. Every other failure counts on all ranks.
  const bool absent = !mine.ok() && mine.status().code() == lzy::Code::kNotFound;
  LZY_RETURN_IF_ERROR(lzy::Agree(run.comm(), absent ? Status::Ok() : mine.status()));
  LZY_ASSIGN_OR_RETURN(const auto all, GatherOrphans(run.comm(), mine.ok() ? *mine : std::vector<Orphan>{}));
  // Rank 0 speaks for all; the list is the same everywhere.
  bool removable = false;
  for (const auto& [name, orphan] : all) {
    const bool remove = prune && !dry_run && orphan.kept.empty();
    removable = removable || orphan.kept.empty();
    run.Say(fmt::format("{}: orphan: {}{}\n", lzy::Printable(name), orphan.reason,
                        !orphan.kept.empty() ? "; " + orphan.kept
                        : remove             ? "; removing it"
                        : dry_run            ? "; would be removed"
                                             : ""));
    // --json lists them, too.
    run.extra()["orphans"].push_back({{"path", name}, {"reason", orphan.reason}, {"removed", remove}});
  }
  // Only listed: say how to remove them, unless all of them are kept.
  if (!prune) {
    if (removable) run.Say(fmt::format("  remove orphans with: lzy-info --prune {}\n", lzy::ShellQuote(path)));
    return Status::Ok();
  }
  if (all.empty()) run.Say(fmt::format("{}: no orphaned sidecars\n", lzy::Printable(path)));
  if (dry_run) return Status::Ok();
  // Each rank removes the files that it sees. On a shared file system, the first rank does it. After a failure, the others
  // are still removed.
  Status first_failure;
  for (const Orphan& orphan : mine.ok() ? *mine : std::vector<Orphan>{}) {
    if (!all.at(orphan.path).kept.empty()) continue;
    const Status removed = lzy::RemoveOrphan(run.fs(), orphan);
    if (!removed.ok() && first_failure.ok()) first_failure = removed;
    // A pruned sidecar must not cause an alarm about its file.
    const auto data = lzy::DataPathOf(orphan.path);
    if (removed.ok() && data) {
      (void)lzy::AppendDeletion(lzy::CatalogInUse(run.options()), {lzy::WallClockNs(), lzy::CatalogPath(*data, false)});
    }
  }
  return lzy::Agree(run.comm(), first_failure);
}

// The output for users: all candidates with their speeds, with the picked ones marked.
std::string TuningTable(const lzy::Tuning& tuning, const std::string& cache) {
  std::string text;
  for (std::size_t c = 0; c < lzy::kTunedCount; ++c) {
    const lzy::TuningChoice& choice = lzy::TuningChoices()[c];
    const auto what = static_cast<lzy::Tuned>(c);
    text += fmt::format("{}: {}\n", choice.name, choice.what);
    for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
      text += fmt::format("  {} {:<20} {:>7.2f} GB/s\n", i == tuning.picked_index(what) ? '*' : ' ',
                          lzy::FormatSize(choice.candidates[i]), tuning.gb_per_s(what, i));
    }
  }
  return text + (cache.empty() ? "* picked; not kept\n" : fmt::format("* picked; kept in {}\n", lzy::Printable(cache)));
}

/// For each number of processes and nodes that was measured: the way of each class of sums, and why.
std::string ExchangeTable(const std::vector<lzy::ExchangeTuning>& measured) {
  std::string text = "exchange: how parity is added up among processes\n  one node: shared memory\n";
  for (const lzy::ExchangeTuning& one : measured) {
    const lzy::ExchangePlace& place = one.place;
    text += fmt::format("  {} processes on {} nodes, at most {} on each ({}):\n", place.ranks, place.nodes, place.most_on_node,
                        lzy::Printable(place.mpi));
    for (std::size_t i = 0; i < lzy::kExchangeClasses; ++i) {
      const auto which = lzy::ExchangeClass::At(i);
      std::string why = "not measured";
      if (one.times.measured(which)) {
        const auto& times = one.times.microseconds(which);
        why.clear();
        for (std::size_t w = 0; w < times.size(); ++w) {
          why += fmt::format("{}{} {:.1f} us", w == 0 ? "" : ", ", lzy::ExchangeWayName(lzy::kMeasuredWays[w]), times[w]);
        }
      }
      text += fmt::format("    {:<6} {:<8} {:<9} {}\n", which.shape == lzy::ExchangeShape::kEven ? "all" : "one",
                          lzy::FormatSize(lzy::kExchangeBytes[which.size]), lzy::ExchangeWayName(one.times.Pick(which)), why);
    }
  }
  return text + (measured.empty() ? "  several nodes: mpi, because nothing was measured\n"
                                  : "  other processes on several nodes: mpi, because nothing was measured\n");
}

/// The same for --json: what the files hold.
lzy::Json ExchangeJson(const std::vector<lzy::ExchangeTuning>& measured) {
  lzy::Json all = lzy::Json::array();
  for (const lzy::ExchangeTuning& one : measured) all.push_back(lzy::Json::parse(lzy::EncodeExchange(one.place, one.times)));
  return all;
}

/// Measures on the machine of rank 0, keeps the results there, and shows them. The user asked for it, so it may take
/// ten times as long as what tools do by themselves. All ranks measure how they add up parity, if they are on several nodes.
void ShowTuning(lzy::ToolRun& run) {
  constexpr double kExchangeSeconds = 20;
  const Status exchanged = run.comm().MeasureExchange(kExchangeSeconds, /*again=*/true);
  if (run.comm().rank() != 0) return;
  if (!exchanged.ok()) run.Warn(fmt::format("how parity is added up could not be measured: {}", exchanged.message()));
  // Milliseconds.
  constexpr unsigned kBudgetMs = 100;
  const lzy::Tuning tuning = lzy::Calibrate(kBudgetMs);
  std::string cache = lzy::TuningCachePath();
  // With sudo, the cache may lie in another user's home.
  const auto fs = lzy::GuardedFileSystem({lzy::DirectoryOf(lzy::DirectoryOf(cache))});
  if (const Status stored = lzy::StoreTuning(*fs, cache, tuning); !stored.ok()) {
    run.Warn(fmt::format("the results could not be saved: {}", stored.message()));
    cache.clear();
  }
  const std::string directory = lzy::DirectoryOf(lzy::TuningCachePath());
  const auto measured = directory.empty() ? std::vector<lzy::ExchangeTuning>() : lzy::ListExchange(*fs, directory);
  run.Say(TuningTable(tuning, cache) + ExchangeTable(measured));
  lzy::Json document = lzy::Json::parse(lzy::EncodeTuning(tuning));
  // Path of the results, or null.
  document["cache"] = cache.empty() ? lzy::Json() : lzy::Json(cache);
  document["exchange"] = ExchangeJson(measured);
  run.SetDocument(std::move(document));
}

/// The last verdicts of tools that read data, from the catalogue. lzy-info itself reads no data, so it cannot call a
/// dataset intact. For rank 0.
class Verdicts {
 public:
  /// The state in words. Adds "last_verdict" to `entry`: null if there is none.
  std::string Of(lzy::ToolRun& run, const lzy::DatasetReport& report, lzy::Json& entry) {
    const auto known = Find(run, report);
    entry["last_verdict"] = nullptr;
    const bool intact = report.state == lzy::DatasetState::kIntact;
    const std::string state = intact ? "not verified" : lzy::StateText(report, lzy::Action::kInfo);
    if (!known) return intact ? state + "; no verdict is known" : state;
    const std::int64_t now = lzy::WallClockNs();
    // A state other than "intact" dates from the last check, whatever it read.
    const std::int64_t time = known->state == "intact" ? lzy::VerifiedBefore(*known, now) : known->last_seen;
    if (time == 0) return intact ? state + " since its last commit; no verdict is known" : state;
    entry["last_verdict"] = {{"state", known->state}, {"time", static_cast<double>(time) / 1e9}};
    return fmt::format("{}; last verdict: {} {}", state, known->state, lzy::AgoText(now - time));
  }

 private:
  std::optional<lzy::CatalogDataset> Find(lzy::ToolRun& run, const lzy::DatasetReport& report) {
    const std::string path = lzy::CatalogInUse(run.options());
    if (!looked_ && !path.empty()) {
      auto opened = lzy::Catalog::Open(path, lzy::DatabaseMode::kRead);
      if (opened.ok()) catalog_ = std::move(*opened);
    }
    looked_ = true;
    if (!catalog_) return std::nullopt;
    auto found = catalog_->Find(lzy::CatalogPath(report.path, report.kind == lzy::DatasetKind::kSet));
    // A verdict on another encoding does not apply.
    if (!found.ok() || !*found || (*found)->uuid != report.uuid || (*found)->state == "gone") return std::nullopt;
    return **found;
  }

  bool looked_ = false;
  std::optional<lzy::Catalog> catalog_;
};

}  // namespace

int main(int argc, char** argv) {
  bool map = false;
  bool prune = false;
  bool dry_run = false;
  bool tuning = false;
  Verdicts verdicts;
  lzy::Tool tool;
  tool.name = "lzy-info";
  tool.summary = "Prints geometry, state, root, sizes and the age of the last commit, from metadata alone.";
  tool.changes = "nothing; with --prune, orphaned sidecars; with --tuning, a file in the user's cache directory";
  tool.table_options = {"device-dirs", "catalog"};
  tool.add_options = [&](lzy::Arguments& arguments) {
    arguments.AddFlag("--map", map, "also print which devices are coded together");
    arguments.AddFlag("--prune", prune,
                 "list and remove sidecars of deleted files below the directory PATH, and leftovers of tools that were killed");
    arguments.AddFlag("--dry-run", dry_run, "with --prune: list them only");
    arguments.AddFlag(
        "--tuning", tuning,
        "without PATH: measure with which sizes this machine reads and encodes fastest, print them, and keep them for all "
        "programs of this user");
  };
  tool.without_path = [&] { return tuning; };
  tool.run_without_path = ShowTuning;
  tool.check_options = [&] {
    if (tuning && (map || prune)) {
      return Status(lzy::Code::kInvalidArgument, "--tuning: is not accepted together with --map or --prune");
    }
    if (dry_run && !prune) {
      return Status(lzy::Code::kInvalidArgument, "--dry-run: is accepted only together with --prune");
    }
    return Status::Ok();
  };
  tool.action = [] { return lzy::Action::kInfo; };
  // A directory is always searched for orphans. With --prune, nothing else is done with it.
  tool.before_path = [&](lzy::ToolRun& run, const std::string& path) {
    const auto stat = run.fs().Stat(path);
    // All ranks take the same way, even if only one of them sees the directory.
    if (lzy::OnAnyRank(run.comm(), stat.ok() && stat->type == lzy::FileStat::Type::kDirectory)) {
      if (Status handled = HandleOrphans(run, path, prune, dry_run); !handled.ok()) run.Fail(handled);
    } else if (prune && !stat.ok() && stat.status().code() != lzy::Code::kNotFound) {
      run.Fail(stat.status());
    } else if (prune) {
      run.Fail(Status(lzy::Code::kInvalidArgument, fmt::format("--prune: '{}' is not accepted: a directory", path)));
    }
    return prune;
  };
  // The map is made in any case; without --map it is not shown.
  tool.engine = [&](const lzy::Context& context, const lzy::DatasetRef& dataset) {
    lzy::DatasetReport report = lzy::Info(context, dataset);
    if (!map) report.map.clear();
    return report;
  };
  tool.state_text = [&](lzy::ToolRun& run, const lzy::DatasetReport& report, lzy::Json& entry) { return verdicts.Of(run, report, entry); };
  return lzy::RunTool(tool, argc, argv);
}
