// lzy-info: geometry, state, root, sizes and age of datasets; removes orphaned sidecars when asked to.
#include <fmt/format.h>

#include "common/tool.h"

namespace {

using lzy::Status;

/// Every rank's texts, without doubles, in order; the same everywhere.
lzy::Result<std::set<std::string>> GatherTexts(lzy::Communicator& comm, const std::vector<std::string>& mine) {
  lzy::ByteWriter out;
  for (const std::string& text : mine) out.PutString(text);
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(out.bytes()));
  std::set<std::string> texts;
  for (const auto& bytes : all) {
    lzy::ByteReader in(bytes);
    while (in.remaining() > 0 && in.ok()) texts.insert(in.GetString(bytes.size()));
  }
  return texts;
}

/// Removes this rank's orphans; those on a shared file system are removed by whoever comes first.
Status Remove(lzy::FileSystem& fs, const std::vector<std::string>& orphans) {
  Status first_failure;
  for (const std::string& orphan : orphans) {
    Status removed = fs.Remove(orphan);
    if (removed.ok()) removed = fs.SyncDirectory(lzy::DirectoryOf(orphan));
    if (!removed.ok() && removed.code() != lzy::Code::kNotFound && first_failure.ok()) first_failure = removed;
  }
  return first_failure;
}

/// Lists sidecars without a file below `path`, and removes them if `prune`. Collective.
Status HandleOrphans(lzy::ToolRun& run, const std::string& path, bool prune) {
  auto mine = lzy::FindOrphans(run.fs(), path);
  const bool absent = !mine.ok() && mine.status().code() == lzy::Code::kNotFound;  // on another node it may be there
  LZY_RETURN_IF_ERROR(lzy::Agree(run.comm(), absent ? Status::Ok() : mine.status()));
  const std::vector<std::string> orphans = mine.ok() ? *mine : std::vector<std::string>{};
  LZY_ASSIGN_OR_RETURN(const auto all, GatherTexts(run.comm(), orphans));
  for (const std::string& orphan : all) {
    run.Say(fmt::format("{}: orphan: its file is gone{}\n", orphan, prune ? ", removing it" : ""));
    run.extra()["orphans"].push_back({{"path", orphan}, {"removed", prune}});
  }
  if (!prune) {
    if (!all.empty()) run.Say(fmt::format("  remove orphans with: lzy-info --prune {}\n", lzy::ShellQuote(path)));
    return Status::Ok();
  }
  if (all.empty()) run.Say(fmt::format("{}: no orphaned sidecars\n", path));
  return lzy::Agree(run.comm(), Remove(run.fs(), orphans));
}

/// True on all ranks when one of them sees a directory at `path`.
bool IsDirectory(lzy::ToolRun& run, const std::string& path) {
  const auto stat = run.fs().Stat(path);
  const bool here = stat.ok() && stat->type == lzy::FileStat::Type::kDirectory;
  const auto anywhere = run.comm().AllReduceMax(here ? 1 : 0);
  return anywhere.ok() && *anywhere != 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool map = false;
  bool prune = false;
  lzy::Tool tool;
  tool.name = "lzy-info";
  tool.summary = "Tells geometry, state, root, sizes and the age of the last commit, from the metadata alone.";
  tool.changes = "nothing; with --prune, orphaned sidecars";
  tool.resolve = lzy::Resolve::kProtected;
  tool.add_options = [&](CLI::App& app) {
    app.add_flag("--map", map, "also tell which devices are coded with which");
    app.add_flag("--prune", prune, "list sidecars below the directory PATH whose file is gone, and remove them");
  };
  tool.action = [] { return lzy::Action::kInfo; };
  tool.before_path = [&](lzy::ToolRun& run, const std::string& path) {
    const bool directory = IsDirectory(run, path);
    if (directory) {
      if (Status handled = HandleOrphans(run, path, prune); !handled.ok()) run.Fail(handled);
    } else if (prune) {
      run.Fail(Status(lzy::Code::kInvalidArgument, fmt::format("--prune: '{}' is not accepted: a directory", path)));
    }
    return prune;
  };
  tool.engine = [&](const lzy::Context& context, const lzy::DatasetRef& dataset) {
    lzy::DatasetReport report = lzy::Info(context, dataset);
    if (!map) report.map.clear();
    return report;
  };
  return lzy::RunTool(tool, argc, argv);
}
