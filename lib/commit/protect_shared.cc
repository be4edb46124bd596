// Commits a shared file. Each rank gets a contiguous span of rows; it reads and hashes their data, and writes their parity.
// Only leaves are sent to rank 0, which commits.
//
// An incremental commit writes the parity of touched rows in place, and the metadata into the existing sidecar; the intent
// protects against a crash. Any other commit builds a new sidecar under a temporary name and renames it.

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/many_writers.h"
#include "base/node.h"
#include "base/printable.h"
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
#include "storage/file_stripes.h"

namespace lzy {
namespace {

// lzy-protect syncs files of at least so many bytes before it reads them, so that the file system knows their holes.
constexpr std::uint64_t kWorthSyncing = 64u << 20;

// If ranks run on several nodes, and their parity has at most so many bytes in all, rank 0 writes all of it. Some file
// systems give each part of a file to one node at a time: the second node waits half a minute for a chunk of MooseFS, and a
// second for a lock of GlusterFS.
constexpr std::uint64_t kMostGathered = 4u << 20;

// Keeps written bytes in memory instead of writing them to a file.
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

// One call of Protect() for a shared file. layout_, uuid_, incremental_ and rot_ are the same on all ranks. Only rank 0 has
// fresh_, and part_paths_ of a new encoding.
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
      // The layer syncs before it commits. In a large file, it pays not to read holes. The kernel reports a failed sync
      // only once.
      job_.synced = request_.touched.has_value() || file.stat.size >= kWorthSyncing;
      if (!request_.touched && job_.synced) LZY_RETURN_IF_ERROR(job_.data->Sync());
      return comm_.rank() == 0 ? Settle(file, job_) : Status::Ok();
    }));
    // Rank 0's stat of the file before reading. All ranks take layout and stamp from it.
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
    if (status.ok()) status = HandleDiffering();
    if (status.ok()) status = AgreeOn(comm_, [&] { return Commit(file); });
    if (!status.ok()) RemoveFresh();
    LZY_RETURN_IF_ERROR(status);
    if (request_.force && !request_.touched) {
      LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, kept_warnings_));
      std::ranges::copy(kept_warnings_, std::back_inserter(report_.warnings));
    }
    return ShareResult();
  }

 private:
  // Agrees on the device directories of rank 0: the recorded ones, or those that the options give. Collective.
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
  // True if rank 0 writes all parity. Then no other node needs to see the new sidecar. The same on all ranks.
  bool gathers() const {
    return caches_.several && !parted() && layout_->parity_size(0) <= std::min(kMostGathered, context_.options.memory / 64);
  }

  // Asks rank 0's file system for the stripes, and chooses the geometry for stripe=servers. Collective.
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

  // Warns if servers of the new sidecar's own stripes make a loss worse: lzy cannot choose these servers.
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

  // The dataset keeps its uuid if its sidecar can be read.
  Result<Uuid> ChooseUuid() {
    const bool usable = view_.ensembles[0].files[0].sidecar_usable();
    if (usable && view_.superblock.kind == DatasetKind::kShared) return view_.superblock.uuid;
    return CommonUuid();  // the sidecar is unusable, or belongs to a set
  }

  // Fills in the new sidecar as far as possible before encoding. Trees get their size, but no leaves.
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

  // Decides: encode only the touched rows, in place, or encode all rows into a new sidecar. Collective.
  Status ChooseWay(const FileView& file) {
    if (!holds_) touched_[0].AddWhole();
    IntervalSet& touched = touched_[0];
    // A sidecar of a set to which the file belonged before still has the leaves of its blocks.
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

  // If a part is lost, all parity must be made again. So it must if another name leads to a part: the sidecar of a snapshot may need
  // it as it is.
  bool OpenInPlace(const FileView& file) {
    if (!parted()) return true;
    if (!owns_parts_) return false;
    auto parts = OpenParts(context_.fs, *file.sidecar, file.part_paths, /*write=*/true);
    if (!parts.ok()) return false;
    for (std::size_t d = 0; d < file.part_paths.size(); ++d) {
      File* const part = (*parts)->part(d);
      const auto stat = part != nullptr ? part->Stat() : Result<FileStat>(Code::kNotFound, file.part_paths[d]);
      if (!stat.ok() || stat->links > 1) return false;
    }
    parity_file_ = std::move(parts).value();
    return true;
  }

  // Rank 0 creates the file of a new sidecar. Every rank opens the file for parity itself, so ranks can write at the same
  // time without MPI.
  Status OpenOutput(FileView& file) {
    if (incremental_) {
      LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return comm_.rank() == 0 ? file.sidecar->Separate() : Status::Ok(); }));
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
      const bool open_already = fresh_ != nullptr || parted();  // rank 0 created the new sidecar, so it is open
      if (!open_already && gathers() && comm_.rank() != 0) {
        parity_file_ = std::make_unique<KeptWrites>(out_path_);
      } else if (!open_already && caches_.several) {
        LZY_ASSIGN_OR_RETURN(const FileStat data, job_.data->StatAtOpening());
        const bool by_inode = data.inode == file.stat.inode;  // inode as rank 0 saw it
        LZY_ASSIGN_OR_RETURN(parity_file_, OpenSame(context_.fs, out_path_, theirs, by_inode, OpenMode::kReadWrite));
      } else if (!open_already) {
        LZY_ASSIGN_OR_RETURN(parity_file_, context_.fs.Open(out_path_, OpenMode::kReadWrite, /*follow=*/false));
      }
      job_.parity_out = fresh_ ? &fresh_->file() : parity_file_.get();
      ExpectAllRanks(*job_.parity_out, 1);
      return Status::Ok();
    });
  }

  // All ranks write to `files` new files like this one.
  void ExpectAllRanks(File& file, std::size_t files) {
    if (!incremental_) ExpectWritersOfRanks(file, ThreadsFor(context_), comm_.size(), files);
  }

  // Sends the stat of rank 0's output file to all ranks. By name alone, a rank on another node might open the sidecar that
  // had this name before.
  Status ShareOutput(Sidecar* out, FileStat& theirs) {
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      if (comm_.rank() != 0) return Status::Ok();
      LZY_ASSIGN_OR_RETURN(theirs, out->file().Stat());
      return Status::Ok();
    }));
    return BroadcastRecord(comm_, theirs);
  }

  // The sidecar and its parts get their final size at once, so ranks can write at any place.
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

  // Chooses names for new parts. The parts of the old encoding stay until the new encoding counts.
  void NameParts(const FileView& file) {
    Parts& parts = contents_.info.parts;
    parts.id = DrawRandom<std::uint64_t>();
    parts.name = PartName(real_path_, parts.id);
    parts.home = real_path_;
    parts.directories = options_.device_dirs;
    if (parts.directories == view_.info.parts.directories) {  // use the directories in which the old parts were found
      for (std::size_t d = 0; d < file.part_paths.size(); ++d) parts.directories[d] = DirectoryOf(file.part_paths[d]);
    }
    part_paths_ = PartPaths(context_.fs, parts, {});
  }

  // Every rank opens all parts, because its rows have parity in each of them.
  Status OpenFreshParts() {
    std::pair<std::uint64_t, std::vector<std::string>> made;  // offset of the parity in a part; paths of the parts
    if (comm_.rank() == 0) made = {fresh_->ParityFileOffset(0), part_paths_};
    LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, made));
    return AgreeOn(comm_, [&]() -> Status {
      std::vector<std::unique_ptr<File>> files;
      for (const std::string& path : made.second) {
        const Status seen = LookAgain(context_.fs, DirectoryOf(path), [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto file, context_.fs.Open(path, OpenMode::kReadWrite, /*follow=*/false));
          ExpectAllRanks(*file, made.second.size());
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

  // Call it after a failure. The old encoding and its parts still count.
  void RemoveFresh() {
    RemoveKept();
    if (!fresh_) return;
    // If the new sidecar has its final name already, it may count.
    if (context_.fs.Remove(fresh_->path()).ok()) RemoveParts(context_.fs, part_paths_);
  }

  // Encodes the rows, syncs data and parity, and gathers the leaves. The data are synced before the hashes are committed,
  // because a power loss may drop unsynced data.
  Status Encode() {
    LZY_ASSIGN_OR_RETURN(const bool captured, UseCapture());
    Coverage coverage;
    if (captured) {
      LZY_ASSIGN_OR_RETURN(coverage, ShareCoverage(comm_, *request_.capture));
      if (coverage.has_parts) LZY_RETURN_IF_ERROR(TakeParts(coverage));
    }
    KeepDiffering();
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

  // True if every rank has a capture, and the captures fit the layout. Collective.
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
      if (IsEdited()) return;
      const bool fits = capture->Finish(*layout_);
      // In a large file, lzy does not check this (docs/reference/limits.md).
      const bool doubted = fits && capture->IsSmall() && !HasFirstBlock(*capture, job_);
      if (!doubted) mine = fits ? kOfUse : kOfAnotherShape;
    });
    LZY_ASSIGN_OR_RETURN(const std::uint64_t worst, comm_.AllReduceMax(mine));
    report_.captures_count = worst != kVoid;
    if (worst == kOfAnotherShape) {
      // The open blocks of a small file are all that was written to it.
      LZY_RETURN_IF_ERROR(TakeParts({}));
      // verify-writes compares leaves with the file, whatever the geometry is. If memory runs out, it does without them. An
      // exception here would leave the other ranks waiting.
      const Status closed = NoThrow([&] { capture->CloseOpen([](std::uint64_t) { return Capture::Fate::kCaptured; }); });
      if (!closed.ok()) capture->MissAll();
    }
    return worst == kOfUse;
  }

  // Prepares for the comparison of blocks that are read with what ranks know of them. A later mtime means that something else
  // has written: then its bytes may be there instead. Collective.
  Status TakeParts(const Coverage& coverage) {
    if (job_.before.mtime_ns > request_.written_until_ns) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(parts_, ShareParts(comm_, *layout_, context_.options.key.get(), *request_.capture, coverage));
    job_.written = &parts_;
    return Status::Ok();
  }

  // Blocks that differed in an earlier commit, and were not written again as a whole, are not compared with their leaves.
  void KeepDiffering() {
    const IntervalSet& touched = touched_[0];
    const std::uint64_t block = layout_->block_size();
    if (request_.doubts == nullptr) return;
    for (const Interval& bytes : request_.doubts->blocks) {
      for (std::uint64_t i = bytes.begin / block; i < std::min(layout_->data_blocks(0), (bytes.end + block - 1) / block); ++i) {
        const Interval whole{i * block, std::min((i + 1) * block, layout_->file_size(0))};
        if (!touched.whole() && Without({whole}, touched.intervals()).empty()) continue;
        differing_.insert(i);
        job_.unknown.insert(i);
      }
    }
  }

  // Encodes rows of this rank without the other ranks.
  Status EncodeAlone(std::span<const RowRun> runs) {
    auto self = SelfCommunicator();
    return pass_.Run(*layout_, *self, std::vector<int>(layout_->devices(), 0), {&job_}, runs);
  }

  // Rank 0 rebuilds rotten blocks with the old parity where possible, and encodes their rows again. Rot is rare, so the
  // work is not distributed.
  Status HandleRot() {
    std::map<std::uint32_t, FileJob*> jobs{{0, &job_}};
    LZY_ASSIGN_OR_RETURN(rot_, GatherRot(comm_, jobs));
    LZY_RETURN_IF_ERROR(CheckReadings(rot_));
    if (rot_.all.empty()) return Status::Ok();
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      if (comm_.rank() != 0) jobs.clear();
      job_.rotten = rot_.all.at(0);
      const bool can_rebuild = !incremental_ && view_.committed;  // the parity of a former set cannot be used here
      return comm_.rank() == 0 && can_rebuild ? EncodeRebuilt(rot_) : Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(rot_, GatherRot(comm_, jobs));
    return AgreeOn(comm_, [&] { ForsakeParity(*layout_, rot_.lost, {&job_}); });
  }

  // Rebuilds rotten blocks in memory with the old parity, and encodes their rows from the rebuilt blocks.
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

  // Blocks that are not what ranks wrote must never look intact. So they get a leaf that no content has, their rows get no
  // parity, and an intent says that they are at risk (Doubt). Collective.
  Status HandleDiffering() {
    if (!parts_.empty()) {
      LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(comm_, std::vector(job_.differing.begin(), job_.differing.end())));
      differing_.insert(all.begin(), all.end());
    }
    if (differing_.empty()) return Status::Ok();
    return AgreeOn(comm_, [&] {
      for (const std::uint64_t i : differing_) job_.data_leaves.Set(i, LeafHash(job_.key, HashTag::kDataLeaf, i, {}));
      ForsakeParity(*layout_, {{0, differing_}}, {&job_});
      doubts_.blocks = TouchedBlocks(differing_, layout_->block_size()).intervals();
      for (const Interval& one : doubts_.blocks) doubts_.bytes += std::min(one.end, layout_->file_size(0)) - one.begin;
    });
  }

  // Sets the intent that keeps differing blocks at risk. In a commit in place, it comes after the generation for which it
  // holds. If a crash comes between, the blocks look damaged, but not intact. The intent of another writer covers all.
  Status Doubt(Sidecar& sidecar) {
    if (differing_.empty() || !report_.kept_intents.empty()) return Status::Ok();
    std::vector<ByteRange> ranges;
    for (const Interval& one : doubts_.blocks) ranges.push_back({one.begin, one.end - one.begin});
    doubts_.intent = NewIntent(0, ranges);
    return sidecar.SetIntent(*doubts_.intent);
  }

  // Checks once more that the file did not change while it was read. In place, the commit counts as soon as the sidecar is
  // written, so the spares are renewed after that. A new sidecar counts when it has its final name, so everything else
  // comes before.
  Status Commit(FileView& file) {
    if (comm_.rank() != 0) return Status::Ok();
    Stopwatch watch;
    LZY_RETURN_IF_ERROR(job_.MakeTrees(*layout_, 0));
    LZY_RETURN_IF_ERROR(job_.CheckUnchanged());
    FillSharedRoots(job_, contents_);
    Sidecar& sidecar = incremental_ ? *file.sidecar : *fresh_;
    LZY_RETURN_IF_ERROR(sidecar.WriteAll(contents_));
    // The new parts are not used before the rename, so their spares can be written now.
    if (parted() && !incremental_) LZY_RETURN_IF_ERROR(RenewParts(context_.fs, sidecar, part_paths_));
    if (incremental_) RenewAccess(file, sidecar);
    if (!incremental_) LZY_RETURN_IF_ERROR(KeepOtherIntent(file, sidecar));
    LZY_RETURN_IF_ERROR(Doubt(sidecar));
    if (!incremental_) {
      if (KeepsOthers()) LZY_RETURN_IF_ERROR(KeepForOthers(ref_.path, LeftSet(file)));
      if (request_.force && !request_.touched) LZY_RETURN_IF_ERROR(KeepForRotten(ref_.path));
      LZY_RETURN_IF_ERROR(Publish(ref_.path));
      WarnOfServers();
    }
    if (parted() && incremental_) WarnOfSpares(RenewParts(context_.fs, sidecar, part_paths_));
    if (!incremental_ && owns_parts_) RemoveOurs(context_.fs, *file.sidecar, file.part_paths);  // the parts of the old encoding
    report_.sidecar_bytes = sidecar.file_size();
    if (parted()) {
      LZY_ASSIGN_OR_RETURN(const FileStat parts, parity_file_->Stat());
      report_.sidecar_bytes += parts.size;
    }
    watch.AddTo(report_.phases.write);
    return Status::Ok();
  }

  // The former set of this file, if its sidecar may be replaced; else empty. This needs three conditions: the file was not
  // edited since, other members of the set are here under other names too, and no member has its old name. If no other
  // member is here, this file was moved out of its set, and the other members may need the parity in its sidecar. The same holds
  // if another member is lost, so that its sidecar was set aside.
  std::set<Uuid> LeftSet(const FileView& file) const {
    const Sidecar* const former = FormerOf(file);
    if (former == nullptr || former->contents().superblock.kind != DatasetKind::kSet) return {};
    const Superblock& sb = former->contents().superblock;
    Directory around(context_.fs, DirectoryOf(FollowLink(context_.fs, ref_.path)));
    bool seen = false, needed = false;
    for (const std::string& name : around.Sidecars()) {
      const auto& other = around.PeekAt(name);
      if (!other.ok() || other->uuid != sb.uuid || other->rank == sb.rank) continue;
      const auto data = DataPathOf(around.PathOf(name));
      seen = true;
      needed = needed || (data ? PatternFromTail(*data, other->name, other->rank) && context_.fs.Stat(*data, /*follow=*/false).ok()
                               : !around.HomeOf(name));
    }
    return !seen || needed || !HasSizeAndTime(job_.before, sb.stamp) ? std::set<Uuid>() : std::set<Uuid>{sb.uuid};
  }

  void WarnOfSpares(const Status& renewed) {
    if (renewed.ok()) return;
    report_.warnings.push_back(fmt::format("{}: committed, but some spares of its sidecar could not be updated: {}", ref_.path,
                                           renewed.message()));
  }

  void WarnOfDiffering() {
    report_.warnings.push_back(fmt::format(
        "{}: {} blocks ({} bytes) differ from what this program wrote; they have no parity and stay at risk. Write them again, or "
        "look at them and accept them: lzy-protect {}",
        ref_.path, differing_.size(), doubts_.bytes, ShellQuote(ref_.path)));
  }

  // Sends rank 0's results to the reports of all ranks.
  Status ShareResult() {
    Superblock& sb = contents_.superblock;
    auto known = std::tie(sb.dataset_root, sb.wall_time_ns, report_.sidecar_bytes);
    LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, known));
    FillReport(contents_, layout_->group_count(), layout_->file_size(0));
    if (!differing_.empty()) {
      LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, doubts_.intent));
      WarnOfDiffering();
    }
    if (request_.doubts != nullptr) *request_.doubts = doubts_;
    if (!rot_.all.empty()) ReportRot(view_.ensembles[0].files[0], *layout_, 0, rot_);
    return Status::Ok();
  }

  Options options_;
  FileJob job_;
  Rot rot_;
  Uuid uuid_{};
  std::vector<WrittenPart> parts_;
  std::set<std::uint64_t> differing_;  // blocks that differ from what was written, in this commit or before
  Doubts doubts_;                      // the same, for later commits
  std::optional<Layout> layout_;
  std::optional<PlanCache> plans_;
  SidecarContents contents_;
  bool incremental_ = false;
  std::optional<StripeLayout> stripes_;  // stripes of the data, on rank 0
  bool by_servers_ = false;  // stripe=servers may choose the geometry
  std::string out_path_;
  std::string real_path_;
  bool owns_parts_ = false;  // the existing parts belong to this file
  std::vector<std::string> part_paths_;  // with device directories, on rank 0
  std::unique_ptr<Sidecar> fresh_;
  std::unique_ptr<File> parity_file_;
};

}  // namespace

std::unique_ptr<Protector> SharedProtector(const Context& context, const DatasetRef& ref, const ProtectRequest& request,
                                           DatasetReport& report) {
  return std::make_unique<SharedFile>(context, ref, request, report);
}

}  // namespace lzy
