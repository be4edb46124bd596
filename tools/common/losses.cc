#include "common/losses.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/printable.h"
#include "comm/records.h"
#include "common/paths.h"
#include "names/lookup.h"
#include "names/peek.h"
#include "request/deletion_record.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

using Kind = CatalogLoss::Kind;

// The most entries of a list on the screen or in a mail; --json has all.
constexpr std::size_t kMostLosses = 20;

/// The PATHs that are directories, as the catalogue knows them.
std::vector<std::string> Directories(const ToolRun& run) {
  std::vector<std::string> out;
  for (const std::string& path : run.arguments().paths) {
    std::error_code failed;
    const auto real = std::filesystem::canonical(path, failed);
    if (!failed && std::filesystem::is_directory(real, failed)) out.push_back(real.string());
  }
  return out;
}

/// Deletions on purpose, recorded by the layer and the tools.
class Deletions {
 public:
  explicit Deletions(std::string catalog) : catalog_(std::move(catalog)) {}

  bool Has(const CatalogDataset& dataset) {
    const std::uint32_t owner = OwnerAt(DirectoryOf(dataset.path));
    return Has(Mine(), dataset) || (owner != geteuid() && Has(OfUser(owner), dataset));
  }

 private:
  using Notes = std::multimap<std::string, std::int64_t>;

  // Members of a set are deleted one by one, perhaps by processes with separate records. One record is enough.
  static bool Has(const Notes& notes, const CatalogDataset& dataset) {
    const auto deleted = [&](const std::string& path) {
      // Clocks of nodes differ. A file that a tool has seen since was made again.
      constexpr std::int64_t kSkew = 60'000'000'000;
      const auto [first, end] = notes.equal_range(path);
      return std::any_of(first, end, [&](const auto& note) { return note.second + kSkew >= dataset.last_seen; });
    };
    if (deleted(dataset.path)) return true;
    for (std::uint32_t rank = 0; dataset.kind == "set" && rank < dataset.devices; ++rank) {
      if (deleted(CatalogPath(ExpandPattern(dataset.path, rank), false))) return true;
    }
    return false;
  }

  // Programs know the catalogue of their user only.
  const Notes& Mine() {
    auto [at, fresh] = of_user_.try_emplace(geteuid());
    if (fresh) {
      Add(catalog_, geteuid(), at->second);
      const std::string usual = Catalog::DefaultPath();
      if (!usual.empty() && usual != catalog_) Add(usual, geteuid(), at->second);
    }
    return at->second;
  }

  // A scrub by root looks after the files of others. A user's notes count for that user's directories only.
  const Notes& OfUser(std::uint32_t user) {
    auto [at, fresh] = of_user_.try_emplace(user);
    const passwd* const known = fresh ? getpwuid(user) : nullptr;
    if (known != nullptr && known->pw_dir != nullptr) Add(CatalogPathBelow(known->pw_dir), user, at->second);
    return at->second;
  }

  static void Add(const std::string& catalog, std::uint32_t owner, Notes& to) {
    for (DeletionRecord& record : ReadDeletions(catalog, owner)) to.emplace(std::move(record.path), record.time);
  }

  // Owner of the directory, or of the nearest existing directory above it.
  static std::uint32_t OwnerAt(std::string directory) {
    struct stat about {};
    while (lstat(directory.c_str(), &about) != 0 && directory != "/" && directory != ".") directory = DirectoryOf(directory);
    return about.st_uid;
  }

  const std::string catalog_;
  std::map<std::uint32_t, Notes> of_user_;
};

enum class Presence { kProtected, kUnprotected, kAbsent, kUnknown };

