#include "engine/mend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "engine/touched.h"
#include "sidecar/names.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

bool Edited(DamageCause cause) {
  return cause == DamageCause::kStale || cause == DamageCause::kAtRisk;
}

// Neighbouring ranges as one, in order.
std::vector<ByteRange> Merged(std::vector<ByteRange> ranges) {
  Touched all{false, std::move(ranges)};
  Normalise(all);
  return std::move(all.ranges);
}

// What happens to one file and its sidecar.
struct FileMend {
  bool rebuild_data = false;     // all of it, aside, then renamed
  bool rebuild_sidecar = false;  // likewise
  bool data_in_place = false;    // some blocks
  bool parity_in_place = false;
  bool heal_metadata = false;
  bool cut_tail = false;  // bytes behind the committed end
  bool edits_left = false;  // stale or at-risk data stay as they are: the file must not look as committed
  bool finish_repair = false;      // an earlier repair broke off: its note and the mtime are still to be put right
  std::vector<ByteRange> changed;  // of the data, in place

  // Local, on ranks that write.
  std::unique_ptr<File> new_data;
  std::unique_ptr<Sidecar> new_sidecar;
  std::unique_ptr<File> own_handle;  // shared file: this rank's handle for writing parity
  File* data_out = nullptr;
  File* parity_out = nullptr;
  std::uint64_t parity_base = 0;
  const Tree* data_expected = nullptr;  // null: checked by the root at the end
  const Tree* parity_expected = nullptr;
  std::vector<Hash> data_leaves, parity_leaves;  // where not expected
  std::vector<RowBlock> written;                 // in place, to be read again
  bool any() const {
    return rebuild_data || rebuild_sidecar || data_in_place || parity_in_place || heal_metadata || cut_tail ||
           finish_repair;
  }
};

class Mender {
 public:
  Mender(const Context& context, DatasetView& view, const Findings& findings, const MendRequest& request,
         DatasetReport& report)
      : context_(context), comm_(context.comm), view_(view), findings_(findings), request_(request), report_(report) {}

  Status Run() {
    plans_.resize(view_.ensembles.size());
    runs_.resize(view_.ensembles.size());
    for (std::size_t e = 0; e < view_.ensembles.size(); ++e) LZY_RETURN_IF_ERROR(PlanEnsemble(e));
    if (beyond_ && !request_.salvage) {
      return {Code::kBeyondRepair,
              fmt::format("{}: rows have lost more blocks than parity {} can mend; nothing was written", view_.ref.path,
                          view_.superblock.parity)};
    }
    Status status;
    // Every ensemble, whatever became of the others: their ranks are waiting for this one.
    for (std::size_t e = 0; e < view_.ensembles.size(); ++e) {
      const Status one = MendEnsemble(e);
      if (status.ok()) status = one;
    }
    status = Agree(comm_, status);
    if (!status.ok()) RemoveTemporaries();
    LZY_RETURN_IF_ERROR(status);
    MarkRepaired();
    return Status::Ok();
  }

 private:
  bool shared() const { return view_.ref.kind == DatasetKind::kShared; }
  bool Mine(const FileView& file) const { return shared() || file.owner == comm_.rank(); }
  bool Writer(const FileView& file) const { return shared() ? comm_.rank() == 0 : file.owner == comm_.rank(); }

