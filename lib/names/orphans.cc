#include "names/orphans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/printable.h"
#include "names/holders.h"
#include "names/reach.h"
#include "names/set_names.h"
#include "names/survey.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// A temporary file gets its final name within moments, but no process holds a lock on it until then. So a file that is
/// younger than an hour counts as in use.
constexpr std::int64_t kMomentsNs = 3600ll * 1'000'000'000;

constexpr char kInterrupted[] = "left by a tool or program that was interrupted";

/// Opens a file of lzy and locks it as long as the File exists. kBusy: another process has the lock.
Result<std::unique_ptr<File>> Seize(FileSystem& fs, const std::string& path) {
  LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kReadWrite, /*follow=*/false));
  LZY_RETURN_IF_ERROR(file->Lock());
  return file;
}

/// One walk through a tree. `survey_` finds the members of sets, also in other directories of the tree.
/// What was found for a set in a directory, by the path of the directory and the uuid of the set.
using BySet = std::map<std::pair<std::string, Uuid>, std::optional<std::string>>;

class OrphanFinder {
 public:
  explicit OrphanFinder(FileSystem& fs) : fs_(fs), survey_(fs, Resolve::kProtected) {}

  Result<std::vector<Orphan>> Find(const std::string& path) {
    LZY_RETURN_IF_ERROR(survey_.Walk(path, /*hidden=*/true, [&](Directory& directory) { Visit(directory); }));
    if (!survey_.troubles().empty()) return survey_.troubles().front();
    std::sort(found_.begin(), found_.end(), [](const Orphan& a, const Orphan& b) { return a.path < b.path; });
    return std::move(found_);
  }
  std::vector<Orphan> FindIn(const std::string& path) {
    locks_ = false;  // for readers
    Directory directory(fs_, path);
    if (directory.Names().ok()) Visit(directory);
    return std::move(found_);
  }

 private:
  // Skips sidecars that a file uses. Names() cannot fail here, because Walk has listed the directory.
  void Visit(Directory& directory) {
    for (const std::string& sidecar : directory.Sidecars()) {
      if (directory.UserOf(sidecar)) continue;
      if (DataPathOf(sidecar)) {
        VisitSidecar(directory, sidecar);
      } else {
        VisitTemporary(directory, sidecar);
      }
    }
    for (const std::string& name : **directory.Names()) {
      if (name.starts_with(kNewDataPrefix)) {
        AddKept(directory.PathOf(name), "left by a restore that was interrupted", WhileLocked(directory.PathOf(name)));
      } else if (name.starts_with(kCopyPrefix)) {
        AddKept(directory.PathOf(name), "left by a copy that was interrupted", WhileLocked(directory.PathOf(name)));
      } else if (name.starts_with(kJournalPrefix)) {
        // The copy itself has the lock.
        const std::string copy = kCopyPrefix + name.substr(sizeof(kJournalPrefix) - 1);
        const std::string kept = (*directory.Names())->contains(copy) ? WhileLocked(directory.PathOf(copy)) : "";
        AddKept(directory.PathOf(name), "left by a copy that was interrupted", kept);
      } else if (name.starts_with(kNewSidecarPrefix)) {
        VisitNew(directory, name);
      } else if (name.starts_with(kPartPrefix)) {
        VisitPart(directory.PathOf(name));
      } else if (name.starts_with(kIndexPrefix)) {
        VisitIndex(directory, name);
      }
    }
  }

