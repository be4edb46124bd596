// Judges differences: damage, an edit, or an interrupted epoch (docs/design/repair.md §8), and makes the report. CauseOf
// asks in the order of the lines of that table.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/interval_set.h"
#include "base/node.h"
#include "base/printable.h"
#include "dataset/seen_late.h"
#include "judge/examine.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// True if the intent covers any of these bytes. The intent of a repair names the ranges that it writes; that of an epoch,
// the whole file.
bool InIntent(const Intent& intent, const ByteRange& bytes) {
  return (intent.flags & kIntentWholeFile) != 0 || Meets(intent.ranges, bytes);
}

bool Contains(const std::vector<Interval>& sorted, std::uint64_t number) {
  const auto behind = std::ranges::upper_bound(sorted, number, {}, &Interval::begin);
  return behind != sorted.begin() && number < std::prev(behind)->end;
}

// The cause for a parity block alone. Edits of its row are considered later.
DamageCause CauseOfParity(BlockFault fault) {
  return fault == BlockFault::kUnreadable ? DamageCause::kUnreadable
         : fault == BlockFault::kMissing  ? DamageCause::kMissing
         : fault == BlockFault::kEncoding ? DamageCause::kEncoding
                                          : DamageCause::kHash;
}

}  // namespace

bool Meets(const std::vector<ByteRange>& ranges, const ByteRange& bytes) {
  return std::ranges::any_of(ranges, [&](const ByteRange& r) {
    return r.offset < bytes.offset + bytes.length && bytes.offset < r.offset + r.length;
  });
}

DamageCause CauseOf(const FileView& file, BlockFault fault, const ByteRange& bytes) {
  if (fault == BlockFault::kUnreadable) return DamageCause::kUnreadable;
  if (!file.present) return DamageCause::kMissing;
  // The intent of a repair does not make a block at risk: its ranges were damaged before.
  const bool named = file.intent && InIntent(*file.intent, bytes);
  const bool repairing = named && IsOfRepair(*file.intent);
  if (named && !repairing) return DamageCause::kAtRisk;
  // Somebody put a content here that is right elsewhere.
  if (file.identity.IsOther()) return DamageCause::kStale;
  // The file is in an older committed state (a backup, or a node that was away). Nobody edited it.
  if (file.IsOfThePast()) return DamageCause::kHash;
  const bool its_time = file.stat.mtime_ns == file.stamp.mtime_ns || file.identity.whole_seconds;
  const bool told = its_time && !IsRacy(file.stamp, file.commit_clock_ns);
  if (!repairing && !told) return DamageCause::kStale;
  return fault == BlockFault::kMissing ? DamageCause::kMissing : DamageCause::kHash;
}

namespace {

// A commit changes the generation, an epoch sets or clears an intent, and a process that commits now holds the lock.
bool ChangedSince(const Context& context, const FileView& file, bool lock_counts) {
  // No sidecar was loaded: none exists, it is ruined, or a directory has the name of the file.
  if (file.opened == FileView::Commit{}) return false;
  auto opened = OpenNewest(context.fs, file.sidecar_path, OpenMode::kRead);
  if (!opened.ok()) return false;
  if (lock_counts && (*opened)->FindLockHolder()) return true;
  const auto now = Sidecar::Load(std::shared_ptr<File>(std::move(opened).value()), OpenMode::kRead);
  if (now.status().code() == Code::kBusy) return true;
  // An unusable sidecar is not one that was just committed.
  if (!now.ok() || !CheckContents((*now)->contents()).ok() || !(*now)->Unseal(context.options.key).ok()) return false;
  const Superblock& sb = (*now)->contents().superblock;
  // An older generation means that a commit was interrupted and completed in this view only.
  if (sb.uuid == file.opened.uuid && sb.generation < file.opened.generation) return false;
  if (file.opened != FileView::Commit{sb.uuid, sb.generation, sb.wall_time_ns}) return true;
  return (*now)->intent().has_value() != file.intent.has_value();
}

}  // namespace

