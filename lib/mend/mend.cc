#include "mend/mend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "dataset/parts.h"
#include "encode/rebuild.h"
#include "mend/mend_guests.h"
#include "mend/mend_plan.h"
#include "names/lookup.h"
#include "request/touched.h"
#include "rows/retry.h"
#include "sidecar/names.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

constexpr std::uint64_t kPiece = 64u << 10;
constexpr std::uint64_t kSector = 512;

// Neighbouring ranges as one, in order.
std::vector<ByteRange> Merged(std::vector<ByteRange> ranges) {
  Touched all{false, std::move(ranges)};
  Normalise(all);
  return std::move(all.ranges);
}

// What one rank has open of a file that is mended.
struct FileMend {
  const FilePlan* plan = nullptr;
  std::string target;  // where the file is to be, symbolic links resolved
  std::unique_ptr<File> new_data;
  std::unique_ptr<Sidecar> new_sidecar;
  std::unique_ptr<File> own_handle;  // shared file: this rank's handle for writing parity
  MendOutputs own;  // where this rank has the file open itself
  MendOutputs* out = &own;
  std::vector<std::vector<RowBlock>> written;  // by this rank, to be read again: blocks that lie back to back
};

class Mender {
 public:
  Mender(const Context& context, DatasetView& view, const Findings& findings, const MendRequest& request,
         DatasetReport& report)
      : context_(context), comm_(context.comm), view_(view), findings_(findings), request_(request), report_(report) {}

