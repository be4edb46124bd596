#include "engine/examine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <tuple>

#include "base/file.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

void PutBad(ByteWriter& out, const std::vector<BadBlocks>& list) {
  out.Put(static_cast<std::uint64_t>(list.size()));
  for (const BadBlocks& bad : list) {
    out.Put(bad.first);
    out.Put(bad.count);
    out.Put(static_cast<std::uint8_t>(bad.fault));
    out.Put<std::uint8_t>(bad.transient);
  }
}

void GetBad(ByteReader& in, std::vector<BadBlocks>& list) {
  for (auto count = in.Get<std::uint64_t>(); count > 0 && in.ok(); --count) {
    BadBlocks bad;
    bad.first = in.Get<std::uint64_t>();
    bad.count = in.Get<std::uint64_t>();
    bad.fault = static_cast<BlockFault>(in.Get<std::uint8_t>());
    bad.transient = in.Get<std::uint8_t>() != 0;
    list.push_back(bad);
  }
}

void PutFindings(ByteWriter& out, std::uint32_t ensemble, std::uint32_t file, const FileFindings& f) {
  out.Put(ensemble);
  out.Put(file);
  PutBad(out, f.data);
  PutBad(out, f.parity);
  out.Put(static_cast<std::uint32_t>(f.metadata.size()));
  for (const MetadataDamage& m : f.metadata) {
    out.Put(m.offset);
    out.Put(m.length);
    out.PutString(m.what);
  }
  out.Put(f.extra_bytes);
  out.Put<std::uint8_t>(f.whole_device);
}

Status MergeFindings(ByteSpan bytes, Findings& findings) {
  ByteReader in(bytes);
  while (in.remaining() > 0 && in.ok()) {
    const auto e = in.Get<std::uint32_t>();
    const auto f = in.Get<std::uint32_t>();
    if (e >= findings.files.size() || f >= findings.files[e].size())
      return {Code::kInternal, "findings of an unknown file"};
    FileFindings& to = findings.files[e][f];
    GetBad(in, to.data);
    GetBad(in, to.parity);
    for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
      MetadataDamage m;
      m.offset = in.Get<std::uint64_t>();
      m.length = in.Get<std::uint64_t>();
      m.what = in.GetString(1024);
      to.metadata.push_back(std::move(m));
    }
    to.extra_bytes = std::max(to.extra_bytes, in.Get<std::uint64_t>());
    to.whole_device = in.Get<std::uint8_t>() != 0 || to.whole_device;
  }
  return in.ok() ? Status::Ok() : Status(Code::kInternal, "findings of a rank are malformed");
}

// Hash pages that no copy had: computed again from the blocks, and believed if the page's own hash agrees.
void ProveUnknown(const Tree& stored, TreeKind kind, const std::vector<std::uint64_t>& unknown, std::uint64_t first,
                  const std::vector<Hash>& computed, std::optional<Tree>& proven) {
  if (unknown.empty()) return;
  std::vector<Hash> leaves(stored.levels()[0]);
  for (std::uint64_t index : unknown) {
    if (index >= first && index - first < computed.size()) leaves[index] = computed[index - first];
  }
  Tree candidate = Tree::Build(kind, leaves, stored.bytes());
  Tree result = stored;
  const auto levels = stored.levels();
  std::vector<Hash> accepted(stored.levels()[0]);
  bool any = false;
  for (std::uint64_t index : unknown) {
    const std::uint64_t page = index / kPageFanout;
    const bool right = levels.size() < 2 || candidate.levels()[1][page] == levels[1][page];
    if (right) {
      accepted[index] = leaves[index];
      any = true;
    }
  }
  if (any) proven = Tree::Build(kind, std::move(accepted), stored.bytes());
}

struct Share {
  std::uint64_t first = 0, count = 0;
};
Share ShareOf(std::uint64_t total, int rank, int size) {
  const std::uint64_t begin = total * static_cast<std::uint64_t>(rank) / static_cast<std::uint64_t>(size);
  const std::uint64_t end = total * (static_cast<std::uint64_t>(rank) + 1) / static_cast<std::uint64_t>(size);
  return {begin, end - begin};
}

class Examiner {
 public:
  Examiner(const Context& context, DatasetView& view, bool from_disk) : context_(context), view_(view) {
    settings_.from_device = from_disk;
    settings_.threads = ThreadsFor(context);
    settings_.buffer_bytes =
        std::clamp<std::uint64_t>(context.options.memory / (4 * settings_.threads), 64u << 10, 1u << 20);
    settings_.stop = context.stop;
    if (context.progress) {
      settings_.progress = [this](std::uint64_t bytes) {
        done_ += bytes;
        context_.progress("verify", done_, total_);
      };
    }
  }