// Called after a difference was found. Readers take no lock, so a commit may have replaced what they compared. A sidecar
// that was unusable (older, for example) may be up to date now, so those are compared, too.
bool CommittedSince(const Context& context, const DatasetView& view, bool locks_count) {
  return std::ranges::any_of(view.files(), [&](const FileView& file) {
    const bool here = view.ref.kind == DatasetKind::kShared ? context.comm.rank() == 0 : file.owner == context.comm.rank();
    // Parts are written under the lock of their sidecar.
    return here && !file.sidecar_path.empty() && ChangedSince(context, file, locks_count || !file.part_paths.empty());
  });
}

Result<bool> CommittedMeanwhile(const Context& context, const DatasetView& view) {
  bool changed = false;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { changed = CommittedSince(context, view, /*locks_count=*/true); }));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any, context.comm.AllReduceMax(changed));
  return any != 0;
}

void ReportCommitUnderWay(DatasetReport& report) {
  report.warnings.push_back(fmt::format("{}: was being written or committed while it was read; verify it again", report.path));
  for (Damage& d : report.damage) {
    if (d.cause == DamageCause::kNotVisible) continue;
    d.cause = DamageCause::kAtRisk;
    d.beyond_repair = false;
  }
  report.unjudged = false;
  report.unchecked.clear();
  report.met_commit = report.in_epoch = true;
  report.state = DatasetState::kAtRisk;
}

// Makes one entry for each block, sorted by row. Then adjusts causes by row, because parity is only as good as the data of
// its row.
std::vector<LostBlock> LostBlocks(const Ensemble& ensemble, const std::vector<FileFindings>& findings) {
  const Layout& layout = *ensemble.layout;
  std::vector<LostBlock> lost;
  for (std::uint32_t f = 0; f < findings.size(); ++f) {
    const FileView& file = ensemble.files[f];
    for (const bool parity : {false, true}) {
      for (const BadBlocks& bad : parity ? findings[f].parity : findings[f].data) {
        for (std::uint64_t i = bad.first; !bad.transient && i < bad.first + bad.count; ++i) {
          const Layout::DeviceRow at = layout.Locate(parity, f, i);
          // Padding of the parity region belongs to no row.
          if (parity && (at.row.unit_row >= layout.unit_rows(at.row.group) || layout.RowLength(at.row) == 0)) continue;
          const DamageCause cause = file.not_visible ? DamageCause::kNotVisible
                                    : parity         ? CauseOfParity(bad.fault)
                                                     : CauseOf(file, bad.fault, {i * layout.block_size(), layout.block_size()});
          const bool unknown = bad.unproven && bad.fault == BlockFault::kHash && cause == DamageCause::kHash;
          lost.push_back({at.row.group, at.row.unit_row, at.row.slice, at.device, parity, cause, bad.unproven, unknown,
                          bad.fault == BlockFault::kForsaken, !parity && Contains(findings[f].in_replica, i)});
        }
      }
    }
  }
  std::sort(lost.begin(), lost.end());
  // The interrupted epoch may have written a part of the parity.
  const bool broken_off = std::ranges::any_of(
      ensemble.files, [](const FileView& file) { return file.intent && !IsOfRepair(*file.intent); });
  for (LostBlock& block : lost) {
    if (broken_off && block.parity && block.cause == DamageCause::kHash) block.cause = DamageCause::kAtRisk;
  }
  // Parity of a row with edited data is out of date, whatever else is wrong with it. The next commit makes it again.
  ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
    std::optional<DamageCause> edited;
    for (std::size_t i = begin; i < end; ++i) {
      if (IsEdit(lost[i].cause)) edited = lost[i].cause;
    }
    for (std::size_t i = begin; i < end && edited; ++i) {
      if (lost[i].parity && lost[i].cause != DamageCause::kNotVisible) lost[i].cause = *edited;
    }
  });
  return lost;
}

std::size_t CountForParity(std::span<const LostBlock> row) {
  return static_cast<std::size_t>(std::ranges::count_if(
      row, [](const LostBlock& block) { return !block.in_replica && block.cause != DamageCause::kNotVisible; }));
}

// Decides from agreed findings, before anything is written. Each row with lost hashes must have right data and parity that
// can be written, and its other losses must be within what parity covers.
bool CanRehash(const Ensemble& ensemble, std::span<const LostBlock> lost) {
  const std::vector<std::string>& obstacles = ensemble.files[0].part_obstacles;
  bool any = false, all = true;
  ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
    bool here = false, able = CountForParity(lost.subspan(begin, end - begin)) <= ensemble.layout->parity();
    for (std::size_t i = begin; i < end; ++i) {
      const LostBlock& block = lost[i];
      here = here || block.unproven;
      const bool edited = IsEdit(block.cause);
      const bool left = block.parity && block.device < obstacles.size() && !obstacles[block.device].empty();
      able = able && !edited && !left && !block.forsaken && (block.parity || !block.unproven);
    }
    any = any || here;
    all = all && (!here || able);
  });
  return any && all;
}

