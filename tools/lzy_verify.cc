// lzy-verify: checks data, parity and metadata; with --repair, also repairs damage. The shortest example of a tool
// (docs/design.md §15).
#include <fmt/format.h>

#include "common/tool.h"

int main(int argc, char** argv) {
  lzy::VerifyRequest request;
  bool dry_run = false;
  std::vector<std::string> on_damage;
  lzy::Tool tool;
  tool.name = "lzy-verify";
  tool.summary = "Checks data, parity and metadata against their hashes.";
  tool.changes = "the catalogue; with --repair, also damaged blocks and sidecars, and the times that sidecars record (never creates missing data files)";
  tool.table_options = {"device-dirs", "catalog"};
  tool.add_options = [&](lzy::Arguments& arguments) {
    arguments.AddFlag("--from-disk", request.from_disk, "read everything from the device instead of the page cache");
    arguments.AddFlag("--repair", request.repair, "repair damage");
    arguments.AddFlag("--dry-run", dry_run, "with --repair: print what would be repaired, and change nothing");
    arguments.AddFlag("--force", request.force,
                      "with --repair: also reset stale and at-risk blocks to their committed content");
    lzy::AddOnDamage(arguments, on_damage);
  };
  tool.check_options = [&] {
    if (request.repair || (!request.force && !dry_run)) return lzy::Status::Ok();
    return lzy::Status(lzy::Code::kInvalidArgument,
                       fmt::format("--{}: is accepted only together with --repair", dry_run ? "dry-run" : "force"));
  };
  tool.action = [&] {
    if (dry_run) return lzy::Action::kRepairDryRun;
    return request.repair ? lzy::Action::kRepair : lzy::Action::kVerify;
  };
  tool.note = [](const lzy::DatasetReport&) { return lzy::CatalogNote::Read::kWhole; };
  tool.on_damage = [&] { return on_damage.empty() ? std::string() : on_damage.back(); };
  tool.engine = [&](const lzy::Context& context, const lzy::DatasetRef& dataset) {
    // A dry run of a repair is a plain check. Only the wording of its report differs (Action::kRepairDryRun).
    lzy::VerifyRequest now = request;
    now.repair = request.repair && !dry_run;
    return lzy::Verify(context, dataset, now);
  };
  return lzy::RunTool(tool, argc, argv);
}
