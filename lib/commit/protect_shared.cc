// Protecting a shared file. Rows are dealt to the ranks in contiguous spans. Each rank reads, hashes, encodes and
// writes its own. Only leaves travel, to rank 0, which commits.
//
// There are two ways. An incremental commit writes parity of touched rows in place and the metadata into the sidecar
// that is there; the intent covers a crash. Any other commit builds a new sidecar aside and renames it.

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/node.h"
#include "comm/records.h"
#include "commit/protector.h"
#include "dataset/access.h"
#include "dataset/by_servers.h"
#include "dataset/parts.h"
#include "dataset/seen_late.h"
#include "encode/encode_captured.h"
#include "names/lookup.h"
#include "names/set_names.h"
#include "sidecar/names.h"
#include "storage/stripes.h"

namespace lzy {
namespace {

// Bytes of a file that lzy-protect syncs before it reads it, so that the file system knows its holes.
constexpr std::uint64_t kWorthSyncing = 64u << 20;

// Parity of all ranks together that one of them writes, if they are on several nodes. Some file systems give a part of a file to one
// node at a time (chunks of MooseFS, of which the second node gets hold after half a minute; locks of GlusterFS, a second).
constexpr std::uint64_t kMostGathered = 4u << 20;

// What would be written to a file, kept in memory.
class KeptWrites final : public ReadOnlyFile {
 public:
  using Pieces = std::vector<std::pair<std::uint64_t, std::vector<std::uint8_t>>>;  // offset, bytes
  using ReadOnlyFile::ReadOnlyFile;
  Status WriteAt(std::uint64_t offset, ByteSpan from) override {
    const std::lock_guard lock(mutex_);
    pieces_.emplace_back(offset, std::vector<std::uint8_t>(from.begin(), from.end()));
    return Status::Ok();
  }
  Status Sync() override { return Status::Ok(); }
  Pieces Take() { return std::move(pieces_); }

 private:
  std::mutex mutex_;
  Pieces pieces_;
};

// One call of Protect() for a shared file. Agreed are layout_, uuid_, incremental_ and rot_. Rank 0 alone has fresh_,
// and part_paths_ of a new encoding.
class SharedFile : public Protector {
 public:
  using Protector::Protector;