/// The existing datasets that the tool has found, and their directories; each directory is examined once.
class Scene {
 public:
  Scene(ToolRun& run, const std::vector<DatasetRef>& datasets) : fs_(run.fs()), datasets_(datasets) {
    for (const DatasetRef& dataset : datasets) {
      if (!run.WasWithoutSidecar(dataset.path)) paths_.insert(PathOf(dataset));
    }
  }
  bool Has(const CatalogDataset& dataset) const { return paths_.contains(dataset.path); }
  /// Whether files that were members of this set were found each for itself, and the set was not.
  bool HasMembersAlone(const CatalogDataset& dataset) const {
    if (dataset.kind != "set" || Has(dataset)) return false;
    for (std::uint32_t rank = 0; rank < dataset.devices; ++rank) {
      if (paths_.contains(ExpandPattern(dataset.path, rank))) return true;
    }
    return false;
  }
  /// Whether no member of this set has a sidecar that can be read. Then nothing but the catalogue knows that there is a set.
  bool IsRuined(const CatalogDataset& dataset) {
    for (std::uint32_t rank = 0; rank < dataset.devices; ++rank) {
      const std::string member = ExpandPattern(dataset.path, rank);
      Directory& directory = At(DirectoryOf(member));
      const std::string sidecar = directory.SidecarOf(BaseNameOf(member));
      if (!sidecar.empty() && directory.PeekAt(sidecar).ok()) return false;
    }
    return true;
  }
  /// For a set, one member with a sidecar of a set is enough: tools report damage of sets with a sidecar. If no sidecar is
  /// left, an absent member means a loss, whatever happened to the others.
  Presence Of(const CatalogDataset& dataset) {
    if (paths_.contains(dataset.path)) return Presence::kProtected;
    if (dataset.kind != "set") return Of(dataset.path);
    bool absent = false, alone = false;
    for (std::uint32_t rank = 0; rank < dataset.devices; ++rank) {
      const std::string member = ExpandPattern(dataset.path, rank);
      const Presence one = Of(member);
      if (one == Presence::kUnknown || (one == Presence::kProtected && IsOfSet(member))) return one;
      absent = absent || one == Presence::kAbsent;
      alone = alone || one == Presence::kProtected;
    }
    if (absent) return Presence::kAbsent;
    return alone ? Presence::kProtected : Presence::kUnprotected;
  }
  struct Place {
    std::string path;  ///< empty: nowhere
    bool renamed = false;  ///< the file there is the one that was committed, by inode and birth, and no copy of it
  };
  /// The place of the dataset with this uuid, as rank 0 sees it. The first call examines all sidecars.
  Place PlaceOf(const std::string& uuid) {
    if (!looked_) {
      for (const DatasetRef& dataset : datasets_) Look(dataset);
    }
    looked_ = true;
    const auto at = places_.find(uuid);
    return at == places_.end() ? Place() : at->second;
  }

 private:
  static std::string PathOf(const DatasetRef& dataset) { return CatalogPath(dataset.path, dataset.kind == DatasetKind::kSet); }
  void Look(const DatasetRef& dataset) {
    std::vector<std::string> files;
    if (dataset.kind == DatasetKind::kShared) files.push_back(dataset.path);
    for (const auto& [rank, path] : dataset.members) files.push_back(path);
    for (const std::string& file : files) {
      const std::string real = FollowLink(fs_, file);
      Directory& directory = At(DirectoryOf(real));
      const std::string sidecar = directory.SidecarOf(BaseNameOf(real));
      if (sidecar.empty()) continue;
      const auto& peek = directory.PeekAt(sidecar);
      if (!peek.ok()) continue;
      const auto stat = fs_.Stat(real, /*follow=*/false);
      places_.emplace(UuidText(peek->uuid), Place{PathOf(dataset), stat.ok() && IsSameFile(*stat, peek->stamp)});
      return;
    }
  }

  Directory& At(const std::string& path) { return directories_.try_emplace(path, fs_, path).first->second; }

  // False for a member that was protected alone.
  bool IsOfSet(const std::string& path) {
    Directory& directory = At(DirectoryOf(path));
    const std::string sidecar = directory.SidecarOf(BaseNameOf(path));
    return sidecar.empty() || !directory.PeekAt(sidecar).ok() || directory.PeekAt(sidecar)->kind == DatasetKind::kSet;
  }