  // Decides what is to be done, the same on every rank, from agreed findings alone.
  Status PlanEnsemble(std::size_t e) {
    const Ensemble& ensemble = view_.ensembles[e];
    const Layout& layout = *ensemble.layout;
    const auto& found = findings_.files[e];
    auto& mends = mends_.emplace_back(ensemble.files.size());
    for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
      const FileView& file = ensemble.files[f];
      FileMend& mend = mends[f];
      if (request_.create_missing) {
        mend.rebuild_data =
            !file.present || found[f].whole_device || (!shared() && request_.devices.count(file.rank) != 0);
        mend.rebuild_sidecar = !file.sidecar_usable() || (!shared() && request_.devices.count(file.rank) != 0);
        if (mend.rebuild_data && file.present && found[f].whole_device && !request_.force &&
            request_.devices.count(file.rank) == 0 && Edited(CauseOf(file, BlockFault::kHash, 0))) {
          // Changed since the commit and unprovable: an edit, to be taken back only with --force. Its sidecar cannot be
          // made again without the data that were committed.
          mend.rebuild_data = mend.rebuild_sidecar = false;
        }
      }
      mend.heal_metadata = file.sidecar_usable() && !mend.rebuild_sidecar && !found[f].metadata.empty();
      if (found[f].extra_bytes != 0 && !mend.rebuild_data && !found[f].whole_device) {
        mend.cut_tail = request_.force || !Edited(CauseOf(file, BlockFault::kHash, file.stamp.size));
        mend.edits_left = !mend.cut_tail;
        if (mend.cut_tail) mend.changed.push_back({file.stamp.size, found[f].extra_bytes});
      }
      mend.finish_repair = file.present && !mend.rebuild_data && file.intent && (file.intent->flags & kIntentRepair) != 0;
    }

