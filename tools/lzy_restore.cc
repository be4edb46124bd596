// lzy-restore: rebuilds lost files and sidecars, and repairs damaged blocks. The rest is RunTool (common/tool.h).
#include <fmt/format.h>

#include <charconv>

#include "common/tool.h"

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

}  // namespace

int main(int argc, char** argv) {
  lzy::RestoreRequest request;
  std::vector<std::string> devices;
  bool spread = false;
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
    arguments.AddFlag("--spread", spread,
                      "if nodes of a set are gone: put their members on nodes that have room, as few of a group as "
                      "possible on each");
    arguments.AddFlag("--force", request.force, "also reset stale and at-risk blocks to their committed content");
  };
  tool.check_options = [&] {
    if (spread) request.placing = lzy::Placing::kRoom;
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
    if (request.placing == lzy::Placing::kRoom) options += "--spread ";
    if (request.salvage) options += "--salvage ";
    if (request.force) options += "--force ";
    return options;
  };
  // A dry run that names devices reports damage that is not there.
  tool.note = [&](const lzy::DatasetReport&) -> std::optional<lzy::CatalogNote::Read> {
    if (request.dry_run) return std::nullopt;
    return lzy::CatalogNote::Read::kWhole;
  };
  tool.engine = [&](const lzy::Context& context, const lzy::DatasetRef& dataset) {
    return lzy::Restore(context, dataset, request);
  };
  return lzy::RunTool(tool, argc, argv);
}
