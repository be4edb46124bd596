// Merges what the ranks found. One rank of each node searches. In four exchanges, all ranks share the datasets, the newest
// version of each set, notes about each dataset, and which datasets are the same. All ranks process the same data in the
// same order, so all get the same list.

#include "names/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/printable.h"
#include "comm/records.h"
#include "names/holders.h"
#include "names/orphans.h"
#include "names/reach.h"
#include "names/set_names.h"
#include "names/survey.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// The processes that share one view of the file system. One of them searches and sends the result to the others. So the
/// metadata server of a parallel file system answers each question once for each node, not once for each process.
struct Companions {
  int leader = 0;
  std::uint32_t count = 1;
  std::uint32_t place = 0;  ///< number of this process among them; 0: it leads
  bool any = false;         ///< any process of the communicator has companions; the same on all ranks
  bool leads() const { return place == 0; }
};

Result<Companions> GatherCompanions(FileSystem& fs, Communicator& comm) {
  Companions out{.leader = comm.rank()};
  if (comm.size() == 1) return out;
  LZY_ASSIGN_OR_RETURN(const auto views, AllGatherRecords(comm, fmt::format("{}\n{}", comm.ProcessorName(), fs.View())));
  const auto mine = static_cast<std::size_t>(comm.rank());
  out.leader = static_cast<int>(std::ranges::find(views, views[mine]) - views.begin());
  out.count = static_cast<std::uint32_t>(std::ranges::count(views, views[mine]));
  out.place = static_cast<std::uint32_t>(std::count(views.begin(), views.begin() + comm.rank(), views[mine]));
  out.any = std::set(views.begin(), views.end()).size() < views.size();
  return out;
}

/// What this rank found: datasets by path, and errors.
struct Found {
  std::map<std::string, DatasetKind> datasets;
  std::vector<Status> troubles;
  LZY_FIELDS(datasets, troubles)
};

/// What all ranks found, in a fixed order; each error once.
Result<Found> UniteFound(Communicator& comm, const Survey& survey) {
  Found mine{{}, survey.troubles()};
  for (const auto& [path, dataset] : survey.found()) mine.datasets.emplace(path, dataset.kind);
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, mine));
  Found out;
  std::set<std::string> told;
  for (const Found& theirs : all) {
    for (const Status& trouble : theirs.troubles) {
      if (told.insert(trouble.message()).second) out.troubles.push_back(trouble);
    }
    for (const auto& [path, kind] : theirs.datasets) {
      // If one rank sees a file and another one a set of this name, it is a set for all ranks.
      if (auto [at, fresh] = out.datasets.emplace(path, kind); !fresh && kind == DatasetKind::kSet) at->second = kind;
    }
  }
  return out;
}

/// The newest version of each of `patterns` that any rank sees. Collective; `patterns` must be the same on all ranks.
Result<std::vector<SetVersion>> AgreeOnVersions(Survey& survey, Communicator& comm, bool leads,
                                                const std::vector<std::string>& patterns) {
  std::vector<SetVersion> newest(patterns.size());
  for (std::size_t i = 0; leads && i < patterns.size(); ++i) newest[i] = survey.NewestOf(patterns[i]);
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, newest));
  for (const auto& theirs : all) {
    for (std::size_t i = 0; i < newest.size(); ++i) newest[i] = std::max(newest[i], theirs.at(i));
  }
  return newest;
}

/// The text about `leftover`, a file of the pattern that is not a member of the newest version, which has `members` files.
std::string LeftoverText(const Leftover& leftover, const std::string& pattern, std::uint32_t members) {
  if (leftover.members == 0) {
    return fmt::format("'{}' was being written and was never committed: nothing protects it", leftover.path);
  }
  if (!leftover.foreign.empty()) {
    return fmt::format("'{}' is the sidecar of a member of another set, '{}', which has no part in '{}'. If a file or a sidecar was renamed or moved by "
                       "mistake, give it its name back", leftover.sidecar, leftover.foreign, pattern);
  }
  const std::string what =
      fmt::format("of an older set of {} files; '{}' has {} since its last commit", leftover.members, pattern, members);
  if (!leftover.present) {
    const std::string gone = fmt::format("'{}' no longer exists, and was only a member {}", leftover.path, what);
    if (leftover.needless) {
      return fmt::format("{}. To remove its sidecar: lzy-info --prune {}", gone, ShellQuote(DirectoryOf(leftover.sidecar)));
    }
    return fmt::format("{}. '{}' may still restore the older set: to have it back, move the newer files and their sidecars to another "
                       "directory, then run lzy-restore on '{}'", gone, leftover.sidecar, pattern);
  }
  return fmt::format("'{0}' is left over from a member {1}, and nothing protects it. '{2}' may still restore the older set: to have it back, move "
                     "the newer files and their sidecars to another directory, then run lzy-restore on '{3}'. If it is not wanted, move '{0}' "
                     "and '{2}' away together", leftover.path, what, leftover.sidecar, pattern);
}