// Entries that differ in anything else stay separate.
void MergeDamage(std::vector<Damage>& damage) {
  std::ranges::sort(damage, {}, [](const Damage& d) { return std::tie(d.path, d.part, d.offset); });
  const auto kind = [](const Damage& d) {
    return std::tie(d.path, d.part, d.device, d.cause, d.transient, d.repaired, d.beyond_repair);
  };
  std::vector<Damage> merged;
  for (Damage& d : damage) {
    Damage* const last = merged.empty() ? nullptr : &merged.back();
    if (last != nullptr && kind(*last) == kind(d) && last->offset + last->length == d.offset && d.length > 0) {
      last->length += d.length;
    } else {
      merged.push_back(std::move(d));
    }
  }
  damage = std::move(merged);
}

void Assessment::Count(DamageCause cause, DamagePart part) {
  bool& damaged = part == DamagePart::kData ? data_damaged : other_damaged;
  (cause == DamageCause::kStale        ? stale
   : cause == DamageCause::kAtRisk     ? at_risk
   : cause == DamageCause::kNotVisible ? not_visible
                                       : damaged) = true;
}

DatasetState Assessment::State() const {
  const DatasetState edits = at_risk ? DatasetState::kAtRisk : stale ? DatasetState::kStale : DatasetState::kIntact;
  if (beyond) return DatasetState::kUnrepairable;
  if (data_damaged) return DatasetState::kDamaged;
  if (unjudged) return edits == DatasetState::kIntact ? DatasetState::kUnprotected : edits;
  if (other_damaged) return DatasetState::kDamaged;
  return not_visible && edits == DatasetState::kIntact ? DatasetState::kUnprotected : edits;
}

// Protector::FillReport calls it for a commit that was just made.
void FillCommit(const Superblock& sb, DatasetReport& report) {
  report.devices = sb.members;
  report.parity = sb.parity;
  report.group_size = sb.largest_group;
  report.block_size = sb.block_size;
  report.automatic_block_size = sb.automatic_block_size;
  report.unit = sb.unit;
  report.uuid = UuidText(sb.uuid);
  report.generation = sb.generation;
  report.commit_time_ns = sb.wall_time_ns;
  report.root = sb.dataset_root;
}

namespace {

// The first rank after the members of the set that has no file. Files of higher ranks cannot become members. nullopt if it
// is not known, because the set is seen only in part.
std::optional<std::uint32_t> FirstGap(const DatasetView& view) {
  if (!view.committed || view.IsPartial()) return std::nullopt;
  std::set<std::uint32_t> there;
  for (const FileView& file : view.extras) {
    if (file.present) there.insert(file.rank);
  }
  std::uint32_t rank = view.superblock.members;
  while (there.contains(rank)) ++rank;
  return rank;
}

}  // namespace

// Without a commit, there is no geometry. An intent on such a file means that a program writes it for the first time.
namespace {

// Each rank sees its own machine, and rank 0 prints.
void DescribeCommitUnderWay(const DatasetView& view, DatasetReport& report) {
  const Intent self = IntentOfThisProcess();
  for (const FileView& file : view.files()) {
    if (!file.intent || (file.intent->flags & kIntentHandedOver) == 0) continue;
    const bool elsewhere = file.intent->host != self.host;
    if (!elsewhere && !RanAt(file.intent->pid, file.intent->wall_time_ns)) continue;
    report.commit_under_way = fmt::format("{}:{}", Printable(file.intent->host), file.intent->pid);
    report.commit_elsewhere = elsewhere;
    return;
  }
}

}  // namespace

