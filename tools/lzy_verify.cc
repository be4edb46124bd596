// lzy-verify: checks data, parity and metadata; with --repair, also repairs damage. The shortest example of a tool
// (docs/design/overview.md §15).
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/printable.h"
#include "comm/records.h"
#include "common/losses.h"
#include "common/tool.h"
#include "names/unprotected.h"

namespace {

// The most entries of a list on the screen; --json has all.
constexpr std::size_t kMostFiles = 20;

/// Files below `directory` without a sidecar, on any rank, except those in the catalogue. Collective.
lzy::Result<std::vector<std::string>> Unprotected(lzy::ToolRun& run, const std::string& directory) {
  const auto mine = lzy::FindUnprotected(run.fs(), directory);
  // If the directory is not on this node, it may be on another one. An error of listing was reported when its datasets were
  // searched.
  LZY_ASSIGN_OR_RETURN(auto all, lzy::UniteRecords(run.comm(), mine.ok() ? *mine : std::vector<std::string>()));
  const std::string catalog = lzy::CatalogInUse(run.options());
  std::erase_if(all, [&](const std::string& path) { return lzy::IsOfCatalog(path, catalog); });
  const std::set<std::string> once(all.begin(), all.end());
  return std::vector<std::string>(once.begin(), once.end());
}

/// Reports how many files are not protected. `all`: names them, and they affect the exit code. Collective.
void ReportUnprotected(lzy::ToolRun& run, bool all) {
  lzy::Json list = lzy::Json::array();
  std::size_t count = 0;
  bool any = false;
  for (const std::string& path : run.arguments().paths) {
    const auto stat = run.fs().Stat(path);
    if (!lzy::OnAnyRank(run.comm(), stat.ok() && stat->type == lzy::FileStat::Type::kDirectory)) continue;
    any = true;
    const auto files = Unprotected(run, path);
    if (!files.ok()) return run.Fail(files.status());
    if (files->empty()) continue;
    count += files->size();
    const std::string which = fmt::format("{}: {} {}", lzy::Printable(path), lzy::Plural(files->size(), "file"), files->size() == 1 ? "is" : "are");
    if (!all) {
      run.Say(which + " not protected; --all names them\n");
      continue;
    }
    std::string names;
    for (std::size_t i = 0; i < files->size() && i < kMostFiles; ++i) names += fmt::format("  {}\n", lzy::Printable((*files)[i]));
    if (files->size() > kMostFiles) names += fmt::format("  and {} more; --json lists all of them\n", files->size() - kMostFiles);
    names += fmt::format("  to protect them: lzy-protect {}\n", lzy::ShellQuote(path));
    run.Finding(lzy::kExitNotProtected, fmt::format("{} not protected", which), names);
    for (const std::string& file : *files) list.push_back(file);
  }
  if (any) run.extra()["unprotected_files"] = count;
  if (any && all) run.extra()["unprotected"] = std::move(list);
}

}  // namespace

int main(int argc, char** argv) {
  lzy::VerifyRequest request;
  bool dry_run = false;
  bool all = false;
  bool encode = false;
  std::vector<lzy::DatasetRef> found;
  std::vector<std::string> on_damage;
  lzy::Tool tool;
  tool.name = "lzy-verify";
  tool.summary = "Checks data, parity and metadata against their hashes.";
  tool.changes = "the catalogue; with --repair, also damaged blocks and sidecars, and the times that sidecars record (never creates missing data files)";
  tool.table_options = {"device-dirs", "catalog"};
  tool.add_options = [&](lzy::Arguments& arguments) {
    arguments.AddFlag("--from-disk", request.from_disk, "read everything from the device instead of the page cache");
    arguments.AddFlag("--encode", encode, "also compute the parity again and compare; finds parity that was computed wrongly");
    arguments.AddFlag("--repair", request.repair, "repair damage");
    arguments.AddFlag("--dry-run", dry_run, "with --repair: print what would be repaired, and change nothing");
    arguments.AddFlag("--force", request.force,
                      "with --repair: also reset stale and at-risk blocks to their committed content");
    arguments.AddFlag("--all", all, "fail with exit code 4 if there are files below a directory PATH that are not protected, and name them");
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
  tool.select = [&](lzy::ToolRun& run, const std::string&, std::vector<lzy::DatasetRef>& datasets) {
    LZY_RETURN_IF_ERROR(lzy::DropCatalogFiles(run, datasets));
    found.insert(found.end(), datasets.begin(), datasets.end());
    return lzy::Status::Ok();
  };
  tool.run = [&](lzy::ToolRun& run) {
    run.HandleNamed();
    if (run.Interrupted()) return;
    lzy::FindLosses(run, found);
    lzy::ReportLosses(run);
    ReportUnprotected(run, all);
  };
  const auto verify = [&](const lzy::Context& context, const lzy::DatasetRef& dataset, bool force) {
    // A dry run of a repair is a plain check. Only the wording of its report differs (Action::kRepairDryRun).
    lzy::VerifyRequest now = request;
    now.repair = request.repair && !dry_run;
    now.force = force;
    now.encode = encode ? 1 : 0;
    return lzy::Verify(context, dataset, now);
  };
  tool.engine = [&](const lzy::Context& context, const lzy::DatasetRef& dataset) { return verify(context, dataset, request.force); };
  tool.unforced = [&] {
    return request.force && !dry_run ? lzy::EngineCall([&](const lzy::Context& context, const lzy::DatasetRef& dataset) { return verify(context, dataset, false); })
                                     : lzy::EngineCall();
  };
  return lzy::RunTool(tool, argc, argv);
}
