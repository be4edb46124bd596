// lzy-verify: checks data, parity and metadata; with --repair also mends what is damaged.
#include "common/tool.h"

int main(int argc, char** argv) {
  lzy::VerifyRequest request;
  lzy::Tool tool;
  tool.name = "lzy-verify";
  tool.summary = "Checks data, parity and metadata against their hashes.";
  tool.changes = "nothing; with --repair, damaged blocks and sidecars (never creates missing data files)";
  tool.table_options = {"device-dirs"};
  tool.resolve = lzy::Resolve::kProtected;
  tool.add_options = [&](CLI::App& app) {
    app.add_flag("--from-disk", request.from_disk, "read everything from the device, past the page cache");
    app.add_flag("--repair", request.repair, "mend what is damaged");
    app.add_flag("--force", request.force,
                 "with --repair: take stale and at-risk blocks back to the committed content too");
  };
  tool.check_options = [&] {
    if (!request.force || request.repair) return lzy::Status::Ok();
    return lzy::Status(lzy::Code::kInvalidArgument, "--force: is accepted only together with --repair");
  };
  tool.action = [&] { return request.repair ? lzy::Action::kRepair : lzy::Action::kVerify; };
  tool.engine = [&](const lzy::Context& context, const lzy::DatasetRef& dataset) {
    return lzy::Verify(context, dataset, request);
  };
  return lzy::RunTool(tool, argc, argv);
}