// Members of a set that are lost: so many are looked for under other names, and reported one by one.
constexpr std::ptrdiff_t kMostSought = 8;

/// True for the sidecar of a member that is lost, if PATH leads to it: the name of the file, or a directory.
bool IsLost(const Leftover& leftover) {
  return !leftover.present && leftover.named && leftover.members != 0;
}

/// Finds out which files that are gone have a sidecar that nothing needs. Looks at each directory once.
void MarkNeedless(FileSystem& fs, std::vector<Leftover>& leftovers) {
  std::map<std::string, std::vector<Orphan>> orphans;
  for (Leftover& leftover : leftovers) {
    if (leftover.present || leftover.members == 0) continue;
    const std::string directory = DirectoryOf(leftover.sidecar);
    const auto [at, is_new] = orphans.try_emplace(directory);
    if (is_new) at->second = FindOrphansIn(fs, directory);
    leftover.needless = std::ranges::any_of(at->second, [&](const Orphan& one) { return one.path == leftover.sidecar && one.kept.empty(); });
  }
}

/// The notes of one rank, and then of all ranks, about one dataset. It is meant if the PATH leads to more than leftovers of
/// it on any rank. Each leftover and each sentence counts once.
struct Remarks {
  bool meant = false;
  std::map<std::string, Leftover> leftovers;  // by path
  std::vector<std::string> notes;
  std::vector<std::string> hints;
  LZY_FIELDS(meant, leftovers, notes, hints)

  void Merge(const Remarks& other) {
    meant = meant || other.meant;
    leftovers.insert(other.leftovers.begin(), other.leftovers.end());
    for (auto [own, theirs] : {std::pair(&notes, &other.notes), std::pair(&hints, &other.hints)}) {
      for (const std::string& text : *theirs) {
        if (std::find(own->begin(), own->end(), text) == own->end()) own->push_back(text);
      }
    }
  }
};

/// Sends the members that the leader found to its companions. Collective.
Status ShareMembers(Communicator& comm, const Companions& companions, std::vector<DatasetRef>& datasets) {
  for (DatasetRef& dataset : datasets) {
    dataset.companions = companions.count;
    dataset.companion = companions.place;
  }
  if (!companions.any || std::ranges::all_of(datasets, [](const DatasetRef& d) { return d.kind == DatasetKind::kShared; })) {
    return Status::Ok();
  }
  LZY_ASSIGN_OR_RETURN(const auto node, comm.Split(companions.leader));
  std::vector<std::map<std::uint32_t, std::string>> members;
  for (DatasetRef& dataset : datasets) members.push_back(std::move(dataset.members));
  // All nodes agree on the result, because no node may go on alone.
  LZY_RETURN_IF_ERROR(Agree(comm, BroadcastRecord(*node, members)));
  for (std::size_t i = 0; i < datasets.size(); ++i) datasets[i].members = std::move(members[i]);
  return Status::Ok();
}

