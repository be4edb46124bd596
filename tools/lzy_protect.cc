// lzy-protect: makes or refreshes the sidecars of existing files; with --remove, removes them. The rest is RunTool
// (common/tool.h).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/printable.h"
#include "comm/records.h"
#include "common/losses.h"
#include "common/streams.h"
#include "common/tool.h"
#include "dataset/parts.h"
#include "request/commit_record.h"
#include "request/deletion_record.h"

namespace {

using lzy::DatasetRef;
using lzy::Status;

/// Replaces files that are members of a set by their set, as option `set` declares it. Collective.
Status GroupIntoSets(lzy::ToolRun& run, std::vector<DatasetRef>& datasets) {
  // The set of each member, by the key of the member as a file of its own.
  std::map<std::string, DatasetRef> sets;
  for (const std::string& pattern : run.options().set) {
    auto found = lzy::ResolvePath(run.fs(), run.comm(), pattern, lzy::Resolve::kProtectable);
    // Nothing of this set is here.
    if (!found.ok() && found.status().code() == lzy::Code::kInvalidArgument) continue;
    if (!found.ok()) return found.status();
    for (const DatasetRef& set : *found) {
      for (const auto& [rank, path] : set.members) {
        sets.emplace(lzy::DatasetKey(run.fs(), {lzy::DatasetKind::kShared, path, {}}), set);
      }
    }
  }
  // All ranks are asked: one that sees no member must still take part in the calls below.
  LZY_ASSIGN_OR_RETURN(const std::uint64_t most, run.comm().AllReduceMax(sets.size()));
  if (most == 0) return Status::Ok();
  // Members are replaced one by one. Then the set is in the list several times, and RunTool handles it once. A rank
  // that does not see a member replaces it, too, so that the list stays the same on all ranks.
  for (DatasetRef& dataset : datasets) {
    if (dataset.kind != lzy::DatasetKind::kShared) continue;
    const auto at = sets.find(lzy::DatasetKey(run.fs(), dataset));
    LZY_ASSIGN_OR_RETURN(const auto all, lzy::AllGatherRecords(run.comm(), at != sets.end() ? at->second.path : std::string()));
    const auto pattern = std::ranges::find_if(all, [](const std::string& path) { return !path.empty(); });
    if (pattern == all.end()) continue;
    const auto known = std::ranges::find_if(sets, [&](const auto& member) { return member.second.path == *pattern; });
    dataset = known != sets.end() ? known->second : DatasetRef{lzy::DatasetKind::kSet, *pattern, {}};
  }
  return Status::Ok();
}

/// The request of the command line, and the user's answer to the question.
struct Wish {
  bool force = false;
  bool dry_run = false;
  bool remove = false;
  bool yes = false;
  bool index_objects = false;
  // The user refused, or could not be asked. For the last dataset.
  bool refused = false;
  // There is no terminal.
  bool nobody_to_ask = false;