 protected:
  Status Protect() override {
    FileView& file = view_.ensembles[0].files[0];
    if (request_.touched) {
      LZY_RETURN_IF_ERROR(TakeRequestedRanges());
      if (HasOtherWriter(file)) touched_[0].AddWhole();
    }
    options_ = EffectiveOptions();
    LZY_RETURN_IF_ERROR(ShareDirectories());
    LZY_RETURN_IF_ERROR(ChooseServers(file));
    if (!file.present && (request_.touched || !view_.committed)) {
      return {Code::kNotFound, fmt::format("{}: no such file", ref_.path)};
    }
    if (!request_.touched && view_.committed) {
      LZY_ASSIGN_OR_RETURN(const bool done, JudgeExisting(options_));
      if (done) return Status::Ok();
    } else if (!request_.touched) {
      const FileView* const one[] = {&file};
      LZY_ASSIGN_OR_RETURN(const bool refused, JudgeFormer(one));
      if (refused) return Status::Ok();
    }
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      if (file.data == nullptr) return {Code::kNotFound, fmt::format("{}: no such file", ref_.path)};
      job_.data = file.data.get();
      return Status::Ok();
    }));
    if (caches_.several) LZY_RETURN_IF_ERROR(SeeAlike(context_.fs, comm_, *job_.data));
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      // The layer syncs before it commits. Of a large file, holes are worth not reading. A failure is told once only.
      job_.synced = request_.touched.has_value() || file.stat.size >= kWorthSyncing;
      if (!request_.touched && job_.synced) LZY_RETURN_IF_ERROR(job_.data->Sync());
      return comm_.rank() == 0 ? Settle(file, job_) : Status::Ok();
    }));
    // The file as rank 0 saw it when reading began. Layout and stamp follow from this on all ranks.
    auto seen = std::tie(job_.before, job_.clock_ns);
    LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, seen));
    CheckJudged(file, job_.before);
    LZY_ASSIGN_OR_RETURN(uuid_, ChooseUuid());
    const FileView* const one[] = {&file};
    const std::span<const FileView* const> mine(one, comm_.rank() == 0 ? 1 : 0);
    LZY_ASSIGN_OR_RETURN(const std::uint32_t block_size, AgreeOnBlockSize(options_, job_.before.size, mine));
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      LZY_ASSIGN_OR_RETURN(real_path_, context_.fs.RealPath(ref_.path));
      owns_parts_ = file.sidecar && OwnsParts(context_.fs, real_path_, file.sidecar->contents());
      Options chosen = options_;
      chosen.block_size = block_size;
      LZY_ASSIGN_OR_RETURN(layout_, Layout::Create(SharedGeometry(chosen, job_.before.size), {job_.before.size}));
      plans_.emplace(*layout_);
      MakeShape();
      return Status::Ok();
    }));
    LZY_RETURN_IF_ERROR(ChooseWay(file));
    Status status = OpenOutput(file);
    if (status.ok()) status = Encode();
    if (status.ok()) status = HandleRot();
    if (status.ok()) status = AgreeOn(comm_, [&] { return Commit(file); });
    if (!status.ok()) RemoveFresh();
    LZY_RETURN_IF_ERROR(status);
    return ShareResult();
  }

 private:
  // Option device-dirs as rank 0 has it: those that an existing dataset has, unless others are given.
  Status ShareDirectories() {
    const bool recorded = options_.device_dirs == view_.info.parts.directories;
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      if (comm_.rank() != 0 || recorded || !parted()) return Status::Ok();
      LZY_ASSIGN_OR_RETURN(options_.device_dirs, ResolveDirectories(context_.fs, options_, options_.parity));
      return Status::Ok();
    }));
    return BroadcastRecord(comm_, options_.device_dirs);
  }
  bool parted() const { return !options_.device_dirs.empty(); }
  // Whether rank 0 writes all of the parity. Then no other node need see the new sidecar either. Agreed.
  bool gathers() const {
    return caches_.several && !parted() && layout_->parity_size(0) <= std::min(kMostGathered, context_.options.memory / 64);
  }

  // What option stripe=servers comes to, as rank 0's file system tells it.
  Status ChooseServers(const FileView& file) {
    by_servers_ = context_.options.stripe_servers && !KeepsGeometry();
    if (!by_servers_) return Status::Ok();
    ServersChoice choice{options_.by_servers, options_.stripe, {}, {}};
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      if (comm_.rank() == 0 && file.data) choice = ChooseByServers(context_.fs, *file.data, options_, file.stat.size);
    }));
    LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, choice));
    stripes_ = std::move(choice.stripes);
    options_.by_servers = std::move(choice.geometry);
    options_.stripe = choice.stripe;
    if (choice.why_not.empty()) return Status::Ok();
    report_.warnings.push_back(fmt::format("{}: stripe=servers changes nothing: {}", ref_.path, choice.why_not));
    return Status::Ok();
  }

  // Where the new sidecar has come to lie, nobody could choose.
  void WarnOfServers() {
    if (!by_servers_ || !options_.by_servers) return;
    std::vector<FileView> files(1);
    files[0].stripes.data = stripes_;
    const auto sidecar = StripesOf(context_.fs, fresh_->file());
    files[0].stripes.sidecar = sidecar.ok() ? *sidecar : std::nullopt;
    files[0].parity_base = job_.parity_base;
    const ServerLoss worst = WorstServer(*layout_, ServersOf(*layout_, files));
    if (WarnOfServer(ref_.path, worst, layout_->parity(), /*by_servers=*/true, /*could_be=*/false, report_.warnings)) return;
    WarnOfCopies(ref_.path, ServerOfAllCopies(files[0].stripes, fresh_->contents().superblock), report_.warnings);
  }

  // A dataset keeps its uuid as long as its sidecar can be read.
  Result<Uuid> ChooseUuid() {
    const bool usable = view_.ensembles[0].files[0].sidecar_usable();
    if (usable && view_.superblock.kind == DatasetKind::kShared) return view_.superblock.uuid;
    return CommonUuid();  // ruined, or that of a member of a set before: no longer
  }

  // Contents of the new sidecar as far as known before encoding; trees have their size already.
  void MakeShape() {
    FillShape(context_.fs, options_, ref_.kind, *layout_, 0, job_, contents_);
    FillSharedShape(*layout_, BaseNameOf(FollowLink(context_.fs, ref_.path)), job_, contents_);
    contents_.superblock.uuid = uuid_;
    contents_.superblock.generation = view_.superblock.generation + 1;
    if (parted() && options_.device_dirs == view_.info.parts.directories) {
      contents_.info.parts = view_.info.parts;
      contents_.info.parts.home = real_path_;
    }
  }

  // Only the touched rows, in place, if what is there can serve as the rest; otherwise everything, in a new file.
  Status ChooseWay(const FileView& file) {
    if (!holds_) touched_[0].AddWhole();
    IntervalSet& touched = touched_[0];
    // Also where it is the sidecar of a member of a set, which the file is no more: what it says of the blocks holds.
    const bool trusted = file.sidecar && file.sidecar->committed() && holds_ && !touched.whole();
    const bool in_place = trusted && view_.committed && (request_.touched || (only_access_ && HasOwnerOfFile(file))) && file.sidecar->knows_all_leaves() &&
                          file.sidecar->Fits(contents_) && OpenInPlace(file);
    LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles, comm_.AllReduceMax(in_place ? 0 : 1));
    incremental_ = obstacles == 0;
    if (trusted) AddResize(touched, file.stamp.size, job_.before.size, layout_->block_size());
    if (trusted && view_.superblock.block_size == layout_->block_size()) HoldToLeaves(*file.sidecar, touched, job_);
    if (incremental_) job_.old_parity = &file.sidecar->contents().parity_tree;
    return Status::Ok();
  }

  // Where parity is in parts, some may be lost: then all of it is made anew.
  bool OpenInPlace(const FileView& file) {
    if (!parted()) return true;
    if (!owns_parts_) return false;
    auto parts = OpenParts(context_.fs, *file.sidecar, file.part_paths, /*write=*/true);
    if (parts.ok()) parity_file_ = std::move(parts).value();
    return parts.ok();
  }

  // Rank 0 makes a new sidecar's file; everybody opens what parity goes to. Handles of their own, so ranks write at the
  // same time without MPI.
  Status OpenOutput(FileView& file) {
    if (incremental_) {
      out_path_ = file.sidecar_path;
      part_paths_ = file.part_paths;
      job_.parity_base = file.parity_base;
    } else {
      job_.parity_is_fresh = true;
      LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return CreateOutput(file); }));
      LZY_ASSIGN_OR_RETURN(job_.parity_base, comm_.AllReduceMax(job_.parity_base));
      if (parted()) return OpenFreshParts();
    }
    FileStat theirs;
    if (caches_.several) LZY_RETURN_IF_ERROR(ShareOutput(incremental_ ? file.sidecar.get() : fresh_.get(), theirs));
    return AgreeOn(comm_, [&]() -> Status {
      const bool open_already = fresh_ != nullptr || parted();  // rank 0 has just created the new sidecar
      if (!open_already && gathers() && comm_.rank() != 0) {
        parity_file_ = std::make_unique<KeptWrites>(out_path_);
      } else if (!open_already && caches_.several) {
        LZY_ASSIGN_OR_RETURN(const FileStat data, job_.data->StatAtOpening());
        const bool by_inode = data.inode == file.stat.inode;  // what rank 0 saw
        LZY_ASSIGN_OR_RETURN(parity_file_, OpenSame(context_.fs, out_path_, theirs, by_inode, OpenMode::kReadWrite));
      } else if (!open_already) {
        LZY_ASSIGN_OR_RETURN(parity_file_, context_.fs.Open(out_path_, OpenMode::kReadWrite, /*follow=*/false));
      }
      job_.parity_out = fresh_ ? &fresh_->file() : parity_file_.get();
      return Status::Ok();
    });
  }

  // What rank 0 is about to write to. By name alone, a rank on another node might write its parity to the sidecar that had this
  // name before.
  Status ShareOutput(Sidecar* out, FileStat& theirs) {
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      if (comm_.rank() != 0) return Status::Ok();
      LZY_ASSIGN_OR_RETURN(theirs, out->file().Stat());
      return Status::Ok();
    }));
    return BroadcastRecord(comm_, theirs);
  }

  // The sidecar and its parts have their final size from the start, so all ranks can write at their places.
  Status CreateOutput(FileView& file) {
    LZY_ASSIGN_OR_RETURN(out_path_, FreshPath(ref_.path));
    if (comm_.rank() != 0) return Status::Ok();
    if (parted()) NameParts(file);
    LZY_ASSIGN_OR_RETURN(fresh_, Sidecar::Create(context_.fs, out_path_, contents_, *file.data));
    if (parted()) return CreateParts(context_.fs, contents_, *fresh_, part_paths_);
    job_.parity_base = fresh_->ParityFileOffset(0);
    if (layout_->parity_size(0) == 0) return Status::Ok();
    return fresh_->file().Truncate(job_.parity_base + layout_->parity_size(0));
  }

  // Those of another encoding stay as they are until this one counts.
  void NameParts(const FileView& file) {
    Parts& parts = contents_.info.parts;
    parts.id = DrawRandom<std::uint64_t>();
    parts.name = PartName(real_path_, parts.id);
    parts.home = real_path_;
    parts.directories = options_.device_dirs;
    if (parts.directories == view_.info.parts.directories) {  // or where those are now
      for (std::size_t d = 0; d < file.part_paths.size(); ++d) parts.directories[d] = DirectoryOf(file.part_paths[d]);
    }
    part_paths_ = PartPaths(context_.fs, parts, {});
  }

  // Every rank opens all parts: the rows of a rank have parity in each of them.
  Status OpenFreshParts() {
    std::pair<std::uint64_t, std::vector<std::string>> made;  // where parity begins in a part, and the parts
    if (comm_.rank() == 0) made = {fresh_->ParityFileOffset(0), part_paths_};
    LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, made));
    return AgreeOn(comm_, [&]() -> Status {
      std::vector<std::unique_ptr<File>> files;
      for (const std::string& path : made.second) {
        const Status seen = LookAgain(context_.fs, DirectoryOf(path), [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto file, context_.fs.Open(path, OpenMode::kReadWrite, /*follow=*/false));
          files.push_back(std::move(file));
          return Status::Ok();
        });
        if (seen.code() == Code::kNotFound) {
          return {Code::kIo, fmt::format("{}: rank 0 has just made it, and rank {} does not see it: all ranks must see all device "
                                         "directories", path, comm_.rank())};
        }
        LZY_RETURN_IF_ERROR(seen);
      }
      parity_file_ = std::make_unique<PartedFile>(out_path_, std::move(files), made.first, layout_->unit());
      job_.parity_out = parity_file_.get();
      return Status::Ok();
    });
  }

  // After a failure. The old encoding, and its parts, are still what counts.
  void RemoveFresh() {
    RemoveKept();
    if (!fresh_) return;
    // Where it has its final name by now, it may count.
    if (context_.fs.Remove(fresh_->path()).ok()) RemoveParts(context_.fs, part_paths_);
  }

  // Data are synced before the hashes are committed: a commit must not vouch for what a loss of power could undo.
  Status Encode() {
    LZY_ASSIGN_OR_RETURN(const bool captured, UseCapture());
    Coverage coverage;
    if (captured) {
      LZY_ASSIGN_OR_RETURN(coverage, ShareCoverage(comm_, *request_.capture));
    }
    if (!incremental_) pass_.Expect(job_.before.size / static_cast<std::uint64_t>(comm_.size()));
    LZY_RETURN_IF_ERROR(InStretches(*layout_, [&](Interval stretch) { return EncodeStretch(stretch, captured, coverage); }));
    if (captured) KeepUnfinished(*layout_, coverage, *request_.capture);
    if (gathers()) LZY_RETURN_IF_ERROR(GatherParity());
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      Stopwatch watch;
      LZY_RETURN_IF_ERROR(job_.data->Sync());
      LZY_RETURN_IF_ERROR(job_.parity_out->Sync());
      watch.AddTo(report_.phases.sync);
      return CheckQuiet(0, job_);
    }));
    Stopwatch watch;
    const std::uint64_t blocks = job_.data_leaves.blocks() + job_.parity_leaves.blocks();
    const Status gathered = GatherLeaves(comm_, 0, blocks, job_.data_leaves, job_.parity_leaves);
    watch.AddTo(report_.phases.exchange);
    return Agree(comm_, gathered);
  }

  Status GatherParity() {
    KeptWrites::Pieces mine;
    if (comm_.rank() != 0) mine = static_cast<KeptWrites&>(*parity_file_).Take();
    LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm_, mine));
    return AgreeOn(comm_, [&]() -> Status {
      if (comm_.rank() != 0) return Status::Ok();
      for (const KeptWrites::Pieces& pieces : all) {
        for (const auto& [offset, bytes] : pieces) LZY_RETURN_IF_ERROR(job_.parity_out->WriteAt(offset, bytes));
      }
      return Status::Ok();
    });
  }

  Status EncodeStretch(Interval stretch, bool captured, const Coverage& coverage) {
    SortedRows rows;
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      LZY_ASSIGN_OR_RETURN(rows.reread, RowsToEncode(*layout_, *plans_, {&touched_[0]}, !incremental_, stretch));
      if (captured) {
        CloseOpen(*layout_, rows.reread, coverage, comm_.rank(), *request_.capture);
        rows = SortRows(*layout_, rows.reread, coverage, comm_, context_.options.memory);
        LZY_RETURN_IF_ERROR(pass_.ReadInto(*request_.capture, job_, layout_->block_size(), rows.gaps));
      }
      return EncodeAlone(ShareOf(rows.reread, comm_));
    }));
    if (!captured) return Status::Ok();
    return EncodeCaptured(context_, *layout_, *request_.capture, coverage, rows, job_, pass_);
  }

  // Of use only if every rank captured, and what the commit will need.
  Result<bool> UseCapture() {
    if (!request_.touched) return false;  // lzy-protect
    Capture* capture = request_.capture;
    enum : std::uint64_t { kOfUse, kOfAnotherShape, kVoid };
    std::uint64_t mine = kVoid;
    (void)NoThrow([&] {
      const Superblock& now = view_.superblock;
      const bool another = comm_.rank() == 0 && (now.uuid != request_.departs_from ||
                                                 now.generation != request_.departs_from_generation);
      if (capture == nullptr || another || !report_.kept_intents.empty()) return;
      const bool fits = capture->Finish(*layout_);
      // Of a large file this is left to the program (docs/reference/limits.md).
      const bool doubted = fits && capture->IsSmall() && !HasFirstBlock(*capture, job_);
      if (!doubted) mine = fits ? kOfUse : kOfAnotherShape;
    });
    LZY_ASSIGN_OR_RETURN(const std::uint64_t worst, comm_.AllReduceMax(mine));
    report_.captures_count = worst != kVoid;
    if (worst == kOfAnotherShape) {
      // verify-writes compares leaves with the file, of whatever shape. Without memory it does without them: an
      // exception here would leave the other ranks waiting.
      const Status closed = NoThrow([&] { capture->CloseOpen([](std::uint64_t) { return Capture::Fate::kCaptured; }); });
      if (!closed.ok()) capture->MissAll();
    }
    return worst == kOfUse;
  }

  // Rows of a rank, without the others.
  Status EncodeAlone(std::span<const RowRun> runs) {
    auto self = SelfCommunicator();
    return pass_.Run(*layout_, *self, std::vector<int>(layout_->devices(), 0), {&job_}, runs);
  }

  // Rank 0 does it, since it is rare: encodes rows with rotten blocks again, with their right contents where the
  // parity of before still gives them.
  Status HandleRot() {
    std::map<std::uint32_t, FileJob*> jobs{{0, &job_}};
    LZY_ASSIGN_OR_RETURN(rot_, GatherRot(comm_, jobs));
    LZY_RETURN_IF_ERROR(CheckReadings(rot_));
    if (rot_.all.empty()) return Status::Ok();
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      if (comm_.rank() != 0) jobs.clear();
      job_.rotten = rot_.all.at(0);
      const bool can_rebuild = !incremental_ && view_.committed;  // not by what a set has elsewhere
      return comm_.rank() == 0 && can_rebuild ? EncodeRebuilt(rot_) : Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(rot_, GatherRot(comm_, jobs));
    return AgreeOn(comm_, [&] { ForsakeParity(*layout_, rot_.lost, {&job_}); });
  }

  // Rotten blocks are rebuilt in memory by the parity of before, and their rows are encoded from that.
  Status EncodeRebuilt(const Rot& rot) {
    auto self = SelfCommunicator();
    const Ensemble& before = view_.ensembles[0];
    LZY_RETURN_IF_ERROR(RebuildRot(context_, before, *self, std::vector<int>(before.layout->devices(), 0), rot.all, touched_,
                                   {{0, &job_}}));
    job_.parity_is_fresh = false;  // it has been written once
    const IntervalSet blocks = TouchedBlocks(rot.all.at(0), layout_->block_size());
    LZY_ASSIGN_OR_RETURN(const auto runs, RowsToEncode(*layout_, *plans_, {&blocks}, false));
    LZY_RETURN_IF_ERROR(EncodeAlone(runs));
    return job_.parity_out->Sync();
  }

  // The file is looked at once more: what changed while it was read is not committed. The order of the rest depends on
  // the way. In place, the sidecar counts as soon as it is written, so spares follow. A new one counts when it has its
  // name, so everything comes before.
  Status Commit(FileView& file) {
    if (comm_.rank() != 0) return Status::Ok();
    Stopwatch watch;
    LZY_RETURN_IF_ERROR(job_.MakeTrees(*layout_, 0));
    LZY_RETURN_IF_ERROR(job_.CheckUnchanged());
    FillSharedRoots(job_, contents_);
    Sidecar& sidecar = incremental_ ? *file.sidecar : *fresh_;
    LZY_RETURN_IF_ERROR(sidecar.WriteAll(contents_));
    // Of an encoding that is there the spares follow when the commit counts; before, they would be of one that may
    // never.
    if (parted() && !incremental_) LZY_RETURN_IF_ERROR(RenewParts(context_.fs, sidecar, part_paths_));
    if (incremental_) RenewAccess(file, sidecar);
    if (!incremental_) LZY_RETURN_IF_ERROR(KeepOtherIntent(file, sidecar));
    if (!incremental_) {
      if (KeepsOthers()) LZY_RETURN_IF_ERROR(KeepForOthers(ref_.path, LeftSet(file)));
      LZY_RETURN_IF_ERROR(Publish(ref_.path));
      WarnOfServers();
    }
    if (parted() && incremental_) WarnOfSpares(RenewParts(context_.fs, sidecar, part_paths_));
    if (!incremental_ && owns_parts_) RemoveOurs(context_.fs, *file.sidecar, file.part_paths);  // of the encoding before
    report_.sidecar_bytes = sidecar.file_size();
    if (parted()) {
      LZY_ASSIGN_OR_RETURN(const FileStat parts, parity_file_->Stat());
      report_.sidecar_bytes += parts.size;
    }
    watch.AddTo(report_.phases.write);
    return Status::Ok();
  }

  // The set of which the file was a member, if others were renamed here, too, and none has the name any more that it had. Unless it
  // was edited since, nobody needs its sidecar then. If no other is seen here, this file was moved out of its set, whose other members
  // may need the parity that it brought along.
  std::set<Uuid> LeftSet(const FileView& file) const {
    const Sidecar* const former = FormerOf(file);
    if (former == nullptr || former->contents().superblock.kind != DatasetKind::kSet) return {};
    const Superblock& sb = former->contents().superblock;
    Directory around(context_.fs, DirectoryOf(FollowLink(context_.fs, ref_.path)));
    bool seen = false, at_home = false;
    for (const std::string& name : around.Sidecars()) {
      const auto& other = around.PeekAt(name);
      if (!other.ok() || other->uuid != sb.uuid || other->rank == sb.rank) continue;
      const auto data = DataPathOf(around.PathOf(name));
      seen = true;
      at_home = at_home || (data && PatternFromTail(*data, other->name, other->rank) && context_.fs.Stat(*data, /*follow=*/false).ok());
    }
    return !seen || at_home || !HasSizeAndTime(job_.before, sb.stamp) ? std::set<Uuid>() : std::set<Uuid>{sb.uuid};
  }

  void WarnOfSpares(const Status& renewed) {
    if (renewed.ok()) return;
    report_.warnings.push_back(fmt::format("{}: committed, but some spares of its sidecar could not be updated: {}", ref_.path,
                                           renewed.message()));
  }

  // Rank 0 committed; what it knows goes into everybody's report.
  Status ShareResult() {
    Superblock& sb = contents_.superblock;
    auto known = std::tie(sb.dataset_root, sb.wall_time_ns, report_.sidecar_bytes);
    LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, known));
    FillReport(contents_, layout_->group_count(), layout_->file_size(0));
    if (!rot_.all.empty()) ReportRot(view_.ensembles[0].files[0], *layout_, 0, rot_);
    return Status::Ok();
  }

  Options options_;
  FileJob job_;
  Rot rot_;
  Uuid uuid_{};
  std::optional<Layout> layout_;
  std::optional<PlanCache> plans_;
  SidecarContents contents_;
  bool incremental_ = false;
  std::optional<StripeLayout> stripes_;  // of the data, on rank 0
  bool by_servers_ = false;  // the geometry may follow from stripes, if the file system tells them
  std::string out_path_;
  std::string real_path_;
  bool owns_parts_ = false;  // those that there are
  std::vector<std::string> part_paths_;  // rank 0's, where there are device directories
  std::unique_ptr<Sidecar> fresh_;
  std::unique_ptr<File> parity_file_;
};

}  // namespace

std::unique_ptr<Protector> SharedProtector(const Context& context, const DatasetRef& ref, const ProtectRequest& request,
                                           DatasetReport& report) {
  return std::make_unique<SharedFile>(context, ref, request, report);
}

}  // namespace lzy
