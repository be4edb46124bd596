// lzy-protect: makes or refreshes the sidecars of existing files.
#include <algorithm>
#include <filesystem>
#include <map>

#include "common/tool.h"
#include "request/commit_record.h"

namespace {

using lzy::DatasetRef;
using lzy::Status;

/// Of what was found below a directory, only what include and exclude let through; what a PATH names itself is meant.
void ApplyGlobs(const lzy::Options& options, std::vector<DatasetRef>& datasets) {
  std::erase_if(datasets, [&](const DatasetRef& dataset) {
    return !lzy::IsSelected(options, std::filesystem::absolute(dataset.path).lexically_normal());
  });
}

/// Files that the option `set` says are members become one dataset. Collective.
Status GroupIntoSets(lzy::ToolRun& run, std::vector<DatasetRef>& datasets) {
  std::map<std::string, DatasetRef> sets;  // by the key of a member as a file of its own
  for (const std::string& pattern : run.options().set) {
    auto found = lzy::ResolvePath(run.fs(), run.comm(), pattern, lzy::Resolve::kProtectable);
    if (!found.ok() && found.status().code() == lzy::Code::kInvalidArgument) continue;  // nothing of it is here
    if (!found.ok()) return found.status();
    for (const DatasetRef& set : *found) {
      for (const auto& [rank, path] : set.members) {
        sets.emplace(lzy::DatasetKey(run.fs(), {lzy::DatasetKind::kShared, path, {}}), set);
      }
    }
  }
  // Whether there are any is asked of all: a rank that sees no member must not leave the others waiting.
  LZY_ASSIGN_OR_RETURN(const std::uint64_t most, run.comm().AllReduceMax(sets.size()));
  if (most == 0) return Status::Ok();
  // Replaced one by one; the set itself comes several times then, and is handled once. A rank that does not see a
  // member has it replaced all the same, so that the list stays the same everywhere.
  for (DatasetRef& dataset : datasets) {
    if (dataset.kind != lzy::DatasetKind::kShared) continue;
    const auto at = sets.find(lzy::DatasetKey(run.fs(), dataset));
    lzy::ByteWriter mine;
    if (at != sets.end()) mine.PutString(at->second.path);
    LZY_ASSIGN_OR_RETURN(const auto all, run.comm().AllGather(mine.bytes()));
    for (const auto& bytes : all) {
      if (bytes.empty()) continue;
      lzy::ByteReader in(bytes);
      const std::string pattern = in.GetString(bytes.size());
      DatasetRef set{lzy::DatasetKind::kSet, pattern, {}};
      for (const auto& [key, known] : sets) {
        if (known.path == pattern) set = known;
      }
      dataset = set;
      break;
    }
  }
  return Status::Ok();
}

}  // namespace

int main(int argc, char** argv) {
  lzy::ProtectRequest request;
  lzy::Tool tool;
  tool.name = "lzy-protect";
  tool.summary = "Makes or refreshes the sidecars of existing files.";
  tool.changes = "sidecars only";
  tool.table_options = {"parity",  "group",   "block-size",  "stripe", "set",
                        "include", "exclude", "device-dirs", "report"};
  tool.resolve = lzy::Resolve::kProtectable;
  tool.add_options = [&](CLI::App& app) {
    app.add_flag("--force", request.force,
                 "commit even blocks that are damaged: that differ while the file's mtime is as committed");
  };
  tool.action = [] { return lzy::Action::kProtect; };
  tool.select = [](lzy::ToolRun& run, const std::string& path, std::vector<DatasetRef>& datasets) {
    std::error_code ignored;
    LZY_ASSIGN_OR_RETURN(const auto directory,
                         run.comm().AllReduceMax(std::filesystem::is_directory(path, ignored) ? 1 : 0));
    if (directory != 0) ApplyGlobs(run.options(), datasets);
    return GroupIntoSets(run, datasets);
  };
  tool.engine = [&](const lzy::Context& context, const DatasetRef& dataset) {
    return lzy::Protect(context, dataset, request);
  };
  tool.after_dataset = [](lzy::ToolRun& run, const lzy::DatasetReport& report) {
    if (run.options().report.empty() || !report.committed) return;
    if (Status appended = lzy::AppendCommitRecord(run.options().report, report); !appended.ok()) run.Fail(appended);
  };
  return lzy::RunTool(tool, argc, argv);
}