  // The action that the report describes: a refused removal is shown like a dry run.
  lzy::Action action() const {
    if (remove) return dry_run || refused ? lzy::Action::kRemoveDryRun : lzy::Action::kRemove;
    return dry_run ? lzy::Action::kProtectDryRun : lzy::Action::kProtect;
  }
};

/// For --dry-run: predicts the result of lzy-protect from metadata and times. Reads no data.
lzy::DatasetReport PlanProtect(const lzy::Context& context, const DatasetRef& dataset, bool force) {
  lzy::DatasetReport report = lzy::Info(context, dataset);
  if (report.status.ok() && dataset.kind == lzy::DatasetKind::kShared && context.options.given.contains("device-dirs")) {
    const bool parity_given = report.generation == 0 || context.options.given.contains("parity");
    report.status = lzy::ResolveDirectories(context.fs, context.options, parity_given ? context.options.parity : report.parity).status();
  }
  // A destroyed sidecar is replaced by force only.
  const auto destroyed = [&] {
    const auto sidecar = lzy::FindSidecar(context.fs, dataset.path);
    return dataset.kind == lzy::DatasetKind::kShared && sidecar.ok() && !lzy::PeekSidecar(context.fs, *sidecar).ok();
  };
  if (report.status.code() == lzy::Code::kUnprotected && !force && lzy::OnAnyRank(context.comm, destroyed())) return report;
  // Nothing was ever committed, so nothing that Info reports says anything about the file.
  const bool fresh = report.status.code() == lzy::Code::kUnprotected || (report.status.ok() && report.generation == 0 && !report.met_commit);
  if (fresh) report = {dataset.path, dataset.kind};
  report.map.clear();
  // Something would be committed.
  report.planned = report.status.ok() && report.not_visible.empty() && (fresh || report.state == lzy::DatasetState::kStale ||
                                          report.state == lzy::DatasetState::kAtRisk);
  return report;
}

/// Lists the files that would be removed, and asks on the terminal of rank 0. All ranks get the same answer.
/// Collective. `always`: the answer holds for all further datasets.
bool IsConfirmed(const lzy::Context& context, const lzy::DatasetReport& plan, bool& always) {
  bool yes = false;
  if (context.comm.rank() == 0) {
    for (const std::string& path : plan.removed) lzy::Put(stderr, fmt::format("  {}\n", lzy::Printable(path)));
    lzy::Put(stderr, fmt::format("{}: remove its protection ({})? [y/N/a for all] ", lzy::Printable(plan.path),
               lzy::Plural(plan.removed.size(), "file")));
    std::string answer;
    std::getline(std::cin, answer);
    always = answer == "a" || answer == "A";
    yes = always || answer == "y" || answer == "Y" || answer == "yes";
  }
  yes = lzy::OnAnyRank(context.comm, yes);
  always = lzy::OnAnyRank(context.comm, always);
  return yes;
}

// Removes the sidecars of one dataset. Collective. The engine is called twice: first as a dry run, which lists what
// would go, then in earnest if the user agrees. With --yes or --dry-run, once.
lzy::DatasetReport Remove(const lzy::Context& context, const DatasetRef& dataset, Wish& wish) {
  wish.refused = false;
  lzy::UnprotectRequest request{.force = wish.force, .dry_run = wish.dry_run || !wish.yes};
  lzy::DatasetReport report = lzy::Unprotect(context, dataset, request);
  if (wish.dry_run || wish.yes || !report.status.ok() || !report.planned) return report;
  // Rank 0 decides whether there is anybody to ask: only it has the user's standard input. All ranks must get the same
  // answer, because it decides about collective calls.
  const bool can_ask = lzy::OnAnyRank(context.comm, context.comm.rank() == 0 && isatty(STDIN_FILENO));
  if (!can_ask || !IsConfirmed(context, report, wish.yes)) {
    wish.refused = true;
    wish.nobody_to_ask = !can_ask;
    return report;
  }
  request.dry_run = false;
  return lzy::Unprotect(context, dataset, request);
}

}  // namespace