  // Visits a sidecar with a final name that no file uses. If it cannot be read, its neighbours may still show that it is a
  // member's.
  void VisitSidecar(Directory& directory, const std::string& sidecar) {
    const std::string owner = *DataPathOf(sidecar);
    const std::string path = directory.PathOf(sidecar);
    const bool replaced = (*directory.Names())->contains(owner);
    const auto file = fs_.Stat(directory.PathOf(owner), /*follow=*/false);
    if (replaced && file.ok() && file->type != FileStat::Type::kRegular) {
      // It is not known whether the file is wanted. Until then it may be restored.
      return AddKept(path, "something that is no regular file has the name of its file",
                     "to see what can be restored: lzy-verify " + ShellQuote(directory.PathOf(owner)));
    }
    const std::string reason = replaced ? "its file was replaced by one that has another sidecar" : "its file is gone";
    const auto& peek = directory.PeekAt(sidecar);
    if (!peek.ok()) {
      const bool unusable = peek.status().code() == Code::kUnprotected || peek.status().code() == Code::kCorrupt;
      if (unusable && !survey_.PatternOfSiblings(directory.PathOf(owner))) AddKept(path, reason, WhileUnknown(path));
    } else if (IsSuperseded(directory, *peek)) {
      AddKept(path, "a newer commit of the same file has another sidecar", WhileLocked(path));
    } else if (const auto needs = FindHolder(fs_, path, directory.PathOf(owner), nullptr, Holders::kAll)) {
      AddKept(path, reason, WhyNeeded(*needs));
    } else if (peek->members == 0 || !SetNeeds(*peek, directory.PathOf(owner))) {
      if ((!replaced || peek->members == 0) && HasAllOfItsGroup(path)) {
        AddKept(path, replaced ? "its file was replaced by one that has another sidecar, but can be rebuilt from it"
                               : "its file is gone, but can be rebuilt from it",
                replaced ? HowToGetBack(directory.PathOf(owner), path) : HowToDecide(directory.PathOf(owner), path, *peek));
      } else if (auto member = MovedMember(directory, *peek); member || (member = MemberElsewhere(directory, *peek))) {
        AddKept(path, reason, "its set may need it, of which this file was a member: " + ShellQuote(*member));
      } else if (const auto near = FindHolder(fs_, path, directory.PathOf(owner), nullptr, Holders::kNear); near && MayNeed(*near, *peek)) {
        AddKept(path, reason, WhyNeeded(*near));
      } else if (const auto other = MemberNear(directory, *peek)) {
        AddKept(path, reason, "its set may need it: another member of it may be damaged: " + ShellQuote(*other));
      } else if (MayBeNear(directory, *peek)) {
        AddKept(path, reason, HowToSearch(directory));
      } else {
        AddKept(path, reason, WhileLocked(path));
      }
    }
  }

  /// A file in a directory around that needs the sidecar of another member of the set, and so the parity in all of them. Searches once
  /// for each set of a directory.
  std::optional<std::string> MemberNear(Directory& directory, const Peek& peek) {
    return HolderOfMember(directory, peek, near_, Holders::kNear, [&](const Holder& file, const Peek& other) { return MayNeed(file, other); });
  }

  // True if not all files of the directories around are known. If the command names the directory above, they are.
  bool MayBeNear(const Directory& directory, const Peek& peek) {
    if (!peek.committed || peek.stamp.size == 0) return false;
    return !fs_.Memo<Surroundings>().KnowsNear(fs_, RealDirectory(fs_, directory.PathOf("")));
  }

  std::string HowToSearch(const Directory& directory) {
    return fmt::format("its file may have been moved, and {0} has too many files to look for it. What to do: lzy-info --prune {0}",
                       ShellQuote(DirectoryOf(RealDirectory(fs_, directory.PathOf("")))));
  }

  // A file in a directory that the command does not name may be a copy. With the committed content it needs this sidecar only if it is
  // the committed file.
  bool MayNeed(const Holder& file, const Peek& peek) {
    const auto stat = fs_.Stat(file.path, /*follow=*/false);
    return !file.proven || (stat.ok() && MayBe(*stat, peek.stamp));
  }

  // A file that has no superblock may be of somebody who does not know that lzy has such names. An empty one holds nothing.
  std::string WhileUnknown(const std::string& path) {
    const auto stat = fs_.Stat(path, /*follow=*/false);
    if (stat.ok() && stat->type == FileStat::Type::kRegular && stat->size == 0) return WhileLocked(path);
    return "it is no sidecar, or its superblocks are destroyed; if it is of no use: rm " + ShellQuote(path);
  }

  // Why a sidecar without a file is kept for this one.
  static std::string WhyNeeded(const Holder& file) {
    const char* const why = file.proven      ? "it proves what this file holds: "
                            : file.committed ? "no file holds what it proves, and only it can give that back to this file, which may have been "
                                               "damaged and committed since: "
                                             : "it may be of this file, which was moved or renamed, and is damaged: ";
    return why + ShellQuote(file.path);
  }