  // Unknown: the path cannot be examined, so it must not be reported as lost. The sidecar of a link is beside its target;
  // the file system of the tool follows no links that the user did not name.
  Presence Of(const std::string& path) {
    const auto stat = fs_.Stat(path, /*follow=*/false);
    if (stat.ok() && stat->type == FileStat::Type::kOther) {
      std::error_code dangles;
      const std::string target = std::filesystem::canonical(path, dangles).string();
      if (!dangles && target != path) return Of(target);
    }
    if (!stat.ok() && stat.status().code() != Code::kNotFound) return Presence::kUnknown;
    Directory& directory = At(DirectoryOf(path));
    const Status listed = directory.Names().status();
    if (!listed.ok() && listed.code() != Code::kNotFound) return Presence::kUnknown;
    // A sidecar that a renamed file left under its old name belongs to no missing file.
    const std::string sidecar = directory.SidecarOf(BaseNameOf(path));
    const bool left_behind = !stat.ok() && !sidecar.empty() && directory.HomeOf(sidecar);
    if (!sidecar.empty() && !left_behind) return Presence::kProtected;
    return stat.ok() ? Presence::kUnprotected : Presence::kAbsent;
  }

  FileSystem& fs_;
  const std::vector<DatasetRef>& datasets_;
  std::map<std::string, Directory> directories_;
  std::set<std::string> paths_;
  bool looked_ = false;
  std::map<std::string, Place> places_;
};

/// The loss of one dataset, if it is new.
std::optional<CatalogLoss> LossOf(ToolRun& run, const CatalogDataset& dataset, const std::string& lasts, Scene& scene, Deletions& deletions) {
  if (IsOfCatalog(dataset.path, run.books()->catalog()->path())) return CatalogLoss{dataset.id, Kind::kWanted, "of the catalogue"};
  Presence presence = scene.Of(dataset);
  if (presence == Presence::kUnknown) return std::nullopt;
  if (presence == Presence::kProtected && scene.HasMembersAlone(dataset) && scene.IsRuined(dataset)) presence = Presence::kUnprotected;
  // A file that was left over from an older set is a member again.
  if (presence == Presence::kProtected && dataset.uuid.empty() && !scene.Has(dataset)) return CatalogLoss{dataset.id, Kind::kWanted, "member of a set"};
  // Members that were renamed: the tool has said what it found of each of them.
  if (presence == Presence::kProtected && scene.HasMembersAlone(dataset)) return CatalogLoss{dataset.id, Kind::kWanted, "its files are no members any more"};
  if (presence == Presence::kProtected) return lasts.empty() ? std::nullopt : std::optional(CatalogLoss{dataset.id, Kind::kBack, ""});
  const Kind kind = presence == Presence::kUnprotected ? Kind::kUnprotected : Kind::kVanished;
  if (lasts == (kind == Kind::kUnprotected ? "unprotected" : "vanished")) return std::nullopt;
  if (dataset.uuid.empty()) return CatalogLoss{dataset.id, Kind::kWanted, "renamed back"};  // it had no sidecar of its own
  if (deletions.Has(dataset)) return CatalogLoss{dataset.id, Kind::kWanted, "deleted on purpose"};
  if (const Scene::Place now = scene.PlaceOf(dataset.uuid); !now.path.empty()) {
    // The entry goes to the new place when that is read (Catalog::Note), unless there is one for it, or it is a set.
    auto known = run.books()->catalog()->Find(now.path);
    if (dataset.kind != "set" && known.ok() && !*known) return std::nullopt;
    // If the other file existed at the same time as this one, it is a copy, and this one is lost.
    const bool copy = !now.renamed && known.ok() && *known && (*known)->first_seen <= dataset.last_seen;
    if (!copy) return CatalogLoss{dataset.id, Kind::kWanted, "moved to " + now.path};
  }
  return CatalogLoss{dataset.id, kind, ""};
}