  Result<Findings> Run() {
    const auto start = std::chrono::steady_clock::now();
    Findings findings;
    ByteWriter out;
    const bool shared = view_.ref.kind == DatasetKind::kShared;
    for (const Ensemble& ensemble : view_.ensembles) {
      findings.files.emplace_back(ensemble.files.size());
      for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
        if (!shared && ensemble.files[f].owner != context_.comm.rank()) continue;
        total_ += ensemble.layout->file_size(f) + ensemble.layout->parity_size(f);
      }
    }
    if (shared) total_ /= static_cast<std::uint64_t>(context_.comm.size());
    bool prove = false;
    if (shared) {
      // Asked of all ranks: one that could not read the metadata must not be the only one to take this way.
      const Sidecar& sidecar = *view_.ensembles[0].files[0].sidecar;
      const bool unknown = !sidecar.unknown_data_leaves().empty() || !sidecar.unknown_parity_leaves().empty();
      LZY_ASSIGN_OR_RETURN(const std::uint64_t any, context_.comm.AllReduceMax(unknown));
      prove = any != 0;
    }
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
      for (std::uint32_t e = 0; e < view_.ensembles.size(); ++e) {
        Ensemble& ensemble = view_.ensembles[e];
        for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
          FileView& file = ensemble.files[f];
          if (!shared && file.owner != context_.comm.rank()) continue;
          FileFindings own;
          LZY_RETURN_IF_ERROR(!shared ? ExamineMember(ensemble, f, file, own)
                              : prove ? ExamineWhole(ensemble, file, own)
                                      : ExamineShared(ensemble, file, own));
          PutFindings(out, e, f, own);
        }
      }
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const auto all, context_.comm.AllGather(out.bytes()));
    for (const auto& bytes : all) LZY_RETURN_IF_ERROR(MergeFindings(bytes, findings));
    for (std::uint32_t e = 0; e < view_.ensembles.size(); ++e) {
      for (std::uint32_t f = 0; f < view_.ensembles[e].files.size(); ++f) {
        const FileView& file = view_.ensembles[e].files[f];
        const std::uint64_t size = view_.ensembles[e].layout->file_size(f);
        if (file.present && file.stat.size > size) findings.files[e][f].extra_bytes = file.stat.size - size;
      }
    }
    LZY_ASSIGN_OR_RETURN(findings.bytes_read, context_.comm.AllReduceSum(bytes_read_));
    findings.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return findings;
  }

 private:
  // Checks a stretch of one stream; proves unknown leaves; drops findings that this explains.
  Status CheckStretch(BlockStream stream, const Share& share, TreeKind kind, const std::vector<std::uint64_t>& unknown,
                      std::optional<Tree>& proven, std::vector<BadBlocks>& bad) {
    LZY_ASSIGN_OR_RETURN(CheckResult result, CheckBlocks(stream, share.first, share.count, settings_));
    bytes_read_ += result.bytes_read;
    if (!unknown.empty()) {
      ProveUnknown(*stream.expected, kind, unknown, share.first, result.leaves, proven);
      if (proven) {
        stream.expected = &*proven;
        LZY_ASSIGN_OR_RETURN(result, CheckBlocks(stream, share.first, share.count, settings_));
      }
    }
    bad = std::move(result.bad);
    return Status::Ok();
  }

  // Rare: hash pages that no copy had must be proven whole, so every rank looks at everything, and one speaks for all.
  Status ExamineWhole(Ensemble& ensemble, FileView& file, FileFindings& own) {
    const Layout& layout = *ensemble.layout;
    const int rank = context_.comm.rank();
    const Sidecar& sidecar = *file.sidecar;
    LZY_RETURN_IF_ERROR(CheckStretch(DataStream(layout, 0, file.data.get(), &sidecar.contents().data_tree),
                                     {0, layout.data_blocks(0)}, TreeKind::kData, sidecar.unknown_data_leaves(),
                                     file.proven_data, own.data));
    LZY_RETURN_IF_ERROR(CheckStretch(ParityStream(layout, 0, &file.sidecar->file(), sidecar.ParityFileOffset(0),
                                                  &sidecar.contents().parity_tree),
                                     {0, layout.parity_blocks(0)}, TreeKind::kParity, sidecar.unknown_parity_leaves(),
                                     file.proven_parity, own.parity));
    // The first speaks for all of the blocks; each for the metadata it could not read.
    if (rank != 0) own = FileFindings();
    const bool unknown = !sidecar.unknown_data_leaves().empty() || !sidecar.unknown_parity_leaves().empty();
    if (rank == 0 || unknown) own.metadata = sidecar.damage();
    return Status::Ok();
  }

  Status ExamineShared(Ensemble& ensemble, FileView& file, FileFindings& own) {
    const Layout& layout = *ensemble.layout;
    const int rank = context_.comm.rank();
    const int size = context_.comm.size();
    LZY_RETURN_IF_ERROR(CheckStretch(DataStream(layout, 0, file.data.get(), file.data_tree()),
                                     ShareOf(layout.data_blocks(0), rank, size), TreeKind::kData, {}, file.proven_data,
                                     own.data));
    LZY_RETURN_IF_ERROR(CheckStretch(
        ParityStream(layout, 0, &file.sidecar->file(), file.sidecar->ParityFileOffset(0), file.parity_tree()),
        ShareOf(layout.parity_blocks(0), rank, size), TreeKind::kParity, {}, file.proven_parity, own.parity));
    if (rank == 0) own.metadata = file.sidecar->damage();
    return Status::Ok();
  }

  Status ExamineMember(Ensemble& ensemble, std::uint32_t f, FileView& file, FileFindings& own) {
    const Layout& layout = *ensemble.layout;
    const Share data{0, layout.data_blocks(f)};
    const Share parity{0, layout.parity_blocks(f)};
    if (file.sidecar != nullptr) {
      LZY_RETURN_IF_ERROR(CheckStretch(DataStream(layout, f, file.data.get(), &file.sidecar->contents().data_tree),
                                       data, TreeKind::kData, file.sidecar->unknown_data_leaves(), file.proven_data,
                                       own.data));
      LZY_RETURN_IF_ERROR(CheckStretch(ParityStream(layout, f, &file.sidecar->file(), file.sidecar->ParityFileOffset(0),
                                                    &file.sidecar->contents().parity_tree),
                                       parity, TreeKind::kParity, file.sidecar->unknown_parity_leaves(),
                                       file.proven_parity, own.parity));
      own.metadata = file.sidecar->damage();
      return Status::Ok();
    }
    // No sidecar: its parity is gone, and the data count only if they have, as a whole, the root the others know.
    if (parity.count > 0) own.parity.push_back({0, parity.count, BlockFault::kMissing, false});
    own.metadata.push_back({0, 0, "sidecar"});
    if (file.data != nullptr && file.stat.size >= layout.file_size(f)) {
      LZY_ASSIGN_OR_RETURN(CheckResult result,
                           CheckBlocks(DataStream(layout, f, file.data.get(), nullptr), 0, data.count, settings_));
      bytes_read_ += result.bytes_read;
      Tree tree = Tree::Build(TreeKind::kData, std::move(result.leaves), layout.file_size(f));
      if (result.bad.empty() && tree.Root() == ensemble.records[f].data_root) {
        file.proven_data = std::move(tree);
        return Status::Ok();
      }
    }
    if (data.count > 0) {
      own.data.push_back({0, data.count, file.data == nullptr ? BlockFault::kMissing : BlockFault::kHash, false});
    }
    own.whole_device = true;
    return Status::Ok();
  }

  const Context& context_;
  DatasetView& view_;
  CheckSettings settings_;
  std::atomic<std::uint64_t> done_{0};
  std::uint64_t total_ = 0;
  std::uint64_t bytes_read_ = 0;
};