  /// A file in another place with the content of a member of the set. Then the set was moved or renamed, and has parity in
  /// its sidecars here. Searches once for each set of a directory.
  std::optional<std::string> MovedMember(Directory& directory, const Peek& peek) {
    return HolderOfMember(directory, peek, moved_, Holders::kAll, [](const Holder& file, const Peek&) { return file.proven; });
  }

  /// A file that FindHolder finds for any sidecar of the set in this directory, and that counts. `known`: what was found before.
  template <class Counts>
  std::optional<std::string> HolderOfMember(Directory& directory, const Peek& peek, BySet& known, Holders which, const Counts& counts) {
    if (peek.members == 0) return std::nullopt;
    const auto [at, is_new] = known.try_emplace({directory.PathOf(""), peek.uuid});
    for (const std::string& sidecar : is_new ? directory.Sidecars() : std::vector<std::string>()) {
      const auto& other = directory.PeekAt(sidecar);
      const auto owner = DataPathOf(sidecar);
      if (!owner || !other.ok() || other->uuid != peek.uuid) continue;
      const auto holder = FindHolder(fs_, directory.PathOf(sidecar), directory.PathOf(*owner), nullptr, which);
      if (!holder || !counts(*holder, *other)) continue;
      at->second = holder->path;
      break;
    }
    return at->second;
  }

  /// A member of the set in another directory in reach that has its sidecar there: members were exchanged with those of another set. Not
  /// if that is a copy of the set, which has this member, too.
  std::optional<std::string> MemberElsewhere(const Directory& directory, const Peek& peek) {
    const std::string here = directory.PathOf("");
    if (SidecarOfMemberInReach(fs_, here, peek.uuid, peek.rank)) return std::nullopt;
    for (std::uint32_t rank = 0; rank < peek.members; ++rank) {
      const auto sidecar = rank == peek.rank ? std::nullopt : SidecarOfMemberInReach(fs_, here, peek.uuid, rank);
      if (sidecar && fs_.Stat(OwnerOf(*sidecar), /*follow=*/false).ok()) return OwnerOf(*sidecar);
    }
    return std::nullopt;
  }

  /// Visits a sidecar that was being made, or was set aside while names were exchanged.
  void VisitTemporary(Directory& directory, const std::string& sidecar) {
    const std::string path = directory.PathOf(sidecar);
    const auto& peek = directory.PeekAt(sidecar);
    const bool holds_something = peek.ok() && peek->committed;
    if (holds_something && peek->members > 0 && !IsSuperseded(directory, *peek)) return;
    if (const auto file = holds_something ? FindHolder(fs_, path, "", nullptr, Holders::kAll) : std::nullopt) {
      AddKept(path, "it was set aside", file->proven ? "to give it to the file that it proves: lzy-protect " + ShellQuote(file->path)
                                                     : WhyNeeded(*file));
      return;
    }
    if (holds_something && HasAllOfItsGroup(path)) {
      AddKept(path, "its file was replaced by another one, but can be rebuilt from it",
              HowToGetBack(DataPathOfTemporary(path).value_or(path), path));
      return;
    }
    const auto near = holds_something ? FindHolder(fs_, path, "", nullptr, Holders::kNear) : std::nullopt;
    if (near && MayNeed(*near, *peek)) return AddKept(path, "it was set aside", WhyNeeded(*near));
    if (holds_something && MayBeNear(directory, *peek)) return AddKept(path, "it was set aside", HowToSearch(directory));
    AddKept(path, kInterrupted, WhileYoung(path, WhileLocked(path)));
  }

  /// Visits a sidecar that was being built, or that was complete before its process ended and that its set may have
  /// committed.
  void VisitNew(Directory& directory, const std::string& name) {
    const std::string sidecar = kSidecarPrefix + name.substr(sizeof(kNewSidecarPrefix) - 1);
    const std::string path = directory.PathOf(name);
    const auto& current = directory.PeekAt(sidecar);
    const auto fresh = PeekSidecar(fs_, path);
    const bool of_set = fresh.ok() && fresh->kind == DatasetKind::kSet && fresh->committed;
    // Without a sidecar of the final name, the file may have been renamed with its sidecar. Then no lock shows whether this
    // one is being built.
    const bool alone = current.status().code() == Code::kNotFound;
    if (alone && !of_set) AddKept(path, kInterrupted, WhileYoung(path, WhileLocked(path)));
    if (!current.ok()) return;
    // A complete new sidecar of a set may have been committed (docs/format.md §9). It can be removed only if the present one
    // is as new.
    const bool older = of_set && (fresh->uuid == current->uuid ? fresh->generation <= current->generation
                                                               : fresh->wall_time_ns <= current->wall_time_ns);
    if (of_set && !older) return;
    const std::string kept = WhileLocked(directory.PathOf(sidecar));
    AddKept(path, kInterrupted, kept.empty() ? WhileLocked(path) : kept);
  }