void DescribeMetadata(const DatasetView& view, DatasetReport& report) {
  const Superblock& sb = view.superblock;
  const std::optional<std::uint32_t> gap = FirstGap(view);
  for (const FileView& file : view.extras) {
    if (!file.present || view.IsUnknownMember(file)) continue;
    report.warnings.push_back(
        gap && *gap < file.rank && !view.IsLeftover(file)
            ? fmt::format("{}: matches the set's pattern but is not protected, and there is no member {}. As long as it has this name, lzy-protect "
                          "refuses the set: give it another name, for example: mv -n {} {}", file.path, ExpandPattern(view.ref.path, *gap),
                          ShellQuote(file.path), ShellQuote(file.path + ".away"))
            : fmt::format("{}: {}", file.path,
                          view.IsLeftover(file) ? "is left over from an older set, or of another set, and not part of this one; it was not looked at"
                                                : "matches the set's pattern but is not protected; lzy-protect makes it a member"));
  }
  for (const FileView& file : view.files()) {
    const Identity& identity = file.identity;
    const bool renamed = identity.Is(Identity::Kind::kRenamed), another = identity.Is(Identity::Kind::kAnother);
    report.another = report.another || renamed || another || identity.elsewhere;
    if (renamed && identity.name == BaseNameOf(file.path)) {
      report.warnings.push_back(fmt::format("{}: its own sidecar was set aside under a temporary name beside it, and by that sidecar it is damaged. Give "
                                            "it that sidecar back, then repair it. Only --force repairs or commits it here", file.path));
    } else if (renamed) {
      report.warnings.push_back(fmt::format("{}: it is the file that was '{}' at the last commit, and not all of it is as it was then: it was "
                                            "renamed, and is damaged. Rename it back, then repair it. Only --force repairs or commits it here",
                                            file.path, identity.name));
    }
    if (another) {
      report.warnings.push_back(fmt::format("{}: by its inode or time of birth it is not the file of the last commit, and most of it differs. "
                                            "Only --force repairs or commits it", file.path));
    }
    if (identity.whole_seconds) {
      report.warnings.push_back(fmt::format("{}: a tool that keeps whole seconds put it back, by its time; most of it is as committed, and "
                                            "the rest is damaged. A repair keeps it as NAME.replaced", file.path));
    }
    if (!identity.Is(Identity::Kind::kProven)) continue;
    report.holds_another = true;
    report.warnings.push_back(fmt::format("{}: it holds what '{}' was at its last commit: it was renamed, swapped or copied. Only "
                                          "a repair with --force writes to it", file.path, identity.name));
  }
  report.path = view.ref.path;
  report.kind = view.ref.kind;
  report.gone = view.ref.kind == DatasetKind::kShared && !view.ensembles[0].files[0].present;
  report.warnings.insert(report.warnings.end(), view.warnings.begin(), view.warnings.end());
  report.needed_nodes = view.needed_nodes;
  DescribeCommitUnderWay(view, report);
  report.bytes = view.data_bytes();
  if (sb.placement == ParityPlacement::kStriped) report.by_servers = {sb.unit, view.info.groups};
  for (const FileView& file : view.files()) {
    report.sidecar_bytes += file.sidecar_bytes;
    report.unsealed = report.unsealed || file.fault == SidecarFault::kUnsealed;
  }
  if (!view.committed) {
    report.state = DatasetState::kUnprotected;
    report.another = view.ref.kind == DatasetKind::kShared && view.superblock.kind == DatasetKind::kSet;
    for (const FileView& file : view.files()) {
      if (file.intent) report.state = DatasetState::kAtRisk;
    }
    return;
  }
  FillCommit(sb, report);
  report.groups = static_cast<std::uint32_t>(view.ref.kind == DatasetKind::kShared ? view.info.groups.size()
                                                                                   : view.ensembles.size());
  if (sb.sealed()) report.key = KeyText(sb.key_id);
}

namespace {

// One call of Describe. Adds ensembles in their order, and blocks by row, so all ranks make the same report.
class Describer {
 public:
  Describer(const DatasetView& view, DatasetReport& report) : view_(view), report_(report) {}