    const std::vector<LostBlock> lost = LostBlocks(ensemble, found);
    plans_[e].emplace(layout);
    Status failed;
    ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
      std::vector<std::uint32_t> bad, wanted;
      bool damaged = false;
      for (std::size_t i = begin; i < end; ++i) {
        bad.push_back(lost[i].device);
        damaged = damaged || !Edited(lost[i].cause);
        if (!Wanted(ensemble, mends, lost[i])) {
          if (!lost[i].parity && Edited(lost[i].cause)) mends[layout.file_of(lost[i].device)].edits_left = true;
          continue;
        }
        wanted.push_back(lost[i].device);
      }
      // A row that is lost, though nobody asked for it to be mended now, forbids writing as any other does.
      if (wanted.empty() && !damaged) return;
      if (bad.size() > layout.parity()) {
        beyond_ = true;
        return;
      }
      if (wanted.empty()) return;
      auto plan = plans_[e]->Rebuild(lost[begin].group, lost[begin].unit_row, bad, wanted);
      if (!plan.ok()) {
        failed = plan.status();
        return;
      }
      for (std::size_t i = begin; i < end; ++i) {
        if (!Wanted(ensemble, mends, lost[i])) continue;
        FileMend& mend = mends[lost[i].parity ? layout.region_of(lost[i].device) : layout.file_of(lost[i].device)];
        if (lost[i].parity) {
          mend.parity_in_place = mend.parity_in_place || !mend.rebuild_sidecar;
        } else {
          if (mend.rebuild_data) continue;
          mend.data_in_place = true;
          const BlockPlace place = layout.DataBlock(lost[i].device, lost[i].unit_row, lost[i].slice);
          mend.changed.push_back({place.offset, place.length});
        }
      }
      std::vector<RowRun>& runs = runs_[e];
      if (!runs.empty()) {
        RowRun& last = runs.back();
        if (last.group == lost[begin].group && last.unit_row == lost[begin].unit_row && last.plan == *plan &&
            last.first_slice + last.slices == lost[begin].slice) {
          ++last.slices;
          return;
        }
      }
      runs.push_back({lost[begin].group, lost[begin].unit_row, lost[begin].slice, 1, *plan});
    });
    if (!view_.unknown_ranks.empty()) beyond_ = true;
    return failed;
  }

  bool Wanted(const Ensemble& ensemble, const std::vector<FileMend>& mends, const LostBlock& block) const {
    const Layout& layout = *ensemble.layout;
    const std::uint32_t f = block.parity ? layout.region_of(block.device) : layout.file_of(block.device);
    const FileView& file = ensemble.files[f];
    // Parity of rows with edits is out of date; the next commit makes it again.
    if (block.parity) return mends[f].rebuild_sidecar || (file.sidecar_usable() && (request_.force || !Edited(block.cause)));
    if (mends[f].rebuild_data) return true;
    if (!file.present) return false;
    if (!shared() && !file.sidecar_usable()) return false;  // nothing to prove single blocks with
    return request_.force || !Edited(block.cause);
  }

  Status MendEnsemble(std::size_t e) {
    Ensemble& ensemble = view_.ensembles[e];
    const Layout& layout = *ensemble.layout;
    const bool part = shared() || std::any_of(ensemble.files.begin(), ensemble.files.end(),
                                              [&](const FileView& file) { return Mine(file); });
    Communicator& comm = ensemble.group_comm ? *ensemble.group_comm : comm_;
    if (!part && view_.ensembles.size() > 1) return Status::Ok();
    Status status;
    for (std::uint32_t f = 0; f < ensemble.files.size() && status.ok(); ++f) {
      if (Mine(ensemble.files[f]) && mends_[e][f].any()) status = OpenOutputs(ensemble, e, f);
    }
    LZY_RETURN_IF_ERROR(Agree(comm, status));
    if (shared()) LZY_RETURN_IF_ERROR(OpenSharedOutputs(ensemble, e));
    LZY_RETURN_IF_ERROR(ExecuteMending(layout, ensemble, e, comm));
    for (std::uint32_t f = 0; f < ensemble.files.size() && status.ok(); ++f) {
      if (Mine(ensemble.files[f])) status = VerifyWritten(layout, mends_[e][f], ensemble.files[f]);
    }
    LZY_RETURN_IF_ERROR(Agree(comm, status));
    for (std::uint32_t f = 0; f < ensemble.files.size() && status.ok(); ++f) {
      if (Writer(ensemble.files[f]) && mends_[e][f].any()) status = Finish(ensemble, e, f);
    }
    return Agree(comm, status);
  }

  // Opens what will be written, and notes that a repair is going on where blocks change in place.
  Status OpenOutputs(Ensemble& ensemble, std::size_t e, std::uint32_t f) {
    FileView& file = ensemble.files[f];
    FileMend& mend = mends_[e][f];
    const Layout& layout = *ensemble.layout;
    mend.data_expected = file.data_tree();
    mend.parity_expected = mend.rebuild_sidecar && !file.sidecar ? nullptr : file.parity_tree();
    if (mend.data_expected == nullptr) mend.data_leaves.assign(layout.data_blocks(f), Hash{});
    if (mend.parity_expected == nullptr) mend.parity_leaves.assign(layout.parity_blocks(f), Hash{});
    if (!Writer(file)) return Status::Ok();
    if (mend.rebuild_data) {
      const std::string temporary = NewDataPath(file.path);
      LZY_RETURN_IF_ERROR(context_.fs.MakeDirectories(DirectoryOf(file.path)));
      if (Status removed = context_.fs.Remove(temporary); !removed.ok() && removed.code() != Code::kNotFound)
        return removed;
      LZY_ASSIGN_OR_RETURN(mend.new_data, context_.fs.Open(temporary, OpenMode::kCreateNew, /*follow=*/false, 0600));
      (void)mend.new_data->Lock();  // tells lzy-info --prune that it is no debris; without locks it is never pruned
      LZY_RETURN_IF_ERROR(mend.new_data->Truncate(layout.file_size(f)));
      mend.data_out = mend.new_data.get();
    } else {
      mend.data_out = file.data.get();
    }
    if (mend.rebuild_sidecar) {
      File* like = mend.new_data ? mend.new_data.get() : file.data.get();
      if (like == nullptr)
        return {Code::kIo, fmt::format("{}: missing, so its sidecar cannot be made again alone", file.path)};
      LZY_ASSIGN_OR_RETURN(mend.new_sidecar,
                           Sidecar::Create(context_.fs, NewSidecarPath(file.path), FreshContents(ensemble, f), *like));
      mend.parity_out = &mend.new_sidecar->file();
      mend.parity_base = mend.new_sidecar->ParityFileOffset(0);
      if (layout.parity_size(f) > 0)
        LZY_RETURN_IF_ERROR(mend.parity_out->Truncate(mend.parity_base + layout.parity_size(f)));
    } else if (file.sidecar) {
      mend.parity_out = &file.sidecar->file();
      mend.parity_base = file.sidecar->ParityFileOffset(0);
    }
    // Where edits stay, the note that a repair is going on would make rot of them.
    if ((mend.data_in_place || mend.cut_tail) && file.sidecar && !mend.edits_left) {
      LZY_RETURN_IF_ERROR(file.sidecar->SetIntent(kIntentRepair, Merged(mend.changed)));
    }
    return Status::Ok();
  }

  // A shared file's blocks are mended by all ranks; rank 0 has made what had to be made.
  Status OpenSharedOutputs(Ensemble& ensemble, std::size_t e) {
    Status status;
    FileMend& mend = mends_[e][0];
    FileView& file = ensemble.files[0];
    if (comm_.rank() != 0 && mend.any()) {
      if (mend.rebuild_data) {
        auto opened = context_.fs.Open(NewDataPath(file.path), OpenMode::kReadWrite, /*follow=*/false);
        status = opened.status();
        if (opened.ok()) mend.new_data = std::move(opened).value();
        mend.data_out = mend.new_data.get();
      } else {
        mend.data_out = file.data.get();
      }
      auto opened = context_.fs.Open(file.sidecar_path, OpenMode::kReadWrite, /*follow=*/false);
      if (status.ok()) status = opened.status();
      if (opened.ok()) mend.own_handle = std::move(opened).value();
      mend.parity_out = mend.own_handle.get();
      mend.parity_base = file.sidecar->ParityFileOffset(0);
    }
    return Agree(comm_, status);
  }

  Status ExecuteMending(const Layout& layout, Ensemble& ensemble, std::size_t e, Communicator& comm) {
    std::vector<BlockStream> data(layout.files()), parity(layout.regions());
    RowPipelineSetup setup;
    setup.layout = &layout;
    setup.comm = &comm;
    setup.data.assign(layout.files(), nullptr);
    setup.parity.assign(layout.regions(), nullptr);
    setup.memory = context_.options.memory;
    setup.threads = ThreadsFor(context_);
    setup.stop = context_.stop;
    for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
      FileView& file = ensemble.files[f];
      if (!Mine(file)) continue;
      data[f] = DataStream(layout, f, file.data.get(), file.data_tree());
      setup.data[f] = &data[f];
      if (file.sidecar) {
        parity[f] =
            ParityStream(layout, f, &file.sidecar->file(), file.sidecar->ParityFileOffset(0), file.parity_tree());
        setup.parity[f] = &parity[f];
      }
    }
    std::span<const RowRun> runs = runs_[e];
    std::unique_ptr<Communicator> self;
    if (shared()) {
      self = SelfCommunicator();
      setup.comm = self.get();
      setup.owner.assign(layout.devices(), 0);
      const std::size_t size = static_cast<std::size_t>(comm_.size());
      const std::size_t rank = static_cast<std::size_t>(comm_.rank());
      const std::size_t begin = runs.size() * rank / size;
      runs = runs.subspan(begin, runs.size() * (rank + 1) / size - begin);
    } else {
      setup.owner = OwnersIn(ensemble, comm);
    }
    auto source = [&](const RowBlock& block, ByteSpan bytes) -> Status {
      const BlockStream& stream =
          block.parity ? parity[layout.region_of(block.device)] : data[layout.file_of(block.device)];
      if (stream.expected != nullptr &&
          LeafOf(stream, block.place.index, bytes) == stream.expected->leaf(block.place.index)) {
        return Status::Ok();
      }
      return {
          Code::kBusy,
          fmt::format("{}: the block at {} was right when it was checked and is not any more; nothing was made from it",
                      stream.file->path(), stream.base + block.place.offset)};
    };
    auto target = [&](std::span<const RowBlock> blocks, ByteSpan bytes) -> Status {
      return WriteBlocks(
          layout, mends_[e][blocks[0].parity ? layout.region_of(blocks[0].device) : layout.file_of(blocks[0].device)],
          blocks, bytes);
    };
    Status status = ExecuteRows(setup, runs, source, target, stats_);
    return shared() ? Agree(comm_, status) : status;
  }

  std::vector<int> OwnersIn(const Ensemble& ensemble, Communicator& comm) const {
    std::vector<int> owner;
    std::set<int> parts;
    for (const FileView& file : ensemble.files) parts.insert(file.owner);
    for (const FileView& file : ensemble.files) {
      owner.push_back(&comm == &comm_ ? file.owner
                                      : static_cast<int>(std::distance(parts.begin(), parts.find(file.owner))));
    }
    return owner;
  }

  Status WriteBlocks(const Layout&, FileMend& mend, std::span<const RowBlock> blocks, ByteSpan bytes) {
    const bool parity = blocks[0].parity;
    const Tree* expected = parity ? mend.parity_expected : mend.data_expected;
    File* out = parity ? mend.parity_out : mend.data_out;
    const bool aside = parity ? mend.rebuild_sidecar : mend.rebuild_data;
    std::size_t at = 0;
    for (const RowBlock& block : blocks) {
      const ByteSpan one = bytes.subspan(at, block.place.length);
      at += block.place.length;
      const Hash leaf = HashBytes(parity ? HashTag::kParityLeaf : HashTag::kDataLeaf, block.place.index, one);
      if (expected != nullptr && leaf != expected->leaf(block.place.index)) {
        return {Code::kWriteFailed,
                fmt::format("{}: the block rebuilt for offset {} does not have its hash; not written", out->path(),
                            block.place.offset)};
      }
      if (expected == nullptr) (parity ? mend.parity_leaves : mend.data_leaves)[block.place.index] = leaf;
    }
    const bool zero = std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
    if (aside && zero) return Status::Ok();  // a new file is a hole there already
    LZY_RETURN_IF_ERROR(out->WriteAt((parity ? mend.parity_base : 0) + blocks[0].place.offset, bytes));
    std::lock_guard lock(mutex_);
    mend.written.insert(mend.written.end(), blocks.begin(), blocks.end());
    return Status::Ok();
  }

  // What was written is read back from the device and compared before it counts.
  Status VerifyWritten(const Layout&, FileMend& mend, const FileView& file) {
    if (mend.written.empty()) return Status::Ok();
    if (mend.data_out != nullptr) LZY_RETURN_IF_ERROR(mend.data_out->Sync());
    if (mend.parity_out != nullptr) LZY_RETURN_IF_ERROR(mend.parity_out->Sync());
    AlignedBuffer buffer;
    for (const RowBlock& block : mend.written) {
      buffer.Reserve(block.place.length);
      File* in = block.parity ? mend.parity_out : mend.data_out;
      const Tree* expected = block.parity ? mend.parity_expected : mend.data_expected;
      const Hash& want = expected != nullptr
                             ? expected->leaf(block.place.index)
                             : (block.parity ? mend.parity_leaves : mend.data_leaves)[block.place.index];
      const MutableByteSpan bytes(buffer.data(), block.place.length);
      auto got = in->ReadAtFromDevice((block.parity ? mend.parity_base : 0) + block.place.offset, bytes);
      if (!got.ok() || *got != bytes.size() ||
          HashBytes(block.parity ? HashTag::kParityLeaf : HashTag::kDataLeaf, block.place.index, bytes) != want) {
        return {Code::kWriteFailed,
                fmt::format("{}: what was written at {} reads back wrong; the device cannot be trusted",
                            block.parity ? file.sidecar_path : file.path, block.place.offset)};
      }
    }
    return Status::Ok();
  }

  // Contents of a sidecar that is made again, from what the rest of the dataset records; hashes are filled in by
  // Finish.
  SidecarContents FreshContents(const Ensemble& ensemble, std::uint32_t f) const {
    const Layout& layout = *ensemble.layout;
    SidecarContents contents;
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

  Status Finish(Ensemble& ensemble, std::size_t e, std::uint32_t f) {
    FileView& file = ensemble.files[f];
    FileMend& mend = mends_[e][f];
    const Layout& layout = *ensemble.layout;
    const bool salvaged = beyond_;

    SidecarContents contents = mend.rebuild_sidecar ? FreshContents(ensemble, f)
                               : file.sidecar       ? file.sidecar->contents()
                                                    : SidecarContents();
    contents.data_tree = mend.data_expected != nullptr
                             ? *mend.data_expected
                             : Tree::Build(TreeKind::kData, std::move(mend.data_leaves), layout.file_size(f));
    contents.parity_tree = mend.parity_expected != nullptr
                               ? *mend.parity_expected
                               : Tree::Build(TreeKind::kParity, std::move(mend.parity_leaves), layout.parity_size(f));
    if (!shared() && !salvaged) {
      if (contents.data_tree.Root() != ensemble.records[f].data_root ||
          contents.parity_tree.Root() != ensemble.records[f].parity_root) {
        return {Code::kWriteFailed,
                fmt::format("{}: rebuilt, but not what was committed; it was not put in place", file.path)};
      }
    }

    FileStat stat = file.stat;
    if (mend.rebuild_data) {
      const MemberRecord record =
          shared() ? contents.info.members.empty() ? MemberRecord() : contents.info.members[0] : ensemble.records[f];
      LZY_RETURN_IF_ERROR(mend.new_data->SetAccess(record.mode & 07777, record.uid, record.gid));
      LZY_RETURN_IF_ERROR(mend.new_data->SetTimes(record.mtime_ns, record.mtime_ns));
      LZY_RETURN_IF_ERROR(mend.new_data->Sync());
      LZY_ASSIGN_OR_RETURN(stat, mend.new_data->Stat());
    } else if (mend.data_in_place || mend.cut_tail || mend.finish_repair) {
      if (mend.cut_tail) LZY_RETURN_IF_ERROR(file.data->Truncate(layout.file_size(f)));
      const std::int64_t mtime_ns = mend.edits_left ? file.stat.mtime_ns : file.stamp.mtime_ns;
      LZY_RETURN_IF_ERROR(file.data->SetTimes(file.stat.atime_ns, mtime_ns));
      LZY_RETURN_IF_ERROR(file.data->Sync());
      LZY_ASSIGN_OR_RETURN(stat, file.data->Stat());
    }
    if (salvaged && mend.rebuild_data && !mend.rebuild_sidecar && !file.sidecar) return Status::Ok();

    contents.superblock.stamp.mtime_ns = mend.rebuild_data ? stat.mtime_ns : file.stamp.mtime_ns;
    contents.superblock.stamp.inode = stat.inode;
    contents.superblock.stamp.device = stat.device;
    if (mend.rebuild_sidecar) {
      if (mend.new_data) LZY_RETURN_IF_ERROR(mend.new_sidecar->file().CopyAccess(*mend.new_data));
      LZY_RETURN_IF_ERROR(mend.new_sidecar->WriteAll(contents));
    }
    if (mend.rebuild_data) LZY_RETURN_IF_ERROR(context_.fs.Rename(NewDataPath(file.path), file.path));
    if (mend.rebuild_sidecar) {
      LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(file.path));
      LZY_RETURN_IF_ERROR(context_.fs.Rename(NewSidecarPath(file.path), own));
    } else if (file.sidecar && (mend.heal_metadata || mend.rebuild_data)) {
      LZY_RETURN_IF_ERROR(file.sidecar->WriteAll(contents));
    }
    if (file.sidecar && !mend.rebuild_sidecar &&
        (mend.heal_metadata || mend.data_in_place || mend.cut_tail || file.sidecar->intent())) {
      // Pages of an epoch that broke off stay: what they name is still at risk unless it was taken back just now.
      const bool keep =
          file.sidecar->intent() && (file.sidecar->intent()->flags & kIntentRepair) == 0 && !request_.force;
      if (!keep) LZY_RETURN_IF_ERROR(file.sidecar->ClearIntent());
    }
    return context_.fs.SyncDirectory(DirectoryOf(file.path));
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

  void MarkRepaired() {
    std::map<std::string, const FileMend*> by_path;
    for (std::size_t e = 0; e < mends_.size(); ++e) {
      for (std::uint32_t f = 0; f < mends_[e].size(); ++f) {
        by_path[view_.ensembles[e].files[f].path] = &mends_[e][f];
        by_path[view_.ensembles[e].files[f].sidecar_path] = &mends_[e][f];
      }
    }
    for (Damage& d : report_.damage) {
      const FileMend* mend = by_path.count(d.path) != 0 ? by_path[d.path] : nullptr;
      if (mend == nullptr || d.transient || d.beyond_repair) continue;
      const bool edited = Edited(d.cause) && !request_.force;
      switch (d.part) {
        case DamagePart::kData:
          d.repaired = mend->rebuild_data || (!edited && (mend->data_in_place || mend->cut_tail));
          break;
        case DamagePart::kParity:
          d.repaired = mend->rebuild_sidecar || (mend->parity_in_place && !edited);
          break;
        case DamagePart::kMetadata:
          d.repaired = mend->rebuild_sidecar || mend->heal_metadata;
          break;
      }
    }
  }

  const Context& context_;
  Communicator& comm_;
  DatasetView& view_;
  const Findings& findings_;
  const MendRequest& request_;
  DatasetReport& report_;
  std::vector<std::vector<FileMend>> mends_;
  std::vector<std::optional<PlanCache>> plans_;
  std::vector<std::vector<RowRun>> runs_;
  RowStats stats_;
  std::mutex mutex_;
  bool beyond_ = false;
};

}  // namespace