/// Fills in members, notes and hints. Collective.
///
/// If PATH leads only to leftovers of an older version of a set, the set is dropped, and the leftovers are added to
/// `troubles` as unprotected. If PATH leads to the set and to a leftover, the leftover becomes a dataset of its own, so that
/// it is counted; no tool commits it.
Status AgreeOnMembers(FileSystem& fs, Survey& survey, Communicator& comm, Resolve what, bool leads, const LeafKey* key,
                      std::vector<DatasetRef>& datasets, std::vector<Status>& troubles) {
  std::vector<std::string> patterns;
  for (const DatasetRef& dataset : datasets) {
    if (dataset.kind == DatasetKind::kSet) patterns.push_back(dataset.path);
  }
  LZY_ASSIGN_OR_RETURN(const std::vector<SetVersion> versions, AgreeOnVersions(survey, comm, leads, patterns));
  // Each rank's part. `version` advances with the sets among the datasets.
  std::vector<Remarks> mine;
  auto version = versions.begin();
  for (DatasetRef& dataset : datasets) {
    const auto found = survey.found().find(dataset.path);
    if (found != survey.found().end()) dataset.notes = found->second.notes;
    Remarks& own = mine.emplace_back();
    own.meant = true;
    if (!leads) {
      own.meant = false;
    } else if (dataset.kind == DatasetKind::kSet) {
      own.meant = survey.IsMeant(dataset.path, *version);
      std::vector<Leftover> leftovers = survey.FillMembers(dataset, *version++);
      // Such a file is not lost if it has another name now. Of many, nothing is read: they are of a larger set.
      if (own.meant && std::ranges::count_if(leftovers, IsLost) <= kMostSought) {
        std::erase_if(leftovers, [&](const Leftover& one) { return IsLost(one) && IsHeldByAnother(fs, one.sidecar, one.path, key); });
      }
      if (!own.meant || std::ranges::any_of(leftovers, IsLost)) MarkNeedless(fs, leftovers);
      for (Leftover& leftover : leftovers) own.leftovers.emplace(leftover.path, std::move(leftover));
    }
    own.notes = dataset.notes;
    own.hints = dataset.hints;
  }
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, mine));
  std::vector<Remarks> remarks(datasets.size());
  for (const auto& theirs : all) {
    for (std::size_t i = 0; i < remarks.size(); ++i) remarks[i].Merge(theirs.at(i));
  }
  // Everything from here on is the same on all ranks, except members.
  version = versions.begin();
  std::vector<DatasetRef> meant;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    DatasetRef& dataset = datasets[i];
    dataset.notes = std::move(remarks[i].notes);
    dataset.hints = std::move(remarks[i].hints);
    const std::uint32_t members = dataset.kind == DatasetKind::kSet ? (version++)->members : 0;
    const auto is_counted = [](const Leftover& one) { return IsLost(one) && one.foreign.empty(); };
    const auto lost = std::ranges::count_if(remarks[i].leftovers, [&](const auto& one) { return is_counted(one.second); });
    bool first = true;
    for (const auto& [path, leftover] : remarks[i].leftovers) {
      const bool one_of_many = remarks[i].meant && is_counted(leftover) && lost > kMostSought;
      if (one_of_many && !std::exchange(first, false)) continue;
      std::string text = LeftoverText(leftover, dataset.path, members);
      if (one_of_many) text += fmt::format("; the same is true of {} more files", lost - 1);
      const bool counts = leftover.present && leftover.named && leftover.members != 0;
      if (!remarks[i].meant || IsLost(leftover) || (counts && what == Resolve::kProtectable)) {
        troubles.emplace_back(Code::kUnprotected, std::move(text));
      } else if (counts) {
        meant.push_back({DatasetKind::kShared, path, {}, {}});
      } else if (leftover.present) {
        dataset.notes.push_back(std::move(text));
      }
    }
    if (remarks[i].meant) meant.push_back(std::move(dataset));
  }
  std::ranges::stable_sort(meant, {}, &DatasetRef::path);
  datasets = std::move(meant);
  return Status::Ok();
}

/// Sidecars in these directories may prove the content of a file (names/reach).
void NoteReach(FileSystem& fs, const Survey& survey, const std::vector<DatasetRef>& datasets) {
  for (const std::string& directory : survey.bereft()) AddToReach(fs, directory);
  for (const DatasetRef& dataset : datasets) {
    if (dataset.kind == DatasetKind::kShared) AddToReach(fs, DirectoryOf(dataset.path));
    for (const auto& [rank, path] : dataset.members) AddToReach(fs, DirectoryOf(path));
  }
}

/// Drops datasets that are named several times (through a link, for example). Collective. A dataset is dropped only if every
/// rank that searches finds that it is the same as an earlier one. So all ranks drop the same ones.
Status DropDoubles(FileSystem& fs, Communicator& comm, bool leads, std::vector<DatasetRef>& datasets) {
  std::vector<std::uint32_t> mine;
  std::map<std::string, std::uint32_t> first;
  for (std::uint32_t i = 0; leads && i < datasets.size(); ++i) {
    mine.push_back(first.emplace(DatasetKey(fs, datasets[i]), i).first->second);
  }
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, mine));
  std::vector<bool> distinct(datasets.size(), false);
  for (const auto& theirs : all) {
    for (std::uint32_t i = 0; i < theirs.size(); ++i) distinct.at(i) = distinct.at(i) || theirs[i] == i;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (distinct[i]) std::swap(datasets[kept++], datasets[i]);
  }
  datasets.resize(kept);
  return Status::Ok();
}

}  // namespace