// A modification within the clock tick of the commit would leave the mtime as it was, so such a stamp proves nothing.
bool Racy(const FileView& file) {
  return file.commit_clock_ns != 0 && file.stamp.mtime_ns >= file.commit_clock_ns;
}

bool InIntent(const Intent& intent, std::uint64_t offset) {
  if ((intent.flags & kIntentWholeFile) != 0) return true;
  return std::any_of(intent.ranges.begin(), intent.ranges.end(),
                     [&](const ByteRange& r) { return offset >= r.offset && offset - r.offset < r.length; });
}

}  // namespace

bool Findings::clean() const {
  for (const auto& ensemble : files) {
    for (const FileFindings& f : ensemble) {
      const auto lasting = [](const BadBlocks& bad) { return !bad.transient; };
      if (std::any_of(f.data.begin(), f.data.end(), lasting) || std::any_of(f.parity.begin(), f.parity.end(), lasting) ||
          !f.metadata.empty() || f.extra_bytes != 0) {
        return false;
      }
    }
  }
  return true;
}

Result<Findings> Examine(const Context& context, DatasetView& view, bool from_disk) {
  return Examiner(context, view, from_disk).Run();
}

DamageCause CauseOf(const FileView& file, BlockFault fault, std::uint64_t offset) {
  if (fault == BlockFault::kUnreadable) return DamageCause::kUnreadable;
  if (!file.present) return DamageCause::kMissing;
  const bool named = file.intent && InIntent(*file.intent, offset);
  const bool repairing = named && (file.intent->flags & kIntentRepair) != 0;
  if (named && !repairing) return DamageCause::kAtRisk;
  if (!repairing && (file.stat.mtime_ns != file.stamp.mtime_ns || Racy(file))) return DamageCause::kStale;
  return fault == BlockFault::kMissing ? DamageCause::kMissing : DamageCause::kHash;
}

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
          if (parity && (at.row.unit_row >= layout.unit_rows(at.row.group) || layout.RowLength(at.row) == 0)) continue;
          LostBlock block{at.row.group, at.row.unit_row, at.row.slice, at.device, parity, DamageCause::kHash};
          if (!parity) {
            block.cause = CauseOf(file, bad.fault, i * layout.block_size());
          } else if (bad.fault == BlockFault::kUnreadable) {
            block.cause = DamageCause::kUnreadable;
          } else if (bad.fault == BlockFault::kMissing) {
            block.cause = DamageCause::kMissing;
          } else {
            block.cause = DamageCause::kHash;
          }
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
    return file.intent && (file.intent->flags & kIntentRepair) == 0;
  });
  for (LostBlock& block : lost) {
    if (broken_off && block.parity && block.cause == DamageCause::kHash) block.cause = DamageCause::kAtRisk;
  }
  // Parity of a row with edited data is out of date, whatever else is wrong with it: the next commit makes it again.
  ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
    std::optional<DamageCause> edited;
    for (std::size_t i = begin; i < end; ++i) {
      if (lost[i].cause == DamageCause::kStale || lost[i].cause == DamageCause::kAtRisk) edited = lost[i].cause;
    }
    for (std::size_t i = begin; i < end && edited; ++i) {
      if (lost[i].parity) lost[i].cause = *edited;
    }
  });
  return lost;
}

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

