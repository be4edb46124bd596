#include "names/protect_paths.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "names/set_names.h"
#include "names/survey.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// Adds files to the paths, each file once.
class Plan {
 public:
  Plan(FileSystem& fs, const std::vector<std::string>& files) : fs_(fs), left_(files.begin(), files.end()) {}

  /// Files that no path covers yet; sorted.
  std::vector<std::string> left() const { return {left_.begin(), left_.end()}; }

  /// Adds `path` for those `members` that no path covers yet. If there are none, does not add it.
  void Add(const std::string& path, const std::vector<std::string>& members) {
    bool any = false;
    for (const std::string& member : members) {
      const auto real = left_.contains(member) ? Result<std::string>(member) : fs_.RealPath(member);
      if (!real.ok() || left_.erase(*real) == 0) continue;
      paths_.path_of[*real] = path;
      any = true;
    }
    if (any) paths_.paths.push_back(path);
  }

  ProtectPaths Take() && {
    std::ranges::sort(paths_.paths);
    return std::move(paths_);
  }

 private:
  FileSystem& fs_;
  std::set<std::string> left_;
  ProtectPaths paths_;
};

std::vector<std::string> MembersOf(Survey& survey, const std::string& pattern) {
  std::vector<std::string> paths;
  for (const auto& [rank, member] : survey.MembersOf(pattern)) paths.push_back(member.path);
  return paths;
}

/// True if a PATH of this name would match other files, too.
bool LooksLikePattern(const std::string& path) {
  return HasRankPlaceholder(path) || path.find('*') != std::string::npos;
}

void AddDeclaredSets(FileSystem& fs, const std::vector<std::string>& sets, Plan& plan) {
  for (const std::string& pattern : sets) {
    Survey survey(fs, Resolve::kProtectable);
    if (!survey.Add(pattern).ok()) continue;  // nothing of this set is here
    for (const auto& [path, dataset] : survey.found()) {
      if (dataset.kind == DatasetKind::kSet) plan.Add(path, MembersOf(survey, path));
    }
  }
}

/// Adds the sets that sidecars record. Returns the files that no sidecar mentions.
std::vector<std::string> AddKnown(FileSystem& fs, Plan& plan) {
  Survey survey(fs, Resolve::kProtectable);
  std::map<std::string, Directory> directories;
  std::vector<std::string> fresh;
  for (const std::string& path : plan.left()) {
    if (LooksLikePattern(path)) continue;
    if (!survey.Add(path).ok() || !survey.found().contains(path)) continue;  // otherwise it is a member of a set that was found
    const std::string above = DirectoryOf(path);
    Directory& directory = directories.try_emplace(above, fs, above).first->second;
    if (directory.SidecarOf(BaseNameOf(path)).empty()) fresh.push_back(path);
  }
  for (const auto& [path, dataset] : survey.found()) {
    if (dataset.kind == DatasetKind::kSet) plan.Add(path, MembersOf(survey, path));
  }
  return fresh;
}

/// Other files in the directories of `files`. lzy-protect would make them members of a set with a matching pattern.
std::vector<std::string> FilesBeside(FileSystem& fs, const std::vector<std::string>& files) {
  std::set<std::string> directories;
  for (const std::string& path : files) directories.insert(DirectoryOf(path));
  const std::set<std::string> known(files.begin(), files.end());
  std::vector<std::string> beside;
  for (const std::string& directory : directories) {
    const auto names = fs.List(directory);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      std::string path = JoinPath(directory, name);
      if (!name.starts_with('.') && !known.contains(path)) beside.push_back(std::move(path));
    }
  }
  return beside;
}

}  // namespace

ProtectPaths PathsToProtect(FileSystem& fs, const std::vector<std::string>& files, const std::vector<std::string>& sets) {
  Plan plan(fs, files);
  AddDeclaredSets(fs, sets, plan);
  const std::vector<std::string> fresh = AddKnown(fs, plan);
  for (const GuessedSet& set : GuessSets(fresh, FilesBeside(fs, fresh))) plan.Add(set.pattern, set.members);
  for (const std::string& path : plan.left()) plan.Add(path, {path});
  return std::move(plan).Take();
}

}  // namespace lzy