  Status Run() {
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return Plan(); }));
    if (plan_.beyond && !request_.salvage) {
      return {Code::kBeyondRepair,
              fmt::format("{}: rows have lost more blocks than parity {} can mend; nothing was written", view_.ref.path,
                          view_.superblock.parity)};
    }
    // Nothing that was built aside gets its name before all of it is right.
    std::vector<Status> rebuilt(view_.ensembles.size());
    Status status = InEachEnsemble([&](std::size_t e) { return rebuilt[e] = RebuildEnsemble(e); });
    if (status.ok()) {
      status = InEachEnsemble([&](std::size_t e) { return FinishEnsemble(e, /*only_in_place=*/false); });
    } else {
      // What was mended in place in other groups is mended.
      (void)InEachEnsemble(
          [&](std::size_t e) { return rebuilt[e].ok() ? FinishEnsemble(e, /*only_in_place=*/true) : Status::Ok(); });
    }
    if (!status.ok()) {
      RemoveTemporaries();
      RemoveParts(context_.fs, made_parts_);
    }
    LZY_RETURN_IF_ERROR(status);
    WarnOfOwners();
    WarnOfParts();
    LZY_ASSIGN_OR_RETURN(const std::uint64_t again, comm_.AllReduceMax(stats_.rows_again));
    if (again > 0) report_.warnings.push_back(AgainText(again));
    MarkRepaired(view_, plan_, request_, report_);
    return Status::Ok();
  }

 private:
  Status Plan() {
    LZY_ASSIGN_OR_RETURN(plan_, PlanMending(view_, findings_, request_));
    for (const EnsemblePlan& ensemble : plan_.ensembles) {
      auto& mends = mends_.emplace_back(ensemble.files.size());
      for (std::size_t f = 0; f < mends.size(); ++f) mends[f].plan = &ensemble.files[f];
    }
    return Status::Ok();
  }
  bool shared() const { return view_.ref.kind == DatasetKind::kShared; }
  bool Mine(const FileView& file) const { return shared() || file.owner == comm_.rank(); }
  bool Writer(const FileView& file) const { return shared() ? comm_.rank() == 0 : file.owner == comm_.rank(); }

  // Those that this rank has a part in; every one, whatever became of the others: their ranks are waiting for this one.
  template <class Work>
  Status InEachEnsemble(const Work& work) {
    Status status;
    for (std::size_t e = 0; e < view_.ensembles.size(); ++e) {
      const Ensemble& ensemble = view_.ensembles[e];
      const bool part = shared() || std::any_of(ensemble.files.begin(), ensemble.files.end(),
                                                [&](const FileView& file) { return Mine(file); });
      if (!part && view_.ensembles.size() > 1) continue;
      const Status one = work(e);
      if (status.ok()) status = one;
    }
    return Agree(comm_, status);
  }

  Communicator& CommOf(const Ensemble& ensemble) { return ensemble.group_comm ? *ensemble.group_comm : comm_; }

  template <class Work>
  Status ForEachFile(const Ensemble& ensemble, const Work& work) {
    return AgreeOn(CommOf(ensemble), [&] {
      for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) LZY_RETURN_IF_ERROR(work(f));
      return Status::Ok();
    });
  }

  Status RebuildEnsemble(std::size_t e) {
    Ensemble& ensemble = view_.ensembles[e];
    Communicator& comm = CommOf(ensemble);
    LZY_RETURN_IF_ERROR(ForEachFile(ensemble, [&](std::uint32_t f) {
      return Mine(ensemble.files[f]) && mends_[e][f].plan->any() ? OpenOutputs(ensemble, e, f) : Status::Ok();
    }));
    if (shared()) LZY_RETURN_IF_ERROR(OpenSharedOutputs(ensemble, e));
    MendGuests guests;
    LZY_RETURN_IF_ERROR(ExecuteMending(ensemble, e, comm, guests));
    LZY_RETURN_IF_ERROR(
        ForEachFile(ensemble, [&](std::uint32_t f) { return VerifyWritten(mends_[e][f], ensemble.files[f]); }));
    return GatherComputed(ensemble, e, comm);
  }

  Status FinishEnsemble(std::size_t e, bool only_in_place) {
    Ensemble& ensemble = view_.ensembles[e];
    return ForEachFile(ensemble, [&](std::uint32_t f) {
      const FilePlan& plan = *mends_[e][f].plan;
      const bool skip = !plan.any() || (only_in_place && (plan.rebuild_data || plan.rebuild_sidecar));
      return Writer(ensemble.files[f]) && !skip ? Finish(ensemble, e, f) : Status::Ok();
    });
  }

  // An epoch that broke off, or goes on just now.
  bool InEpoch(const FileView& file) const {
    return file.intent && !IsOfRepair(*file.intent) && !request_.force;
  }

  // What was planned holds for the file as it was looked at.
  Status CheckUnchanged(const FileView& file, const FileMend& mend) const {
    const auto now = context_.fs.Stat(mend.target);
    const bool same = now.ok() ? file.present && now->inode == file.stat.inode && now->size == file.stat.size &&
                                     now->mtime_ns == file.stat.mtime_ns
                               : !file.present && now.status().code() == Code::kNotFound;
    if (same) return Status::Ok();
    return {Code::kBusy, fmt::format("{}: something else writes the file; it was not repaired", file.path)};
  }

  // Opens what will be written, and notes that a repair is going on where blocks change in place.
  Status OpenOutputs(Ensemble& ensemble, std::size_t e, std::uint32_t f) {
    FileView& file = ensemble.files[f];
    FileMend& mend = mends_[e][f];
    const Layout& layout = *ensemble.layout;
    if (mend.plan->rebuild_data) {
      const auto link = context_.fs.Stat(file.path, /*follow=*/false);
      if (!file.present && link.ok() && link->type == FileStat::Type::kDirectory) {
        return {Code::kIo, fmt::format("{}: is a directory; the lost file cannot have its name", file.path)};
      }
      if (!file.present && link.ok()) {
        return {Code::kIo, fmt::format("{}: it is a symbolic link to what is not there; nothing was restored through it. Remove "
                                       "the link, or make what it names", file.path)};
      }
      LZY_RETURN_IF_ERROR(context_.fs.MakeDirectories(DirectoryOf(file.path)));
    }
    LZY_ASSIGN_OR_RETURN(mend.target, context_.fs.RealPath(file.path));
    mend.out->data_expected = file.data_tree();
    const bool unheld = mend.plan->rehash_parity || (mend.plan->rebuild_sidecar && !file.sidecar);
    mend.out->parity_expected = unheld ? nullptr : file.parity_tree();
    mend.out->MakeRoom(layout, f);
    if (mend.plan->rehash_parity && Writer(file)) KeepKnownLeaves(*file.parity_tree(), mend);
    if (!Writer(file)) return Status::Ok();
    LZY_RETURN_IF_ERROR(CheckUnchanged(file, mend));
    if (mend.plan->rebuild_data) {
      const std::string temporary = NewDataPath(mend.target);
      LZY_RETURN_IF_ERROR(context_.fs.MakeDirectories(DirectoryOf(mend.target)));  // of what a symbolic link names
      if (Status removed = context_.fs.Remove(temporary); !removed.ok() && removed.code() != Code::kNotFound)
        return removed;
      LZY_ASSIGN_OR_RETURN(mend.new_data, context_.fs.Open(temporary, OpenMode::kCreateNew, /*follow=*/false, 0600));
      (void)mend.new_data->Lock();  // tells lzy-info --prune that it is no debris; without locks it is never pruned
      LZY_RETURN_IF_ERROR(mend.new_data->Truncate(layout.file_size(f)));
      mend.out->data = mend.new_data.get();
    } else {
      mend.out->data = file.data.get();
    }
    if (mend.plan->rebuild_sidecar) {
      File* like = mend.new_data ? mend.new_data.get() : file.data.get();
      if (like == nullptr)
        return {Code::kIo, fmt::format("{}: missing, so its sidecar cannot be made again alone", file.path)};
      LZY_ASSIGN_OR_RETURN(mend.new_sidecar,
                           Sidecar::Create(context_.fs, NewSidecarPath(mend.target), FreshContents(ensemble, f), *like));
      (void)mend.new_sidecar->file().Lock();  // as the data
      mend.out->parity = &mend.new_sidecar->file();
      mend.out->parity_base = mend.new_sidecar->ParityFileOffset(0);
      if (layout.parity_size(f) > 0)
        LZY_RETURN_IF_ERROR(mend.out->parity->Truncate(mend.out->parity_base + layout.parity_size(f)));
    } else if (WritesParts(file, *mend.plan)) {
      if (!file.sidecar->HasRoom(Moved(file, file.sidecar->contents()))) {
        return {Code::kIo, fmt::format("{}: there is no room in its sidecar for the names of these device directories; lzy-protect makes it anew",
                                       file.path)};
      }
      LZY_RETURN_IF_ERROR(CreateParts(context_.fs, file.sidecar->contents(), *file.sidecar, PartsToMend(file), &made_parts_));
      LZY_RETURN_IF_ERROR(OpenItsParts(file, mend));
    } else if (file.sidecar && file.part_paths.empty()) {
      mend.out->parity = &file.sidecar->file();
      mend.out->parity_base = file.sidecar->ParityFileOffset(0);
    }
    // Where edits stay, the note that a repair is going on would make rot of them; and so it would of what somebody writes in
    // an epoch that may be going on.
    if ((mend.plan->data_in_place || mend.plan->cut_tail) && file.sidecar && !mend.plan->edits_left && !InEpoch(file)) {
      LZY_RETURN_IF_ERROR(file.sidecar->SetIntent(NewIntent(kIntentRepair, Merged(mend.plan->changed))));
    }
    return Status::Ok();
  }

  // Of the hashes that are to be computed again, those that some copy of the sidecar has are there already.
  static void KeepKnownLeaves(const Tree& parity, FileMend& mend) {
    const auto [leaves, known] = mend.out->parity_computed();
    for (std::uint64_t i = 0; i < parity.leaf_count(); ++i) {
      if (parity.leaf(i).IsZero()) continue;
      leaves[i] = parity.leaf(i);
      known[i] = 1;
    }
  }

  static bool WritesParts(const FileView& file, const FilePlan& plan) {
    return !file.part_paths.empty() && (plan.parity_in_place || plan.heal_metadata);
  }

  // The others are no obstacle to what else is to be mended.
  static std::vector<std::string> PartsToMend(const FileView& file) {
    std::vector<std::string> paths = file.part_paths;
    for (std::size_t d = 0; d < paths.size(); ++d) {
      if (!file.part_obstacles[d].empty()) paths[d].clear();
    }
    return paths;
  }

  // Some may have been made again elsewhere.
  static SidecarContents Moved(const FileView& file, SidecarContents contents) {
    for (std::size_t d = 0; d < file.part_paths.size(); ++d) contents.info.parts.directories[d] = DirectoryOf(file.part_paths[d]);
    return contents;
  }

  // Whose the parts are, by the name that the file has now. A copy of another one must not be taken for that later, by what it is.
  void NoteHome(const FileView& file, const FileMend& mend, SidecarContents& contents) const {
    if (file.part_paths.empty() || contents.info.parts.home == mend.target) return;
    SidecarContents noted = contents;
    noted.info.parts.home = OwnsParts(context_.fs, mend.target, file.sidecar->contents()) ? mend.target : "";
    if (file.sidecar->HasRoom(Moved(file, noted))) contents.info.parts.home = noted.info.parts.home;
  }

  void WarnOfParts() {
    if (!shared()) return;
    std::set<std::string> told;
    const FileView& file = view_.ensembles[0].files[0];
    for (std::size_t d = 0; d < file.part_obstacles.size(); ++d) {
      const bool hit = std::ranges::any_of(report_.damage, [&](const Damage& one) { return one.path == file.part_paths[d]; });
      if (hit && !file.part_obstacles[d].empty() && told.insert(file.part_obstacles[d]).second) {
        report_.warnings.push_back(file.part_obstacles[d]);
      }
    }
  }

  Status OpenItsParts(const FileView& file, FileMend& mend) {
    LZY_ASSIGN_OR_RETURN(mend.own_handle, OpenParts(context_.fs, *file.sidecar, PartsToMend(file), /*write=*/true));
    mend.out->parity = mend.own_handle.get();
    return Status::Ok();
  }

  // A shared file's blocks are mended by all ranks; rank 0 has made what had to be made.
  Status OpenSharedOutputs(Ensemble& ensemble, std::size_t e) {
    FileMend& mend = mends_[e][0];
    FileView& file = ensemble.files[0];
    return AgreeOn(comm_, [&]() -> Status {
      if (comm_.rank() == 0 || !mend.plan->any()) return Status::Ok();
      mend.out->data = file.data.get();
      if (mend.plan->rebuild_data) {
        LZY_ASSIGN_OR_RETURN(mend.new_data,
                             context_.fs.Open(NewDataPath(mend.target), OpenMode::kReadWrite, /*follow=*/false));
        mend.out->data = mend.new_data.get();
      }
      if (WritesParts(file, *mend.plan)) return OpenItsParts(file, mend);
      if (!file.part_paths.empty()) return Status::Ok();
      LZY_ASSIGN_OR_RETURN(mend.own_handle,
                           context_.fs.Open(file.sidecar_path, OpenMode::kReadWrite, /*follow=*/false));
      mend.out->parity = mend.own_handle.get();
      mend.out->parity_base = file.sidecar->ParityFileOffset(0);
      return Status::Ok();
    });
  }

  Status ExecuteMending(Ensemble& ensemble, std::size_t e, Communicator& comm, MendGuests& guests) {
    const Layout& layout = *ensemble.layout;
    RowStreams streams = StreamsOf(ensemble);
    const auto source = [&](const RowBlock& block, ByteSpan bytes) -> Status {
      if (IsAsCommitted(streams.of(layout, block), block.place.index, bytes)) return Status::Ok();
      const FileView& file = ensemble.files[block.parity ? layout.region_of(block.device) : layout.file_of(block.device)];
      return {request_.assumed ? Code::kCorrupt : Code::kBusy,
              fmt::format("{}: block {} was right when it was checked and is not any more; nothing was made from it",
                          block.parity ? file.sidecar_path : file.path, block.place.index)};
    };
    const auto target = [&](std::span<const RowBlock> blocks, ByteSpan bytes) -> Status {
      const std::uint32_t device = blocks[0].device;
      return WriteBlocks(mends_[e][blocks[0].parity ? layout.region_of(device) : layout.file_of(device)], blocks, bytes);
    };
    const std::span<const RowRun> runs = plan_.ensembles[e].runs;
    bool all_here = shared();
    if (!all_here) {
      std::vector<bool> own;
      std::vector<MendOutputs*> outputs;
      for (std::size_t f = 0; f < ensemble.files.size(); ++f) {
        own.push_back(Mine(ensemble.files[f]));
        outputs.push_back(mends_[e][f].out);
      }
      LZY_ASSIGN_OR_RETURN(all_here, guests.Open(context_, layout, comm, own, streams, outputs));
      for (std::size_t f = 0; f < outputs.size(); ++f) mends_[e][f].out = outputs[f];
    }
    if (!all_here) {
      return RebuildRows(context_, layout, streams, comm, OwnersIn(ensemble, comm), runs, source, target, stats_);
    }
    return AgreeOn(comm, [&] {
      const auto self = SelfCommunicator();
      return RebuildRows(context_, layout, streams, *self, std::vector<int>(layout.devices(), 0), ShareOf(runs, comm),
                         source, target, stats_);
    });
  }

  // What ranks computed of files that they do not own.
  Status GatherComputed(Ensemble& ensemble, std::size_t e, Communicator& comm) {
    if (comm.size() == 1) return Status::Ok();
    const std::vector<int> owner = shared() ? std::vector<int>{0} : OwnersIn(ensemble, comm);
    Status gathered;
    for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
      const FilePlan& plan = plan_.ensembles[e].files[f];
      if (!plan.rehash_parity && (shared() || (!plan.rebuild_data && !plan.rebuild_sidecar))) continue;
      MendOutputs& out = *mends_[e][f].out;
      const Status one = GatherLeaves(comm, owner[f], out.data_computed(), out.parity_computed());
      if (gathered.ok()) gathered = one;
    }
    return Agree(comm, gathered);
  }

  Hash LeafOfBlock(const RowBlock& block, ByteSpan bytes) const {
    return LeafHash(context_.options.key.get(), block.parity ? HashTag::kParityLeaf : HashTag::kDataLeaf, block.place.index, bytes);
  }

  Status WriteBlocks(FileMend& mend, std::span<const RowBlock> blocks, ByteSpan bytes) {
    const bool parity = blocks[0].parity;
    const Tree* expected = parity ? mend.out->parity_expected : mend.out->data_expected;
    File* out = parity ? mend.out->parity : mend.out->data;
    if (out == nullptr) return Status::Ok();  // of a sidecar that cannot be made (salvage)
    const bool aside = parity ? mend.plan->rebuild_sidecar : mend.plan->rebuild_data;
    std::size_t at = 0;
    for (const RowBlock& block : blocks) {
      const ByteSpan one = bytes.subspan(at, block.place.length);
      at += block.place.length;
      const Hash leaf = LeafOfBlock(block, one);
      if (expected != nullptr && leaf != expected->leaf(block.place.index)) {
        return {Code::kWriteFailed,
                fmt::format("{}: the block rebuilt for offset {} does not have its hash; not written", out->path(),
                            block.place.offset)};
      }
      if (expected != nullptr) continue;
      const auto& [leaves, known] = parity ? mend.out->parity_computed() : mend.out->data_computed();
      leaves[block.place.index] = leaf;
      known[block.place.index] = 1;
    }
    const bool zero = std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
    if (aside && zero) return Status::Ok();  // a new file is a hole there already
    LZY_RETURN_IF_ERROR(out->WriteAt((parity ? mend.out->parity_base : 0) + blocks[0].place.offset, bytes));
    std::lock_guard lock(mutex_);
    mend.written.emplace_back(blocks.begin(), blocks.end());
    return Status::Ok();
  }

  // What was written is read back from the device and compared before it counts.
  Status VerifyWritten(FileMend& mend, const FileView& file) {
    if (mend.written.empty()) return Status::Ok();
    if (mend.out->data != nullptr) LZY_RETURN_IF_ERROR(mend.out->data->Sync());
    if (mend.out->parity != nullptr) LZY_RETURN_IF_ERROR(mend.out->parity->Sync());
    Status status;
    ParallelParts(mend.written.size(), ThreadsFor(context_), [&](std::size_t first, std::size_t last) {
      AlignedBuffer buffer;
      Status done;
      for (std::size_t i = first; i < last && done.ok(); ++i) done = VerifyRun(*mend.out, mend.written[i], file, buffer);
      const std::lock_guard lock(mutex_);
      if (status.ok()) status = done;
    });
    return status;
  }

  Status VerifyRun(const MendOutputs& out, const std::vector<RowBlock>& blocks, const FileView& file,
                          AlignedBuffer& buffer) const {
    const bool parity = blocks[0].parity;
    std::uint64_t length = 0;
    for (const RowBlock& block : blocks) length += block.place.length;
    buffer.Reserve(length);
    const MutableByteSpan all(buffer.data(), length);
    File* in = parity ? out.parity : out.data;
    const auto got = in->ReadAtFromDevice((parity ? out.parity_base : 0) + blocks[0].place.offset, all);
    const Tree* expected = parity ? out.parity_expected : out.data_expected;
    std::uint64_t at = 0;
    for (const RowBlock& block : blocks) {
      const ByteSpan bytes = all.subspan(at, block.place.length);
      at += block.place.length;
      const Hash& want = expected != nullptr ? expected->leaf(block.place.index)
                                             : (parity ? out.parity_leaves : out.data_leaves)[block.place.index];
      if (!got.ok() || *got < at || LeafOfBlock(block, bytes) != want) {
        return {Code::kWriteFailed,
                fmt::format("{}: what was written at {} reads back wrong; the device cannot be trusted",
                            parity ? file.sidecar_path : file.path, block.place.offset)};
      }
    }
    return Status::Ok();
  }

  // Contents of a sidecar that is made again, from what the rest of the dataset records; hashes are filled in by
  // Finish.
  SidecarContents FreshContents(const Ensemble& ensemble, std::uint32_t f) const {
    const Layout& layout = *ensemble.layout;
    SidecarContents contents;
    contents.key = context_.options.key;
    contents.superblock = view_.superblock;
    contents.superblock.extents.clear();
    contents.superblock.rank = ensemble.files[f].rank;
    contents.superblock.parity_size = layout.parity_size(f);
    contents.superblock.stamp.size = layout.file_size(f);
    // The superblock at hand is another member's; by its clock this member's mtime might look racy.
    contents.superblock.commit_clock_ns = std::max(contents.superblock.commit_clock_ns, CoarseNowNs());
    contents.info = view_.info;
    contents.info.groups.assign(1, {});
    for (const FileView& member : ensemble.files) contents.info.groups[0].push_back(member.rank);
    contents.info.members = ensemble.records;
    std::vector<Hash> roots(view_.superblock.members);
    std::uint64_t bytes = 0;
    for (const Ensemble& other : view_.ensembles) {
      for (const MemberRecord& record : other.records) {
        if (record.rank < roots.size()) roots[record.rank] = record.data_root;
        bytes += record.size;
      }
    }
    contents.info.path = Tree::Build(TreeKind::kDataset, roots, bytes).Prove(ensemble.files[f].rank);
    if (roots.size() == 1) contents.info.path.pages.clear();
    contents.data_tree = Tree::Build(TreeKind::kData, std::vector<Hash>(layout.data_blocks(f)), layout.file_size(f));
    contents.parity_tree =
        Tree::Build(TreeKind::kParity, std::vector<Hash>(layout.parity_blocks(f)), layout.parity_size(f));
    return contents;
  }

  // Puts what was made in place: checked as a whole, with its times, under its name.
  Status Finish(Ensemble& ensemble, std::size_t e, std::uint32_t f) {
    FileView& file = ensemble.files[f];
    FileMend& mend = mends_[e][f];
    SidecarContents contents = CommittedContents(ensemble, e, f);
    if (!shared() && !plan_.beyond) {
      // Data without a sidecar of its own, where parity waits for the next commit, are as good as committed without it.
      const bool has_parity = mend.plan->rebuild_sidecar || file.sidecar != nullptr;
      if (contents.data_tree.Root() != ensemble.records[f].data_root ||
          (has_parity && contents.parity_tree.Root() != ensemble.records[f].parity_root)) {
        return {Code::kWriteFailed,
                fmt::format("{}: rebuilt, but not what was committed; it was not put in place", file.path)};
      }
    }
    if (mend.plan->rehash_parity && contents.parity_tree.Root() != file.sidecar->contents().superblock.parity_root) {
      return {Code::kWriteFailed, fmt::format("{}: the hashes of its parity, computed again, are not those that were committed", file.path)};
    }
    const MemberRecord record = !shared()                        ? ensemble.records[f]
                                : contents.info.members.empty() ? MemberRecord()
                                                                : contents.info.members[0];
    LZY_ASSIGN_OR_RETURN(const FileStat stat, FinishData(ensemble, mend, f, record));
    contents.superblock.stamp.mtime_ns = mend.plan->rebuild_data ? stat.mtime_ns : file.stamp.mtime_ns;
    NoteHome(file, mend, contents);
    SetIdentity(contents.superblock.stamp, stat);
    LZY_RETURN_IF_ERROR(PutInPlace(file, mend, contents));
    LZY_RETURN_IF_ERROR(EndRepairIntent(file, *mend.plan));
    return context_.fs.SyncDirectory(DirectoryOf(mend.target));
  }

  SidecarContents CommittedContents(const Ensemble& ensemble, std::size_t e, std::uint32_t f) {
    const FileView& file = ensemble.files[f];
    const Layout& layout = *ensemble.layout;
    FileMend& mend = mends_[e][f];
    SidecarContents contents = mend.plan->rebuild_sidecar ? FreshContents(ensemble, f)
                               : file.sidecar             ? file.sidecar->contents()
                                                          : SidecarContents();
    contents.data_tree = mend.out->data_expected != nullptr
                             ? *mend.out->data_expected
                             : Tree::Build(TreeKind::kData, std::move(mend.out->data_leaves), layout.file_size(f));
    contents.parity_tree = mend.out->parity_expected != nullptr
                               ? *mend.out->parity_expected
                               : Tree::Build(TreeKind::kParity, std::move(mend.out->parity_leaves), layout.parity_size(f));
    return contents;
  }

  // Salvage replaces a file of which nothing is proven; but what was there is better than nothing.
  static Status KeepWhatCannotBeHad(File& was, FileMend& mend) {
    std::vector<std::uint8_t> piece(kPiece);
    for (const ByteRange& range : mend.plan->unmended) {
      const std::uint64_t end = range.offset + range.length;
      for (std::uint64_t at = range.offset; at < end;) {
        std::uint64_t length = std::min(kPiece, end - at);
        auto count = was.ReadAt(at, MutableByteSpan(piece).first(length));
        if (!count.ok() && length > kSector) {  // a bad sector must not hide its neighbours
          length = std::min(kSector - at % kSector, end - at);
          count = was.ReadAt(at, MutableByteSpan(piece).first(length));
        }
        if (count.ok() && *count > 0) LZY_RETURN_IF_ERROR(mend.new_data->WriteAt(at, ByteSpan(piece).first(*count)));
        at += length;
      }
    }
    return Status::Ok();
  }

  // Owner and group that sidecars name are those of whoever could write them, or root's word: or else root would give
  // files to anybody, and set-id bits with them, for whoever forges a sidecar. `fresh` is the file that gets them, as
  // it was made.
  static Result<MemberRecord> Vouched(const Ensemble& ensemble, const std::string& path, MemberRecord record,
                                      const FileStat& fresh) {
    const std::set<std::uint32_t> owners = OwnersOfSidecars(ensemble);
    if (owners.empty()) return record;
    record.mode &= ~06000u;
    const bool of_group = std::ranges::all_of(ensemble.files, [&](const FileView& file) {
      return !file.sidecar_usable() || file.sidecar_uid == 0 || file.sidecar_gid == record.gid;
    });
    if (!of_group) {
      record.gid = fresh.gid;
      record.mode &= ~070u;
    }
    if (owners.size() == 1) {
      record.uid = *owners.begin();
    } else if (fresh.uid == 0) {
      return {Code::kIo,
              fmt::format("{}: the sidecars of its group are of several users, so nobody knows that it is of user {}; "
                          "restore it as that user, or make the sidecars his",
                          path, record.uid)};
    } else {
      record.uid = fresh.uid;
    }
    return record;
  }

  // Whose the sidecars are that say how a file was; root's are left out, since nobody else can forge those.
  static std::set<std::uint32_t> OwnersOfSidecars(const Ensemble& ensemble) {
    std::set<std::uint32_t> owners;
    for (const FileView& file : ensemble.files) {
      if (file.sidecar_usable()) owners.insert(file.sidecar_uid);
    }
    owners.erase(0);
    return owners;
  }

  void WarnOfOwners() {
    if (shared()) return;
    for (std::size_t e = 0; e < mends_.size(); ++e) {
      const Ensemble& ensemble = view_.ensembles[e];
      const std::set<std::uint32_t> owners = OwnersOfSidecars(ensemble);
      for (std::uint32_t f = 0; f < mends_[e].size(); ++f) {
        const std::uint32_t uid = ensemble.records[f].uid;
        if (!mends_[e][f].plan->rebuild_data || owners.size() != 1 || owners.contains(uid)) continue;
        report_.warnings.push_back(
            fmt::format("{}: was of user {} by sidecars that are of user {}; it is not given to him",
                        ensemble.files[f].path, uid, *owners.begin()));
      }
    }
  }

  // Size, access and times as committed; what the data file is then.
  Result<FileStat> FinishData(Ensemble& ensemble, FileMend& mend, std::uint32_t f, const MemberRecord& record) {
    FileView& file = ensemble.files[f];
    const std::uint64_t size = ensemble.layout->file_size(f);
    const FilePlan& plan = *mend.plan;
    if (plan.rebuild_data) {
      if (file.data) LZY_RETURN_IF_ERROR(KeepWhatCannotBeHad(*file.data, mend));
      LZY_ASSIGN_OR_RETURN(const FileStat fresh, mend.new_data->Stat());
      LZY_ASSIGN_OR_RETURN(const MemberRecord access, Vouched(ensemble, file.path, record, fresh));
      LZY_RETURN_IF_ERROR(mend.new_data->SetAccess(access.mode & 07777, access.uid, access.gid));
      LZY_RETURN_IF_ERROR(mend.new_data->SetTimes(record.mtime_ns, record.mtime_ns));
      LZY_RETURN_IF_ERROR(mend.new_data->Sync());
      return mend.new_data->Stat();
    }
    if (!plan.data_in_place && !plan.cut_tail && !plan.finish_repair) return file.stat;
    if (plan.cut_tail) LZY_RETURN_IF_ERROR(file.data->Truncate(size));
    if (!InEpoch(file)) {
      const std::int64_t mtime_ns = plan.edits_left ? file.stat.mtime_ns : file.stamp.mtime_ns;
      LZY_RETURN_IF_ERROR(file.data->SetTimes(file.stat.atime_ns, mtime_ns));
    }
    LZY_RETURN_IF_ERROR(file.data->Sync());
    return file.data->Stat();
  }

  // A sidecar is whole before its file gets its name; without one (salvage beside groups of which nothing is left) the file
  // gets it all the same.
  Status PutInPlace(FileView& file, FileMend& mend, const SidecarContents& contents) {
    const FilePlan& plan = *mend.plan;
    if (plan.rebuild_sidecar) {
      if (mend.new_data) LZY_RETURN_IF_ERROR(mend.new_sidecar->file().CopyAccess(*mend.new_data));
      LZY_RETURN_IF_ERROR(mend.new_sidecar->WriteAll(contents));
    }
    if (plan.rebuild_data) {
      LZY_RETURN_IF_ERROR(CheckUnchanged(file, mend));
      LZY_RETURN_IF_ERROR(context_.fs.Rename(NewDataPath(mend.target), mend.target));
    }
    if (plan.rebuild_sidecar) {
      LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(mend.target));
      return context_.fs.Rename(NewSidecarPath(mend.target), own);
    }
    if (!file.sidecar) return Status::Ok();
    // What was mended in place may be a file that got its sidecar by its name: from now on it is known by itself.
    const Stamp& stamp = contents.superblock.stamp;
    const bool known = file.stamp.inode == stamp.inode && file.stamp.birth_ns == stamp.birth_ns;
    const bool rewrite = plan.heal_metadata || plan.rebuild_data || (!known && file.sidecar->knows_all_leaves());
    if (!rewrite) return Status::Ok();
    if (file.part_paths.empty()) return file.sidecar->WriteAll(contents);
    LZY_RETURN_IF_ERROR(file.sidecar->WriteAll(Moved(file, contents)));
    return RenewParts(context_.fs, *file.sidecar, PartsToMend(file));
  }

  // Pages of an epoch that broke off stay: what they name is still at risk unless it was taken back just now.
  Status EndRepairIntent(FileView& file, const FilePlan& plan) const {
    if (!file.sidecar || plan.rebuild_sidecar) return Status::Ok();
    const std::optional<Intent>& intent = file.sidecar->intent();
    if (!intent && !plan.heal_metadata && !plan.data_in_place && !plan.cut_tail) return Status::Ok();
    return InEpoch(file) ? Status::Ok() : file.sidecar->ClearIntent();
  }

  void RemoveTemporaries() {
    for (std::size_t e = 0; e < mends_.size(); ++e) {
      for (std::uint32_t f = 0; f < mends_[e].size(); ++f) {
        if (!Writer(view_.ensembles[e].files[f])) continue;
        if (mends_[e][f].new_data) (void)context_.fs.Remove(mends_[e][f].new_data->path());
        if (mends_[e][f].new_sidecar) (void)context_.fs.Remove(mends_[e][f].new_sidecar->path());
      }
    }
  }

  const Context& context_;
  Communicator& comm_;
  DatasetView& view_;
  const Findings& findings_;
  const MendRequest& request_;
  DatasetReport& report_;
  MendPlan plan_;
  std::vector<std::string> made_parts_;  // by this rank
  std::vector<std::vector<FileMend>> mends_;
  RowStats stats_;
  std::mutex mutex_;
};

}  // namespace

Status Mend(const Context& context, DatasetView& view, const Findings& findings, const MendRequest& request,
            DatasetReport& report) {
  return Mender(context, view, findings, request, report).Run();
}

}  // namespace lzy
