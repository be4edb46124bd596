// What differences mean: damage, an edit, or an epoch that broke off (docs/design.md §8), and the report on them. The
// order of questions in CauseOf is the order of lines in that table.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/interval_set.h"
#include "judge/examine.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// A modification within the clock tick of the commit would leave the mtime as it was, so such a stamp proves nothing.
bool Racy(const FileView& file) {
  return file.commit_clock_ns != 0 && file.stamp.mtime_ns >= file.commit_clock_ns;
}

// Whether the intent names any of these bytes.
bool InIntent(const Intent& intent, const ByteRange& bytes) {
  if ((intent.flags & kIntentWholeFile) != 0) return true;
  return std::any_of(intent.ranges.begin(), intent.ranges.end(), [&](const ByteRange& r) {
    return r.offset < bytes.offset + bytes.length && bytes.offset < r.offset + r.length;
  });
}

}  // namespace

DamageCause CauseOf(const FileView& file, BlockFault fault, const ByteRange& bytes) {
  if (fault == BlockFault::kUnreadable) return DamageCause::kUnreadable;
  if (!file.present) return DamageCause::kMissing;
  // A repair's intent is no excuse: what it names was damaged before.
  const bool named = file.intent && InIntent(*file.intent, bytes);
  const bool repairing = named && IsOfRepair(*file.intent);
  if (named && !repairing) return DamageCause::kAtRisk;
  // An old state of the file, as a backup or a node that was away has it. Nobody edited it.
  if (file.past && file.past->size == file.stat.size && file.past->mtime_ns == file.stat.mtime_ns) return DamageCause::kHash;
  if (!repairing && (file.stat.mtime_ns != file.stamp.mtime_ns || Racy(file))) return DamageCause::kStale;
  return fault == BlockFault::kMissing ? DamageCause::kMissing : DamageCause::kHash;
}

// A commit changes the generation, an epoch sets or clears an intent. Whoever commits right now holds the lock.
bool CommittedSince(const Context& context, const DatasetView& view) {
  for (const FileView& file : view.files()) {
    const bool here =
        view.ref.kind == DatasetKind::kShared ? context.comm.rank() == 0 : file.owner == context.comm.rank();
    if (!here || !file.sidecar) continue;
    // Parts follow their sidecar, while whoever commits holds its lock.
    auto held = file.part_paths.empty() ? Result<std::unique_ptr<File>>(Code::kNotFound, "")
                                        : context.fs.Open(file.sidecar_path, OpenMode::kReadWrite, /*follow=*/false);
    if (held.ok() && (*held)->Lock().code() == Code::kBusy) return true;
    auto now = Sidecar::Load(context.fs, file.sidecar_path, OpenMode::kRead);
    if (!now.ok()) continue;
    // An older one is that of a commit which broke off half-way and was completed in this view only.
    const std::uint64_t then = file.sidecar->generation(), since = (*now)->generation();
    if (since > then || (since == then && (*now)->intent().has_value() != file.intent.has_value())) return true;
  }
  return false;
}