Status AddLostDevices(const DatasetView& view, const MendRequest& request, Findings& findings) {
  for (std::uint32_t wanted : request.devices) {
    bool found = false;
    for (std::size_t e = 0; e < view.ensembles.size(); ++e) {
      const Ensemble& ensemble = view.ensembles[e];
      const Layout& layout = *ensemble.layout;
      for (std::uint32_t device = 0; device < layout.devices(); ++device) {
        const std::uint32_t number = view.ref.kind == DatasetKind::kSet ? ensemble.files[device].rank : device;
        if (number != wanted) continue;
        found = true;
        for (const bool parity : {false, true}) {
          const std::uint32_t f = parity ? layout.region_of(device) : layout.file_of(device);
          auto& list = parity ? findings.files[e][f].parity : findings.files[e][f].data;
          const std::uint64_t count = parity ? layout.parity_blocks(f) : layout.data_blocks(f);
          std::vector<bool> bad(count, false);
          std::vector<BadBlocks> kept;
          for (const BadBlocks& b : list) {
            if (b.transient) continue;
            for (std::uint64_t i = b.first; i < b.first + b.count; ++i) bad[i] = true;
            kept.push_back(b);
          }
          for (std::uint64_t i = 0; i < count; ++i) {
            const Layout::DeviceRow at = parity ? layout.LocateParity(f, i) : layout.LocateData(f, i);
            if (at.device == device && !bad[i]) kept.push_back({i, 1, BlockFault::kMissing, false});
          }
          list = std::move(kept);
        }
      }
    }
    if (!found) {
      return {Code::kInvalidArgument, fmt::format("--device: {} has no device {}: 0 to {} are accepted", view.ref.path,
                                                  wanted, view.superblock.members - 1)};
    }
  }
  return Status::Ok();
}

Status Mend(const Context& context, DatasetView& view, const Findings& findings, const MendRequest& request,
            DatasetReport& report) {
  return Mender(context, view, findings, request, report).Run();
}

}  // namespace lzy