void DescribeMetadata(const DatasetView& view, DatasetReport& report) {
  const Superblock& sb = view.superblock;
  for (const FileView& file : view.extras) {
    if (!file.present) continue;
    const bool leftover = file.fault == SidecarFault::kForeign || file.fault == SidecarFault::kOutdated;
    report.warnings.push_back(fmt::format("{}: {}", file.path,
                                          leftover ? "is left over from an older set and not part of this one; it was not looked at"
                                                   : "matches the set's pattern but is not protected; lzy-protect makes it a member"));
  }
  report.path = view.ref.path;
  report.kind = view.ref.kind;
  report.warnings.insert(report.warnings.end(), view.warnings.begin(), view.warnings.end());
  report.bytes = view.data_bytes();
  for (const Ensemble& ensemble : view.ensembles) {
    for (const FileView& file : ensemble.files) report.sidecar_bytes += file.sidecar_bytes;
  }
  if (!view.committed) {
    report.state = DatasetState::kUnprotected;
    for (const Ensemble& ensemble : view.ensembles) {
      for (const FileView& file : ensemble.files) {
        if (file.intent) report.state = DatasetState::kAtRisk;
      }
    }
    return;
  }
  report.devices = sb.members;
  report.parity = sb.parity;
  report.group_size = sb.largest_group;
  report.groups = static_cast<std::uint32_t>(view.ref.kind == DatasetKind::kShared ? view.info.groups.size()
                                                                                   : view.ensembles.size());
  report.block_size = sb.block_size;
  report.unit = sb.unit;
  report.generation = sb.generation;
  report.commit_time_ns = sb.wall_time_ns;
  report.root = sb.dataset_root;
}