// One entry for each block, sorted by row. Causes are adjusted by row afterwards, because parity is only as good as
// the data of its row.
std::vector<LostBlock> LostBlocks(const Ensemble& ensemble, const std::vector<FileFindings>& findings) {
  const Layout& layout = *ensemble.layout;
  std::vector<LostBlock> lost;
  for (std::uint32_t f = 0; f < findings.size(); ++f) {
    const FileView& file = ensemble.files[f];
    auto add = [&](const std::vector<BadBlocks>& list, bool parity) {
      for (const BadBlocks& bad : list) {
        if (bad.transient) continue;
        for (std::uint64_t i = bad.first; i < bad.first + bad.count; ++i) {
          const Layout::DeviceRow at = parity ? layout.LocateParity(f, i) : layout.LocateData(f, i);
          // Padding of the parity region belongs to no row.
          if (parity && (at.row.unit_row >= layout.unit_rows(at.row.group) || layout.RowLength(at.row) == 0)) continue;
          LostBlock block{at.row.group, at.row.unit_row, at.row.slice, at.device, parity, DamageCause::kHash};
          block.forsaken = bad.fault == BlockFault::kForsaken;
          if (!parity) {
            block.cause = CauseOf(file, bad.fault, {i * layout.block_size(), layout.block_size()});
          } else if (bad.fault == BlockFault::kUnreadable) {
            block.cause = DamageCause::kUnreadable;
          } else if (bad.fault == BlockFault::kMissing) {
            block.cause = DamageCause::kMissing;
          } else {
            block.cause = DamageCause::kHash;
          }
          block.unproven = bad.unproven;
          block.unknown = bad.unproven && bad.fault == BlockFault::kHash && block.cause == DamageCause::kHash;
          lost.push_back(block);
        }
      }
    };
    add(findings[f].data, false);
    add(findings[f].parity, true);
  }
  std::sort(lost.begin(), lost.end());
  // Parity may have been half rewritten by the epoch that broke off.
  const bool broken_off = std::any_of(ensemble.files.begin(), ensemble.files.end(), [](const FileView& file) {
    return file.intent && !IsOfRepair(*file.intent);
  });
  for (LostBlock& block : lost) {
    if (broken_off && block.parity && block.cause == DamageCause::kHash) block.cause = DamageCause::kAtRisk;
  }
  // Parity of a row with edited data is out of date, whatever else is wrong with it: the next commit makes it again.
  ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
    std::optional<DamageCause> edited;
    for (std::size_t i = begin; i < end; ++i) {
      if (IsEdit(lost[i].cause)) edited = lost[i].cause;
    }
    for (std::size_t i = begin; i < end && edited; ++i) {
      if (lost[i].parity) lost[i].cause = *edited;
    }
  });
  return lost;
}