Result<std::vector<DatasetRef>> ResolvePath(FileSystem& fs, Communicator& comm, const std::string& path, Resolve what,
                                            std::vector<Status>* troubles, const LeafKey* key) {
  if (path.empty())
    return Status(Code::kInvalidArgument, "an empty PATH: a file, a pattern or a directory is accepted");
  // A rank that finds nothing must not fail alone, because another one may see the files. Ranks agree on other errors at
  // once.
  LZY_ASSIGN_OR_RETURN(const Companions companions, GatherCompanions(fs, comm));
  Survey survey(fs, what, /*sees_all=*/comm.size() == 1);
  const Status mine = companions.leads() ? survey.Add(path) : Status::Ok();
  if (companions.leads() && mine.ok()) survey.DropStrays();
  const bool absent = mine.code() == Code::kInvalidArgument || mine.code() == Code::kUnprotected;
  LZY_RETURN_IF_ERROR(Agree(comm, absent ? Status::Ok() : mine));
  LZY_ASSIGN_OR_RETURN(Found found, UniteFound(comm, survey));
  // A file may be on one rank's disk and not on another's. Only if no rank has found anything, PATH stands for nothing.
  if (found.datasets.empty() && found.troubles.empty()) {
    LZY_RETURN_IF_ERROR(Agree(comm, mine));
    return Status(Code::kInternal, fmt::format("{}: nothing found and nothing wrong", path));
  }
  std::vector<DatasetRef> datasets;
  for (const auto& [name, kind] : found.datasets) datasets.push_back({kind, name, {}, {}});
  LZY_RETURN_IF_ERROR(AgreeOnMembers(fs, survey, comm, what, companions.leads(), key, datasets, found.troubles));
  LZY_RETURN_IF_ERROR(DropDoubles(fs, comm, companions.leads(), datasets));
  LZY_RETURN_IF_ERROR(ShareMembers(comm, companions, datasets));
  NoteReach(fs, survey, datasets);
  if (troubles == nullptr && !found.troubles.empty()) return found.troubles.front();
  if (troubles != nullptr) troubles->insert(troubles->end(), found.troubles.begin(), found.troubles.end());
  return datasets;
}

// The directory ends before the first component with a placeholder or star. In a pattern, %% is a percent sign; in a glob
// without a rank, '%' is an ordinary character.
std::vector<std::string> NamedBy(const std::string& path) {
  std::vector<std::string> named{path};
  const bool pattern = HasRankPlaceholder(path);
  if (!pattern && path.find('*') == std::string::npos) return named;
  std::string directory = path.starts_with('/') ? "/" : "";
  for (const std::string& component : Components(path)) {
    if (component.find('*') != std::string::npos || HasRankPlaceholder(component)) break;
    directory = JoinPath(directory, pattern ? ExpandPattern(component, 0) : component);
  }
  named.push_back(directory.empty() ? "." : directory);
  return named;
}

std::string DatasetKey(FileSystem& fs, const DatasetRef& dataset) {
  const auto real = [&](const std::string& path) {
    auto resolved = fs.RealPath(path);
    return resolved.ok() ? *resolved : path;
  };
  if (dataset.kind == DatasetKind::kShared) return "file:" + real(dataset.path);
  // For a set, only the directory before the pattern can be resolved, because there is no file with the name of the pattern.
  const std::string tail = PatternTail(dataset.path);
  const std::string base = dataset.path.substr(0, dataset.path.size() - tail.size());
  return "set:" + JoinPath(EscapePercent(real(base.empty() ? "." : ExpandPattern(base, 0))), tail);
}

std::vector<std::string> DirectoriesOf(FileSystem& fs, const std::vector<std::string>& paths, Resolve what) {
  Survey survey(fs, what);
  for (const std::string& path : paths) (void)survey.Add(path);
  std::set<std::string> directories;
  for (const auto& [path, dataset] : survey.found()) {
    if (dataset.kind == DatasetKind::kShared) directories.insert(DirectoryOf(path));
    if (dataset.kind != DatasetKind::kSet) continue;
    for (const auto& [rank, member] : survey.MembersOf(path)) directories.insert(DirectoryOf(member.path));
  }
  return {directories.begin(), directories.end()};
}

}  // namespace lzy