  /// Visits a part of the parity of a file in another directory. It may be removed if another encoding of the file has
  /// replaced it. If the file is not found, it may have moved, or not be mounted.
  void VisitPart(const std::string& path) {
    const auto part = PeekSidecar(fs_, path);
    if (!part.ok()) {
      AddKept(path, "a part of some file's parity, whose metadata cannot be read", "rm it if no file has it");
      return;
    }
    const std::string directory = DirectoryOf(part->parts.home);
    bool superseded = false;
    const auto names = fs_.List(directory);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      if (!name.starts_with(kSidecarPrefix) && !name.starts_with(kNewSidecarPrefix)) continue;
      const auto sidecar = PeekSidecar(fs_, JoinPath(directory, name));
      if (!sidecar.ok() || sidecar->uuid != part->uuid) continue;
      if (sidecar->parts.id == part->parts.id) return;
      // A part of a newer generation may be about to be committed, unless it is old.
      superseded |= part->generation <= sidecar->generation || !IsYoung(path);
    }
    if (superseded) {
      AddKept(path, fmt::format("{} has other parts by now", part->parts.home), WhileLocked(path));
    } else {
      AddKept(path, fmt::format("a part of the parity of {}, which has no sidecar there that says so", part->parts.home),
              "rm it if that file is gone");
    }
  }

  /// Visits an index of objects. Without the sidecar of the same name it is of no use. Sidecars were visited before.
  void VisitIndex(Directory& directory, const std::string& name) {
    const std::set<std::string>& names = **directory.Names();
    const std::string owner = name.substr(sizeof(kIndexPrefix) - 1), path = directory.PathOf(name);
    const auto sidecar_of = [](const std::string& data) { return kSidecarPrefix + data; };
    if (names.contains(sidecar_of(owner))) {
      if (removable_.contains(directory.PathOf(sidecar_of(owner)))) AddKept(path, "its sidecar is an orphan, too", "");
      return;
    }
    // The sidecar of a member can be made again, and then its index is valid again.
    if (survey_.PatternOfSiblings(directory.PathOf(owner))) return;
    // While it is written, it has one more extension (ReplaceFile).
    const bool written = names.contains(sidecar_of(owner.substr(0, owner.rfind('.'))));
    AddKept(path, "there is no sidecar of the same name", written ? WhileYoung(path) : "");
  }

  /// True if another sidecar of the directory is of a later commit of the same file.
  static bool IsSuperseded(Directory& directory, const Peek& peek) {
    const auto& all = directory.Sidecars();
    return peek.committed && std::any_of(all.begin(), all.end(), [&](const std::string& sidecar) {
             const auto& other = directory.PeekAt(sidecar);
             return other.ok() && other->committed && other->kind == peek.kind && other->uuid == peek.uuid &&
                    other->rank == peek.rank && other->generation > peek.generation;
           });
  }

  /// True if a member of the set of `peek` may exist. Then the set needs this sidecar, which has parity of the group.
  bool SetNeeds(const Peek& peek, const std::string& data) {
    const auto pattern = PatternFromTail(data, peek.name, peek.rank);
    if (!pattern) return true;
    const auto& members = survey_.MembersOf(*pattern);
    for (std::uint32_t rank = 0; rank < peek.members; ++rank) {
      const auto member = members.find(rank);
      if (member == members.end()) return true;  // its file may be on another node
      const bool alive = fs_.Stat(member->second.path).ok();
      if (alive && (!member->second.peek || member->second.peek->uuid == peek.uuid)) return true;
    }
    return false;
  }

  /// True if parity alone can rebuild data: those of a small file, or of a group with no more data than parity. All files of
  /// the group are gone.
  bool HasAllOfItsGroup(const std::string& path) {
    const auto sidecar = Sidecar::Load(fs_, path, OpenMode::kRead);
    if (!sidecar.ok()) return false;
    const auto layout = LayoutOf((*sidecar)->contents());
    if (!layout.ok() || layout->parity() == 0) return false;
    const std::vector<bool> all(layout->files(), true);
    return layout->unit_rows(0) > 0 && layout->CanRebuild(all, [](std::uint32_t, std::uint64_t) { return false; });
  }

  /// The commands for both decisions, for the dataset of this member. If another set has the pattern of this one by now, such a
  /// command would change the other set.
  std::string HowToDecide(const std::string& data, const std::string& sidecar, const Peek& peek) {
    std::string dataset = data;
    if (peek.members > 0) dataset = PatternFromTail(data, peek.name, peek.rank).value_or(data);
    if (peek.members > 0 && survey_.NewestOf(dataset).uuid != peek.uuid) {
      return fmt::format("another set has its name; to have this one back, move the files of that one and their sidecars to another directory, then run "
                         "lzy-restore on '{}'; if you do not want it: rm {}", dataset, ShellQuote(sidecar));
    }
    return fmt::format("to restore it: lzy-restore {0}; if you deleted it: lzy-protect --remove --force {0}", ShellQuote(dataset));
  }

  // Only this sidecar records what the file was, so the user decides.
  static std::string HowToGetBack(const std::string& data, const std::string& sidecar) {
    const std::string aside = data + ".old";
    return fmt::format("to get it back as {1}: mv -n {0} {2} && lzy-restore {1}; if you do not want it: rm {0}", ShellQuote(sidecar),
                       ShellQuote(aside), ShellQuote(JoinPath(DirectoryOf(data), kSidecarPrefix + BaseNameOf(aside))));
  }

  /// How long the file still counts as young; 0 if it does not.
  std::int64_t YoungFor(const std::string& path) {
    const auto stat = fs_.Stat(path, /*follow=*/false);
    return stat.ok() ? std::clamp<std::int64_t>(stat->mtime_ns + kMomentsNs - CoarseNowNs(), 0, kMomentsNs) : kMomentsNs;
  }
  bool IsYoung(const std::string& path) { return YoungFor(path) > 0; }

  // Why a file is kept, and until when; empty if it may be removed. If the lock cannot be taken for any reason, the file is
  // kept.
  std::string WhileLocked(const std::string& path) {
    if (!locks_) return "";
    const Status seized = Seize(fs_, path).status();
    if (seized.ok()) return "";
    if (seized.code() == Code::kBusy) return "it may be in use, and is kept until the process that has its lock ends";
    return fmt::format("it may be in use, and is kept, because it cannot be locked: {}", seized.message());
  }
  std::string WhileYoung(const std::string& path, const std::string& otherwise = "") {
    constexpr std::int64_t kMinute = 60 * kNsPerSecond;
    const std::int64_t left = YoungFor(path);
    if (left == 0) return otherwise;
    const std::int64_t minutes = (left + kMinute - 1) / kMinute;
    return fmt::format("it may be in use, and is kept for {} more minute{}", minutes, minutes == 1 ? "" : "s");
  }
  void AddKept(const std::string& path, const std::string& reason, const std::string& kept) {
    if (kept.empty()) removable_.insert(path);
    found_.push_back({path, reason, kept});
  }

  FileSystem& fs_;
  Survey survey_;
  std::vector<Orphan> found_;
  std::set<std::string> removable_;
  bool locks_ = true;
  BySet moved_;  // MovedMember
  BySet near_;   // MemberNear
};

}  // namespace

Result<std::vector<Orphan>> FindOrphans(FileSystem& fs, const std::string& directory) {
  return OrphanFinder(fs).Find(directory);
}

std::vector<Orphan> FindOrphansIn(FileSystem& fs, const std::string& directory) {
  return OrphanFinder(fs).FindIn(directory);
}

// Holds the lock while it removes the file, so that no process begins to use it meanwhile.
Status RemoveOrphan(FileSystem& fs, const Orphan& orphan) {
  const auto held = Seize(fs, orphan.path);
  if (held.status().code() == Code::kNotFound) return Status::Ok();
  if (!held.ok()) return held.status();
  if (Status removed = fs.Remove(orphan.path); !removed.ok() && removed.code() != Code::kNotFound) return removed;
  return fs.SyncDirectory(DirectoryOf(orphan.path));
}

}  // namespace lzy