// All rows with lost hashes must have right data and an intact way to write parity, and the rest of their blocks must
// be within what parity covers.
bool CanRehash(const Ensemble& ensemble, std::span<const LostBlock> lost) {
  const std::vector<std::string>& obstacles = ensemble.files[0].part_obstacles;
  bool any = false, all = true;
  ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
    bool here = false, able = end - begin <= ensemble.layout->parity();
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

// Sorted by file, part and offset. Entries that differ in anything else stay apart.
void MergeDamage(std::vector<Damage>& damage) {
  auto key = [](const Damage& d) { return std::tie(d.path, d.part, d.offset); };
  std::sort(damage.begin(), damage.end(), [&](const Damage& a, const Damage& b) { return key(a) < key(b); });
  std::vector<Damage> merged;
  for (Damage& d : damage) {
    if (!merged.empty()) {
      Damage& last = merged.back();
      if (last.path == d.path && last.part == d.part && last.device == d.device && last.cause == d.cause &&
          last.transient == d.transient && last.repaired == d.repaired && last.beyond_repair == d.beyond_repair &&
          last.offset + last.length == d.offset && d.length > 0) {
        last.length += d.length;
        continue;
      }
    }
    merged.push_back(std::move(d));
  }
  damage = std::move(merged);
}

void TellCommit(const Superblock& sb, DatasetReport& report) {
  report.devices = sb.members;
  report.parity = sb.parity;
  report.group_size = sb.largest_group;
  report.block_size = sb.block_size;
  report.unit = sb.unit;
  report.generation = sb.generation;
  report.commit_time_ns = sb.wall_time_ns;
  report.root = sb.dataset_root;
}

void DescribeMetadata(const DatasetView& view, DatasetReport& report) {
  const Superblock& sb = view.superblock;
  for (const FileView& file : view.extras) {
    if (!file.present || view.IsUnknownMember(file)) continue;
    report.warnings.push_back(fmt::format("{}: {}", file.path,
                                          view.IsLeftover(file) ? "is left over from an older set and not part of this one; it was not looked at"
                                                   : "matches the set's pattern but is not protected; lzy-protect makes it a member"));
  }
  report.path = view.ref.path;
  report.kind = view.ref.kind;
  report.gone = view.ref.kind == DatasetKind::kShared && !view.ensembles[0].files[0].present;
  report.warnings.insert(report.warnings.end(), view.warnings.begin(), view.warnings.end());
  report.bytes = view.data_bytes();
  for (const FileView& file : view.files()) {
    report.sidecar_bytes += file.sidecar_bytes;
    report.unsealed = report.unsealed || file.fault == SidecarFault::kUnsealed;
  }
  if (!view.committed) {
    report.state = DatasetState::kUnprotected;
    for (const FileView& file : view.files()) {
      if (file.intent) report.state = DatasetState::kAtRisk;
    }
    return;
  }
  TellCommit(sb, report);
  report.groups = static_cast<std::uint32_t>(view.ref.kind == DatasetKind::kShared ? view.info.groups.size()
                                                                                   : view.ensembles.size());
  if (sb.sealed()) report.key = KeyText(sb.key_id);
}

namespace {

// Adds to a report what was found, and keeps in mind what it all amounts to.
class Describer {
 public:
  Describer(const DatasetView& view, DatasetReport& report) : view_(view), report_(report) {}

  void Add(const Ensemble& ensemble, const std::vector<FileFindings>& files) {
    const std::vector<LostBlock> lost = LostBlocks(ensemble, files);
    const bool unproven = std::ranges::any_of(lost, [](const LostBlock& block) { return block.unproven; });
    if (unproven && !CanRehash(ensemble, lost)) unjudged_ = true;
    ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
      const bool too_many = end - begin > ensemble.layout->parity();
      if (!too_many && lost[begin].forsaken) ++without_parity_;
      // Parity is beyond repair with data alone.
      const bool data_lost = std::any_of(lost.begin() + begin, lost.begin() + end, [](const LostBlock& block) {
        return !block.parity && !block.unknown;
      });
      const bool edited = std::any_of(lost.begin() + begin, lost.begin() + end, [](const LostBlock& block) {
        return !block.parity && IsEdit(block.cause);
      });
      report_.cannot_undo = report_.cannot_undo || (too_many && edited);
      for (std::size_t i = begin; i < end; ++i) AddLost(ensemble, lost[i], too_many && data_lost);
    });
    for (std::uint32_t f = 0; f < files.size(); ++f) {
      const Layout& layout = *ensemble.layout;
      const FileView& file = ensemble.files[f];
      AddTransient(layout, file, files[f].data, DamagePart::kData, DataStream(layout, f, nullptr, nullptr, nullptr));
      AddTransient(layout, file, files[f].parity, DamagePart::kParity, ParityStream(layout, f, nullptr, 0, nullptr, nullptr));
      AddOfFile(file, layout.data_blocks(f) == 0, files[f]);
    }
  }

  // Members of whose group no sidecar is left.
  void AddUnknown(std::uint32_t rank) {
    if (const FileView* file = view_.UnknownFile(rank); file != nullptr) {
      unjudged_ = true;
      unchecked_[file->path].Add({0, file->stat.size});
      return;
    }
    beyond_ = true;
    Put(ExpandPattern(view_.ref.path, rank), rank, DamagePart::kData, {0, 0}, DamageCause::kMissing).beyond_repair = true;
  }

  // After all ensembles: what is told once for the whole dataset.
  void Conclude() {
    MergeDamage(report_.damage);
    report_.unjudged = unjudged_;
    for (const auto& [path, ranges] : unchecked_) {
      for (const Interval& range : ranges.intervals()) report_.unchecked.push_back({path, range.begin, range.end - range.begin});
    }
    if (without_parity_ == 0) return;
    report_.warnings.push_back(
        fmt::format("{}: {} rows of blocks are whole but have no parity; lzy-protect makes it", view_.ref.path, without_parity_));
  }

  // The gravest wins. If hashes are lost, damage of parity and metadata alone says nothing about the data.
  DatasetState State() const {
    return beyond_          ? DatasetState::kUnrepairable
           : data_damaged_  ? DatasetState::kDamaged
           : unjudged_      ? (at_risk_ ? DatasetState::kAtRisk : stale_ ? DatasetState::kStale : DatasetState::kUnprotected)
           : other_damaged_ ? DatasetState::kDamaged
           : at_risk_ ? DatasetState::kAtRisk
           : stale_   ? DatasetState::kStale
                      : DatasetState::kIntact;
  }

 private:
  bool set() const { return view_.ref.kind == DatasetKind::kSet; }
  // Of a set, devices are members. A shared file has its own device for each stripe; what is about the file as a whole
  // counts for device 0.
  std::uint32_t DeviceOf(const FileView& file) const { return set() ? file.rank : 0; }

  Damage& Put(const std::string& path, std::uint32_t device, DamagePart part, ByteRange range, DamageCause cause) {
    Damage& d = report_.damage.emplace_back();
    d.path = path;
    d.device = device;
    d.part = part;
    d.offset = range.offset;
    d.length = range.length;
    d.cause = cause;
    return d;
  }

  void Count(DamageCause cause, DamagePart part) {
    bool& damaged = part == DamagePart::kData ? data_damaged_ : other_damaged_;
    (cause == DamageCause::kStale ? stale_ : cause == DamageCause::kAtRisk ? at_risk_ : damaged) = true;
  }

  /// `beyond`: so is its row.
  void AddLost(const Ensemble& ensemble, const LostBlock& block, bool beyond) {
    const Layout& layout = *ensemble.layout;
    const FileView& file = ensemble.files[block.parity ? layout.region_of(block.device) : layout.file_of(block.device)];
    const std::uint32_t device = set() ? ensemble.files[block.device].rank : block.device;
    const BlockPlace place = block.parity ? layout.ParityBlock(block.device, block.unit_row, block.slice)
                                          : layout.DataBlock(block.device, block.unit_row, block.slice);
    if (block.unknown) {
      if (!block.parity) unchecked_[file.path].Add({place.offset, place.offset + place.length});
      return;
    }
    const PlaceInFile where = block.parity ? ParityPlace(file, layout.unit(), place.offset) : PlaceInFile{file.path, place.offset};
    Damage& d = Put(where.path, device, block.parity ? DamagePart::kParity : DamagePart::kData, {where.offset, place.length},
                    block.cause);
    // Parity can always be made again from whole data; and an edited block is beyond repair only if it should be taken back.
    d.beyond_repair = beyond && !IsEdit(block.cause);
    beyond_ = beyond_ || d.beyond_repair;
    Count(block.cause, d.part);
  }

  // Blocks of which a second reading was right. Nothing is to be done; the user should know of the device.
  void AddTransient(const Layout& layout, const FileView& file, const std::vector<BadBlocks>& list, DamagePart part,
                    const BlockStream& stream) {
    for (const BadBlocks& bad : list) {
      for (std::uint64_t i = bad.first; bad.transient && i < bad.first + bad.count; ++i) {
        const BlockPlace place = stream.place(i);
        const PlaceInFile where =
            part == DamagePart::kData ? PlaceInFile{file.path, place.offset} : ParityPlace(file, layout.unit(), place.offset);
        Damage& d = Put(where.path, DeviceOf(file), part, {where.offset, place.length}, DamageCause::kHash);
        d.transient = d.repaired = true;
      }
    }
  }

  // What is about the file as a whole: it is missing, too long, or its metadata are damaged.
  void AddOfFile(const FileView& file, bool empty, const FileFindings& found) {
    if (!file.present && empty) {  // it has no blocks to miss, but it is missing
      Put(file.path, DeviceOf(file), DamagePart::kData, {0, 0}, DamageCause::kMissing);
      data_damaged_ = true;
    }
    if (beyond_ && file.present && !empty && found.whole_device && set()) {
      report_.warnings.push_back(fmt::format(
          "{}: its hashes are lost, and as a whole it is not what was committed; which of its bytes are right is not known", file.path));
    }
    if (found.extra_bytes != 0) {
      const DamageCause cause = CauseOf(file, BlockFault::kHash, {file.stamp.size, found.extra_bytes});
      Put(file.path, DeviceOf(file), DamagePart::kData, {file.stamp.size, found.extra_bytes}, cause);
      Count(cause, DamagePart::kData);
    }
    for (const MetadataDamage& m : found.metadata) {
      const DamageCause cause = m.what == "sidecar" || m.what == "part" ? DamageCause::kMissing : DamageCause::kHash;
      const bool in_part = m.part > 0 && m.part <= file.part_paths.size();
      Put(in_part ? file.part_paths[m.part - 1] : file.sidecar_path, in_part ? m.part - 1 : DeviceOf(file), DamagePart::kMetadata,
          {m.offset, m.length}, cause);
      other_damaged_ = true;
    }
  }

  const DatasetView& view_;
  DatasetReport& report_;
  std::uint64_t without_parity_ = 0;
  std::map<std::string, IntervalSet> unchecked_;  // by path
  bool data_damaged_ = false, other_damaged_ = false, unjudged_ = false;
  bool beyond_ = false, stale_ = false, at_risk_ = false;
};

}  // namespace

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