  void Add(const Ensemble& ensemble, const std::vector<FileFindings>& files) {
    const std::vector<LostBlock> lost = LostBlocks(ensemble, files);
    const bool unproven = std::ranges::any_of(lost, [](const LostBlock& block) { return block.unproven; });
    if (unproven && !CanRehash(ensemble, lost)) sum_.unjudged = true;
    ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
      const auto row = std::span(lost).subspan(begin, end - begin);
      const bool too_many = CountForParity(row) > ensemble.layout->parity();
      if (!too_many && lost[begin].forsaken) ++without_parity_;
      // Parity counts as beyond repair only together with data.
      const bool data_lost = std::ranges::any_of(row, [](const LostBlock& b) { return !b.parity && !b.unknown; });
      const bool edited = std::ranges::any_of(row, [](const LostBlock& b) { return !b.parity && IsEdit(b.cause); });
      // A replica does not count here: it may not be there next time.
      const auto lost_alone = std::ranges::count_if(row, [](const LostBlock& b) { return b.cause != DamageCause::kNotVisible; });
      report_.cannot_undo = report_.cannot_undo || (edited && static_cast<std::size_t>(lost_alone) > ensemble.layout->parity());
      for (const LostBlock& block : row) AddLost(ensemble, block, too_many && data_lost);
    });
    for (std::uint32_t f = 0; f < files.size(); ++f) {
      AddTransient(ensemble, f, files[f].data, DamagePart::kData);
      AddTransient(ensemble, f, files[f].parity, DamagePart::kParity);
      AddOfFile(ensemble.files[f], ensemble.layout->data_blocks(f) == 0, files[f]);
    }
  }

  // Adds a member of a group of which no sidecar is left.
  void AddUnknown(std::uint32_t rank) {
    if (const FileView* file = view_.UnknownFile(rank); file != nullptr) {
      sum_.unjudged = true;
      unchecked_[file->path].Add({0, file->stat.size});
      return;
    }
    if (view_.unknown_elsewhere) return AddNotVisible(ExpandPattern(view_.ref.path, rank), rank, 0, "");
    sum_.beyond = true;
    Put(ExpandPattern(view_.ref.path, rank), rank, DamagePart::kData, {0, 0}, DamageCause::kMissing).beyond_repair = true;
  }

  // Completes the report after all ensembles.
  void Conclude() {
    MergeDamage(report_.damage);
    NameDomains();
    report_.unjudged = sum_.unjudged;
    for (const auto& [path, ranges] : unchecked_) {
      for (const Interval& range : ranges.intervals()) report_.unchecked.push_back({path, range.begin, range.end - range.begin});
    }
    if (without_parity_ == 0) return;
    report_.warnings.push_back(
        fmt::format("{}: {} rows of blocks are whole but have no parity; lzy-protect makes it", view_.ref.path, without_parity_));
  }

  DatasetState State() const { return sum_.State(); }

 private:
  /// Sets the failure domain of each damaged member.
  void NameDomains() {
    if (!set() || report_.damage.empty()) return;
    std::map<std::uint32_t, std::string> domains;
    for (const Ensemble& ensemble : view_.ensembles) {
      for (const MemberRecord& record : ensemble.records) domains.emplace(record.rank, record.domain);
    }
    for (Damage& damage : report_.damage) {
      if (const auto at = domains.find(damage.device); at != domains.end()) damage.domain = at->second;
    }
  }

  bool set() const { return view_.ref.kind == DatasetKind::kSet; }
  // In a set, devices are members. Findings about a shared file as a whole are reported for device 0.
  std::uint32_t DeviceOf(const FileView& file) const { return set() ? file.rank : 0; }

  Damage& Put(const std::string& path, std::uint32_t device, DamagePart part, ByteRange range, DamageCause cause) {
    return report_.damage.emplace_back(Damage{
        .path = path, .device = device, .part = part, .offset = range.offset, .length = range.length, .cause = cause});
  }

  /// `beyond`: the row of the block is beyond repair.
  void AddLost(const Ensemble& ensemble, const LostBlock& block, bool beyond) {
    const Layout& layout = *ensemble.layout;
    const FileView& file = ensemble.files[layout.HolderOf(block.parity, block.device)];
    const std::uint32_t device = set() ? ensemble.files[block.device].rank : block.device;
    const BlockPlace place = layout.Block(block.parity, block.device, block.unit_row, block.slice);
    if (block.unknown) {
      if (!block.parity) unchecked_[file.path].Add({place.offset, place.offset + place.length});
      return;
    }
    if (block.cause == DamageCause::kNotVisible) return;  // AddOfFile reports the member once
    const PlaceInFile where = block.parity ? ParityPlace(file, layout.unit(), place.offset) : PlaceInFile{file.path, place.offset};
    Damage& d = Put(where.path, device, block.parity ? DamagePart::kParity : DamagePart::kData, {where.offset, place.length},
                    block.cause);
    // Parity can be made again from whole data. An edited block is beyond repair only if it is to be set back.
    d.beyond_repair = beyond && !block.in_replica && !IsEdit(block.cause);
    sum_.beyond = sum_.beyond || d.beyond_repair;
    sum_.Count(block.cause, d.part);
  }

  void AddNotVisible(const std::string& path, std::uint32_t rank, std::uint64_t size, const std::string& node) {
    Put(path, rank, DamagePart::kData, {0, size}, DamageCause::kNotVisible);
    sum_.Count(DamageCause::kNotVisible, DamagePart::kData);
    report_.not_visible.push_back({rank, path, node});
  }

  // Adds blocks that a second read found right. The user should know that the storage may be failing.
  void AddTransient(const Ensemble& ensemble, std::uint32_t f, const std::vector<BadBlocks>& list, DamagePart part) {
    const FileView& file = ensemble.files[f];
    const BlockStream stream = StreamOf(ensemble, part == DamagePart::kParity, f);
    for (const BadBlocks& bad : list) {
      for (std::uint64_t i = bad.first; bad.transient && i < bad.first + bad.count; ++i) {
        const BlockPlace place = stream.place(i);
        const PlaceInFile where = part == DamagePart::kData ? PlaceInFile{file.path, place.offset}
                                                            : ParityPlace(file, ensemble.layout->unit(), place.offset);
        Damage& d = Put(where.path, DeviceOf(file), part, {where.offset, place.length}, DamageCause::kHash);
        d.transient = d.repaired = true;
      }
    }
  }

  // Adds findings about the file as a whole: it is missing, too long, or its metadata are damaged.
  void AddOfFile(const FileView& file, bool empty, const FileFindings& found) {
    if (file.not_visible) return AddNotVisible(file.path, file.rank, file.stamp.size, file.written_on);
    if (!file.present && empty) {  // it has no blocks, but it is missing
      Put(file.path, DeviceOf(file), DamagePart::kData, {0, 0}, DamageCause::kMissing);
      sum_.data_damaged = true;
    }
    if (sum_.beyond && file.present && !empty && found.whole_device && set()) {
      report_.warnings.push_back(fmt::format(
          "{}: its hashes are lost, and as a whole it is not what was committed; which of its bytes are right is not known", file.path));
    }
    if (found.extra_bytes != 0) {
      const DamageCause cause = CauseOf(file, BlockFault::kHash, {file.stamp.size, found.extra_bytes});
      Put(file.path, DeviceOf(file), DamagePart::kData, {file.stamp.size, found.extra_bytes}, cause);
      sum_.Count(cause, DamagePart::kData);
    }
    for (const MetadataDamage& m : found.metadata) {
      const bool missing = m.what == "sidecar" || m.what == "part";
      const DamageCause cause = m.unfinished ? DamageCause::kAtRisk : missing ? DamageCause::kMissing : DamageCause::kHash;
      const bool in_part = m.part > 0 && m.part <= file.part_paths.size();
      Put(in_part ? file.part_paths[m.part - 1] : file.sidecar_path, in_part ? m.part - 1 : DeviceOf(file), DamagePart::kMetadata,
          {m.offset, m.length}, cause);
      sum_.Count(cause, DamagePart::kMetadata);
    }
  }

  const DatasetView& view_;
  DatasetReport& report_;
  std::uint64_t without_parity_ = 0;
  std::map<std::string, IntervalSet> unchecked_;  // by path
  Assessment sum_;
};

}  // namespace

// Adds metadata first, because they fill in the paths.
void Describe(const DatasetView& view, const Findings& findings, DatasetReport& report) {
  DescribeMetadata(view, report);
  report.bytes_read += findings.bytes_read;
  report.phases.read += findings.seconds;
  Describer describer(view, report);
  for (std::size_t e = 0; e < view.ensembles.size(); ++e) describer.Add(view.ensembles[e], findings.files[e]);
  for (std::uint32_t rank : view.unknown_ranks) describer.AddUnknown(rank);
  describer.Conclude();
  report.state = describer.State();
}

}  // namespace lzy
