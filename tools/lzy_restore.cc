// lzy-restore: rebuilds lost devices and mends damaged blocks.
#include <fmt/format.h>

#include "common/tool.h"

int main(int argc, char** argv) {
  lzy::RestoreRequest request;
  lzy::Tool tool;
  tool.name = "lzy-restore";
  tool.summary = "Rebuilds lost devices (found by itself, or named) and mends damaged blocks.";
  tool.changes = "lost files, damaged blocks and sidecars; with --dry-run, nothing";
  tool.resolve = lzy::Resolve::kProtected;
  tool.add_options = [&](CLI::App& app) {
    app.add_option("--device", request.devices,
                   "a device to be treated as lost, besides those found missing; repeatable")
        ->type_name("D")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_flag("--dry-run", request.dry_run, "say what would be done, and do nothing");
    app.add_flag("--salvage", request.salvage,
                 "with more losses than parity can mend: write what can be had nevertheless");
    app.add_flag("--force", request.force, "take stale and at-risk blocks back to the committed content too");
  };
  tool.action = [&] { return request.dry_run ? lzy::Action::kRestoreDryRun : lzy::Action::kRestore; };
  tool.engine = [&](const lzy::Context& context, const lzy::DatasetRef& dataset) {
    return lzy::Restore(context, dataset, request);
  };
  return lzy::RunTool(tool, argc, argv);
}