Status FindLossesBelow(ToolRun& run, const std::string& directory, Scene& scene, Deletions& deletions) {
  Catalog& catalog = *run.books()->catalog();
  LZY_ASSIGN_OR_RETURN(const auto open, catalog.OpenLosses(directory));
  std::map<std::int64_t, std::string> lasting;
  for (const CatalogEvent& event : open) lasting[event.dataset] = event.what;
  LZY_ASSIGN_OR_RETURN(const auto datasets, catalog.Datasets(directory));
  std::vector<CatalogLoss> losses;
  for (const CatalogDataset& dataset : datasets) {
    // A directory that has the name of the file now. Its own name is not in it.
    if (dataset.state == "gone" || dataset.path == directory) continue;
    auto loss = LossOf(run, dataset, lasting[dataset.id], scene, deletions);
    if (!loss) continue;
    if (loss->kind == Kind::kVanished || loss->kind == Kind::kUnprotected) {
      DatasetReport report(dataset.path, dataset.kind == "set" ? DatasetKind::kSet : DatasetKind::kShared);
      report.state = DatasetState::kUnprotected;
      report.warnings = {LossText(loss->kind == Kind::kVanished ? "vanished" : "unprotected")};
      run.books()->AddNews(std::move(report));
    }
    losses.push_back(*std::move(loss));
  }
  return catalog.NoteLosses(run.tool_name(), WallClockNs(), losses);
}

}  // namespace

Status DropCatalogFiles(ToolRun& run, std::vector<DatasetRef>& datasets) {
  std::set<std::string> of_catalog;
  const std::string catalog = CatalogInUse(run.options());
  for (const DatasetRef& dataset : datasets) {
    const bool named = std::ranges::find(run.arguments().paths, dataset.path) != run.arguments().paths.end();
    if (!named && IsOfCatalog(dataset.path, catalog)) of_catalog.insert(dataset.path);
  }
  LZY_RETURN_IF_ERROR(BroadcastRecord(run.comm(), of_catalog));
  std::erase_if(datasets, [&](const DatasetRef& dataset) { return of_catalog.contains(dataset.path); });
  return Status::Ok();
}

void FindLosses(ToolRun& run, const std::vector<DatasetRef>& datasets) {
  if (run.books() == nullptr) return;
  run.books()->Flush();
  if (run.books()->catalog() == nullptr) return;
  Scene scene(run, datasets);
  Deletions deletions(run.books()->catalog()->path());
  for (const std::string& directory : Directories(run)) {
    if (Status looked = FindLossesBelow(run, directory, scene, deletions); !looked.ok()) return run.books()->Drop(looked);
  }
}

void ReportLosses(ToolRun& run) {
  if (run.books() == nullptr) return;
  Json list = Json::array();
  for (const std::string& directory : Directories(run)) {
    if (run.books()->catalog() == nullptr) return;
    const auto open = run.books()->catalog()->OpenLosses(directory);
    if (!open.ok()) return run.books()->Drop(open.status());
    for (const CatalogEvent& event : *open) {
      const std::string& path = event.dataset_path;
      if (list.size() < kMostLosses) {
        run.Finding(kExitNotProtected, fmt::format("{}: {}, noticed {}", Printable(path), LossText(event.what), TimeText(event.time)),
                    LossNextText(event.what, path, run.options()));
      }
      list.push_back({{"path", path}, {"what", event.what}, {"since", static_cast<double>(event.time) / 1e9}});
    }
  }
  if (list.size() > kMostLosses) {
    // Perhaps a file system is not mounted.
    const std::string next = fmt::format("  to see all of them: lzy-status {}--json\n", CatalogOption(run.options()));
    run.Finding(kExitNotProtected, fmt::format("and {} more that are not protected any more", list.size() - kMostLosses), next);
  }
  if (!list.empty()) run.extra()["losses"] = std::move(list);
}

// No report will ever tell of them again, under that path.
void ForgetMembersOf(ToolRun& run, const DatasetReport& report) {
  if (run.books() == nullptr || run.books()->catalog() == nullptr || report.kind != DatasetKind::kSet) return;
  Catalog& catalog = *run.books()->catalog();
  const std::string pattern = CatalogPath(report.path, true);
  std::vector<CatalogLoss> members;
  const auto add = [&](const std::string& path, std::int64_t id) {
    const auto peek = FindAndPeek(run.fs(), path);
    if (peek.ok() && peek->kind == DatasetKind::kSet) members.push_back({id, Kind::kWanted, "member of a set"});
  };
  const std::string prefix = pattern.substr(0, pattern.find('%'));
  if (prefix.ends_with('/')) {
    // Each member has a directory of its own, and below the prefix there may be a whole tree.
    for (std::uint32_t rank = 0; rank < report.devices; ++rank) {
      const auto known = catalog.Find(ExpandPattern(pattern, rank));
      if (!known.ok()) return run.books()->Drop(known.status());
      if (*known && (*known)->kind == "shared" && (*known)->state != "gone") add((*known)->path, (*known)->id);
    }
  } else {
    const auto known = catalog.FilesBeginningWith(prefix);
    if (!known.ok()) return run.books()->Drop(known.status());
    for (const auto& [path, id] : *known) {
      const auto match = MatchPattern(pattern, path);
      if (match && *match < report.devices) add(path, id);
    }
  }
  if (members.empty()) return;
  if (Status noted = catalog.NoteLosses(run.tool_name(), WallClockNs(), members); !noted.ok()) run.books()->Drop(noted);
}