void Describe(const DatasetView& view, const Findings& findings, DatasetReport& report) {
  DescribeMetadata(view, report);
  report.bytes_read += findings.bytes_read;
  report.phases.read += findings.seconds;
  bool damaged = false, beyond = false, stale = false, at_risk = false;
  for (std::size_t e = 0; e < view.ensembles.size(); ++e) {
    const Ensemble& ensemble = view.ensembles[e];
    const Layout& layout = *ensemble.layout;
    const auto& files = findings.files[e];
    const std::vector<LostBlock> lost = LostBlocks(ensemble, files);
    ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
      const bool too_many = end - begin > layout.parity();
      for (std::size_t i = begin; i < end; ++i) {
        const LostBlock& block = lost[i];
        const FileView& file =
            ensemble.files[block.parity ? layout.region_of(block.device) : layout.file_of(block.device)];
        Damage d;
        d.device = view.ref.kind == DatasetKind::kSet ? ensemble.files[block.device].rank : block.device;
        d.part = block.parity ? DamagePart::kParity : DamagePart::kData;
        const BlockPlace place = block.parity ? layout.ParityBlock(block.device, block.unit_row, block.slice)
                                              : layout.DataBlock(block.device, block.unit_row, block.slice);
        d.path = block.parity ? file.sidecar_path : file.path;
        d.offset = place.offset;
        if (block.parity) d.offset += file.parity_base;
        d.length = place.length;
        d.cause = block.cause;
        const bool edited = block.cause == DamageCause::kStale || block.cause == DamageCause::kAtRisk;
        // Parity can always be made again from whole data; and an edited block is beyond repair only if it should be
        // taken back.
        d.beyond_repair = too_many && !edited;
        (block.cause == DamageCause::kStale ? stale : block.cause == DamageCause::kAtRisk ? at_risk : damaged) = true;
        beyond = beyond || d.beyond_repair;
        report.damage.push_back(std::move(d));
      }
    });
    for (std::uint32_t f = 0; f < files.size(); ++f) {
      const FileView& file = ensemble.files[f];
      const std::uint32_t device = view.ref.kind == DatasetKind::kSet ? file.rank : 0;
      auto add_transient = [&](const std::vector<BadBlocks>& list, DamagePart part, const BlockStream& stream) {
        for (const BadBlocks& bad : list) {
          for (std::uint64_t i = bad.first; bad.transient && i < bad.first + bad.count; ++i) {
            const BlockPlace place = stream.place(i);
            report.damage.push_back({part == DamagePart::kData ? file.path : file.sidecar_path,
                                     device,
                                     part,
                                     stream.base + place.offset,
                                     place.length,
                                     DamageCause::kHash,
                                     true,
                                     true,
                                     false,
                                     {}});
          }
        }
      };
      add_transient(files[f].data, DamagePart::kData, DataStream(layout, f, nullptr, nullptr));
      add_transient(files[f].parity, DamagePart::kParity, ParityStream(layout, f, nullptr, file.parity_base, nullptr));
      if (!file.present && layout.data_blocks(f) == 0) {
        // An empty member has no blocks to miss, but it is missing.
        report.damage.push_back(
            {file.path, device, DamagePart::kData, 0, 0, DamageCause::kMissing, false, false, false, {}});
        damaged = true;
      }
      if (files[f].extra_bytes != 0) {
        const DamageCause cause = CauseOf(file, BlockFault::kHash, file.stamp.size);
        report.damage.push_back({file.path,
                                 device,
                                 DamagePart::kData,
                                 file.stamp.size,
                                 files[f].extra_bytes,
                                 cause,
                                 false,
                                 false,
                                 false,
                                 {}});
        (cause == DamageCause::kStale ? stale : cause == DamageCause::kAtRisk ? at_risk : damaged) = true;
      }
      for (const MetadataDamage& m : files[f].metadata) {
        const DamageCause cause = m.what == "sidecar" ? DamageCause::kMissing : DamageCause::kHash;
        report.damage.push_back(
            {file.sidecar_path, device, DamagePart::kMetadata, m.offset, m.length, cause, false, false, false, {}});
        damaged = true;
      }
    }
  }
  if (!view.unknown_ranks.empty()) {
    beyond = true;
    for (std::uint32_t rank : view.unknown_ranks) {
      report.damage.push_back({ExpandPattern(view.ref.path, rank),
                               rank,
                               DamagePart::kData,
                               0,
                               0,
                               DamageCause::kMissing,
                               false,
                               false,
                               true,
                               {}});
    }
  }
  MergeDamage(report.damage);
  report.state = beyond    ? DatasetState::kUnrepairable
                 : damaged ? DatasetState::kDamaged
                 : at_risk ? DatasetState::kAtRisk
                 : stale   ? DatasetState::kStale
                           : DatasetState::kIntact;
}

}  // namespace lzy