int main(int argc, char** argv) {
  lzy::Tool tool;
  tool.name = "lzy-protect";
  tool.summary = "Creates or updates the sidecars of existing files.";
  tool.changes = "sidecars and the catalogue only; with --dry-run, nothing";
  tool.table_options = {"parity",  "group",   "block-size",  "stripe", "set",
                        "include", "exclude", "device-dirs", "report", "catalog"};
  Wish wish;
  // Only something protected can lose its protection.
  tool.resolve = [&] { return wish.remove ? lzy::Resolve::kProtected : lzy::Resolve::kProtectable; };
  tool.add_options = [&](lzy::Arguments& arguments) {
    arguments.AddFlag("--force", wish.force,
                      "also commit damaged blocks (they differ, but the file has its committed mtime), and a file whose "
                      "sidecar is destroyed; with --remove, also remove sidecars that can repair missing data");
    arguments.AddFlag("--dry-run", wish.dry_run, "print what would be done, from metadata alone, and do nothing");
    arguments.AddFlag("--remove", wish.remove,
                      "remove the sidecars of PATH, after listing them; never data. Asks on a terminal");
    arguments.AddFlag("--index-objects", wish.index_objects,
                      "also store where the objects of HDF5 and netCDF files lie, so that they can be named even if the metadata of the file are destroyed");
    arguments.AddFlag("--yes", wish.yes, "with --remove: do not ask");
  };
  tool.check_options = [&] {
    if (wish.index_objects && (wish.remove || wish.dry_run)) {
      return Status(lzy::Code::kInvalidArgument, "--index-objects: is accepted neither with --remove nor with --dry-run");
    }
    if (!wish.yes || wish.remove) return Status::Ok();
    return Status(lzy::Code::kInvalidArgument, "--yes: is accepted only together with --remove");
  };
  tool.indexes_objects = [&] { return wish.index_objects; };
  tool.side_by_side = [&] { return !wish.remove; };
  tool.action = [&] { return wish.action(); };
  // Globs and sets only serve to make sidecars. For a removal, the sidecars themselves show the datasets.
  tool.select = [&](lzy::ToolRun& run, const std::string& path, std::vector<DatasetRef>& datasets) {
    if (wish.remove) return Status::Ok();
    std::error_code ignored;
    LZY_ASSIGN_OR_RETURN(const auto directory,
                         run.comm().AllReduceMax(std::filesystem::is_directory(path, ignored) ? 1 : 0));
    // Options include and exclude only apply to files found below a directory, not to files that the user names.
    std::erase_if(datasets, [&](const DatasetRef& dataset) {
      const auto whole = std::filesystem::absolute(dataset.path).lexically_normal();
      return directory != 0 && !lzy::IsSelected(run.options(), whole);
    });
    LZY_RETURN_IF_ERROR(lzy::DropCatalogFiles(run, datasets));
    return GroupIntoSets(run, datasets);
  };
  tool.engine = [&](const lzy::Context& context, const DatasetRef& dataset) {
    if (wish.remove) return Remove(context, dataset, wish);
    if (wish.dry_run) return PlanProtect(context, dataset, wish.force);
    lzy::ProtectRequest request;
    request.force = wish.force;
    return lzy::Protect(context, dataset, request);
  };
  // A commit makes hashes of the data that it reads. Only if there was nothing to commit, all data were compared with
  // hashes.
  tool.note = [&](const lzy::DatasetReport& report) -> std::optional<lzy::CatalogNote::Read> {
    if (wish.dry_run) return std::nullopt;
    if (wish.remove && report.removed.empty()) return std::nullopt;
    const bool compared = !report.committed && report.state == lzy::DatasetState::kIntact;
    return compared ? lzy::CatalogNote::Read::kWhole : lzy::CatalogNote::Read::kNothing;
  };
  tool.after_dataset = [&](lzy::ToolRun& run, const lzy::DatasetReport& report) {
    // Another user's catalogue may know the dataset: a scrub by root would miss it.
    if (wish.action() == lzy::Action::kRemove && !report.removed.empty()) {
      const std::string path = lzy::CatalogPath(report.path, report.kind == lzy::DatasetKind::kSet);
      (void)lzy::AppendDeletion(lzy::CatalogInUse(run.options()), {lzy::WallClockNs(), path});
    }
    // Fail says it once, however many datasets there are.
    if (wish.nobody_to_ask) {
      run.Fail(Status(lzy::Code::kInvalidArgument, "--remove: nothing was removed, because there is no terminal to ask on; "
                                                   "to remove without asking, add --yes"));
    }
    // One line for each commit.
    if (run.options().report.empty() || !report.committed) return;
    if (Status appended = lzy::AppendCommitRecord(run.options().report, report); !appended.ok()) run.Fail(appended);
  };
  return lzy::RunTool(tool, argc, argv);
}