void AcknowledgeLosses(ToolRun& run) {
  if (run.arguments().paths.empty()) return run.Fail({Code::kInvalidArgument, "--forget: no PATH is given: what is to be forgotten?"});
  if (run.comm().rank() != 0) return;
  if (run.books() == nullptr || run.books()->catalog() == nullptr) {
    return run.Fail({Code::kIo, "--forget: there is no catalogue that can be written"});
  }
  std::size_t all = 0;
  for (const std::string& path : run.arguments().paths) {
    const std::string whole = CatalogPath(path, path.find('%') != std::string::npos);
    const auto below = [&](const CatalogEvent& event) {
      const std::string& at = event.dataset_path;
      return at == whole || at.starts_with(whole == "/" ? whole : whole + "/");
    };
    const auto matching = [&](const CatalogEvent& event) { return fnmatch(whole.c_str(), event.dataset_path.c_str(), FNM_PATHNAME) == 0; };
    // A file whose name has a star or brackets goes before what its name would match.
    auto ended = run.books()->catalog()->Acknowledge(run.tool_name(), WallClockNs(), below);
    if (ended.ok() && *ended == 0) ended = run.books()->catalog()->Acknowledge(run.tool_name(), WallClockNs(), matching);
    if (!ended.ok()) return run.Fail(ended.status());
    all += *ended;
    if (*ended == 0) {
      run.Fail({Code::kInvalidArgument, fmt::format("{}: nothing is missed there, so there is nothing to forget", path)});
    } else {
      run.Say(fmt::format("{}: {} will not be missed any more\n", Printable(path), Plural(*ended, "dataset")));
    }
  }
  run.extra()["forgotten"] = all;
}

std::string CatalogOption(const Options& options) {
  const char* const kept = std::getenv(EnvironmentName("catalog").c_str());
  if (options.catalog.empty() || (kept != nullptr && options.catalog == kept)) return "";
  return fmt::format("--catalog {} ", ShellQuote(options.catalog));
}

std::string LossText(const std::string& what) {
  return what == "unprotected" ? "is not protected any more: its sidecar was deleted" : "vanished: the file and its sidecar were deleted";
}

namespace {

/// The command that renames what has the name of the sidecar of `path` and cannot be one, such as a directory; empty if there is nothing.
std::string ClearsTheName(const std::string& path) {
  const auto sidecar = SidecarPath(path);
  const auto there = sidecar.ok() ? PosixFileSystem().Stat(*sidecar, /*follow=*/false) : Result<FileStat>(sidecar.status());
  if (!there.ok() || there->type == FileStat::Type::kRegular) return "";
  return fmt::format("mv -n {} {} && ", ShellQuote(*sidecar), ShellQuote(FreeName(PosixFileSystem(), path)));
}

}  // namespace

std::string LossNextText(const std::string& what, const std::string& path, const Options& options) {
  const std::string name = ShellQuote(path);
  std::error_code failed;
  const bool is_other = std::filesystem::exists(std::filesystem::symlink_status(path, failed)) && !std::filesystem::is_regular_file(path, failed);
  const std::string first = what != "unprotected" ? std::string("  take it from a backup\n")
                            : is_other            ? std::string("  there is no file of this name any more: take it from a backup\n")
                                                  : fmt::format("  if the file is right: {}lzy-protect {}\n", ClearsTheName(path), name);
  return first + fmt::format("  if this was on purpose: lzy-status {}--forget {}\n", CatalogOption(options), name);
}

}  // namespace lzy
