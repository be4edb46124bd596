// lzy-protect: makes or refreshes the sidecars of existing files.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "common/tool.h"

namespace {

using lzy::DatasetRef;
using lzy::Status;

/// As the interposition layer does it: against the whole path, '*' matching slashes too, or the file's name alone.
bool MatchesAny(const std::vector<std::string>& globs, const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path).lexically_normal();
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return fnmatch(glob.c_str(), absolute.c_str(), 0) == 0 ||
           fnmatch(glob.c_str(), lzy::BaseNameOf(path).c_str(), 0) == 0;
  });
}

/// Of what was found below a directory, only what include and exclude let through; what a PATH names itself is meant.
void ApplyGlobs(const lzy::Options& options, std::vector<DatasetRef>& datasets) {
  std::erase_if(datasets, [&](const DatasetRef& dataset) {
    const bool included = options.include.empty() || MatchesAny(options.include, dataset.path);
    return !included || MatchesAny(options.exclude, dataset.path);
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

/// The option `report`: a line for each commit.
Status AppendRecord(const std::string& file, const lzy::DatasetReport& report) {
  std::FILE* out = std::fopen(file.c_str(), "ae");
  const auto failure = [&] {
    return Status(lzy::Code::kIo, fmt::format("report: {}: {}", file, std::strerror(errno)));
  };
  if (out == nullptr) return failure();
  const std::string line = lzy::Dump(lzy::CommitRecord(report), /*one_line=*/true);
  const bool written = std::fwrite(line.data(), 1, line.size(), out) == line.size();
  const Status result = written ? Status::Ok() : failure();
  return std::fclose(out) == 0 || !result.ok() ? result : failure();
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
    if (Status appended = AppendRecord(run.options().report, report); !appended.ok()) run.Fail(appended);
  };
  return lzy::RunTool(tool, argc, argv);
}
