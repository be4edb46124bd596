// lzy-restore: rebuilds lost files and sidecars, and repairs damaged blocks. The rest is RunTool (common/tool.h).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/printable.h"
#include "comm/records.h"
#include "common/tool.h"
#include "repair/replica.h"

namespace {

using lzy::Status;

// Numbers of devices, as decimal text without anything around. Whether a dataset has such a device is for the engine
// to say.
Status ParseDevices(const std::vector<std::string>& texts, std::vector<std::uint32_t>& devices) {
  for (const std::string& text : texts) {
    std::uint32_t device = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), device);
    if (error != std::errc() || end != text.data() + text.size()) {
      return {lzy::Code::kInvalidArgument,
              fmt::format("--device: '{}' is not accepted: the number of a device, as lzy-info --map shows it", text)};
    }
    devices.push_back(device);
  }
  return Status::Ok();
}

// Finds the replica of each dataset in the paths that the user named as replicas.
class Replicas {
 public:
  std::vector<std::string> given;
  bool any() const { return !given.empty(); }

  /// Notes the replicas of what `path` stands for. Collective.
  Status Note(lzy::ToolRun& run, const std::string& path, const std::vector<lzy::DatasetRef>& datasets) {
    if (!any()) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(const auto found, lzy::FindReplicas(run.fs(), run.comm(), path, datasets, given.back()));
    // A file is a replica of one file, also if several PATHs are given.
    for (const auto& [dataset, replica] : found) {
      for (const auto& [other, of_other] : replicas_) {
        if (other == dataset || of_other != replica) continue;
        return {lzy::Code::kInvalidArgument, fmt::format("--from: {} is not accepted for several datasets: a directory that has all of them", given.back())};
      }
    }
    std::vector<bool> seen;
    LZY_RETURN_IF_ERROR(lzy::AgreeOn(run.comm(), [&] {
      for (const auto& [dataset, replica] : found) seen.push_back(run.fs().Stat(replica).ok());
    }));
    LZY_ASSIGN_OR_RETURN(const auto all, lzy::AllGatherRecords(run.comm(), seen));
    elsewhere_ = elsewhere_ || std::ranges::any_of(all, [&](const auto& theirs) { return theirs != seen; });
    replicas_.insert(found.begin(), found.end());
    return Status::Ok();
  }
  /// Some of them are seen by some ranks, and not by others. The same on all ranks.
  bool elsewhere() const { return elsewhere_; }
  std::string Of(const lzy::DatasetRef& dataset) const {
    const auto at = replicas_.find(dataset.path);
    return at == replicas_.end() ? "" : at->second;
  }

 private:
  std::map<std::string, std::string> replicas_;  // constant while datasets are restored
  bool elsewhere_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  lzy::RestoreRequest request;
  std::vector<std::string> devices;
  std::vector<std::string> lost;
  bool spread = false;
  Replicas replicas;
  lzy::Tool tool;
  tool.name = "lzy-restore";
  tool.summary = "Rebuilds lost devices (found automatically, or named) and repairs damaged blocks.";
  tool.changes = "lost files, damaged blocks, sidecars and the catalogue; with --dry-run, nothing";
  tool.table_options = {"device-dirs", "catalog"};
  tool.add_options = [&](lzy::Arguments& arguments) {
    arguments.AddValues("--device", "D", devices,
                        "treat device D as lost, besides those that are missing; repeatable");
    arguments.AddFlag("--dry-run", request.dry_run, "print what would be done, and do nothing");
    arguments.AddFlag("--salvage", request.salvage,
                      "if more is lost than parity can repair: write what can be recovered");
    arguments.AddValues("--from", "REPLICA", replicas.given,
                        "take blocks that parity cannot repair from another copy, if they are as committed: a file, a "
                        "file-set pattern, or a directory with the same names");
    arguments.AddValues("--lost", "NODE", lost,
                        "treat members that were written on NODE (or NODE,NODE) as lost, though they may be on its disk; repeatable");
    arguments.AddFlag("--here", request.lost.all, "treat all members as lost that are not visible from here");
    arguments.AddFlag("--spread", spread,
                      "if nodes of a set are gone: put their members on nodes that have room, as few of a group as "
                      "possible on each");
    arguments.AddFlag("--force", request.force, "also reset stale and at-risk blocks to their committed content");
  };
  tool.check_options = [&] {
    if (spread) request.placing = lzy::Placing::kRoom;
    for (const std::string& names : lost) std::ranges::move(lzy::NodesIn(names), std::back_inserter(request.lost.named));
    return ParseDevices(devices, request.devices);
  };
  // It decides how the report is worded, and which command it suggests next.
  tool.action = [&] {
    if (request.dry_run) return spread ? lzy::Action::kSpreadDryRun : lzy::Action::kRestoreDryRun;
    return request.salvage ? lzy::Action::kSalvage : lzy::Action::kRestore;
  };
  tool.again = [&] {
    std::string options;
    for (const std::uint32_t device : request.devices) options += fmt::format("--device {} ", device);
    for (const std::string& names : lost) options += fmt::format("--lost {} ", lzy::ShellQuote(names));
    if (request.lost.all) options += "--here ";
    if (request.placing == lzy::Placing::kRoom) options += "--spread ";
    if (replicas.any()) options += fmt::format("--from {} ", lzy::ShellQuote(replicas.given.back()));
    if (request.salvage) options += "--salvage ";
    if (request.force) options += "--force ";
    return options;
  };
  // A dry run that names devices reports damage that is not there.
  tool.note = [&](const lzy::DatasetReport&) -> std::optional<lzy::CatalogNote::Read> {
    if (request.dry_run) return std::nullopt;
    return lzy::CatalogNote::Read::kWhole;
  };
  tool.also_named = [&] {
    std::vector<std::string> named;
    if (replicas.any()) named = lzy::NamedBy(replicas.given.back());
    return named;
  };
  // A rank alone could not ask others.
  tool.side_by_side = [&] { return !replicas.elsewhere(); };
  tool.select = [&](lzy::ToolRun& run, const std::string& path, std::vector<lzy::DatasetRef>& datasets) {
    return replicas.Note(run, path, datasets);
  };
  const auto restore = [&](const lzy::Context& context, const lzy::DatasetRef& dataset, bool force) {
    lzy::RestoreRequest one = request;
    one.force = force;
    one.replica = replicas.Of(dataset);
    return lzy::Restore(context, dataset, one);
  };
  tool.engine = [&](const lzy::Context& context, const lzy::DatasetRef& dataset) { return restore(context, dataset, request.force); };
  tool.unforced = [&] {
    return request.force && !request.dry_run && !request.salvage
               ? lzy::EngineCall([&](const lzy::Context& context, const lzy::DatasetRef& dataset) { return restore(context, dataset, false); })
               : lzy::EngineCall();
  };
  return lzy::RunTool(tool, argc, argv);
}
