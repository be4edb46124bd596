#include "commit/fresh_sidecar.h"

#include "base/many_writers.h"
#include "dataset/by_servers.h"
#include "sidecar/scratch.h"

namespace lzy {

// Trees get their shape here, because Sidecar::Fits and Sidecar::Create need the size of the metadata.
void FillShape(FileSystem& fs, const Options& options, DatasetKind kind, const Layout& layout, std::uint32_t f,
               FileJob& job, SidecarContents& contents) {
  job.scratch = ScratchBeside(fs, job.data->path());
  job.InitLeaves(layout, f);
  job.key = options.key.get();
  contents.key = options.key;
  contents.info.stripe_option = options.by_servers ? layout.unit() : options.stripe;
  contents.info.group_option = options.group;
  contents.data_tree = Tree::OfShape(TreeKind::kData, layout.data_blocks(f), layout.file_size(f));
  contents.parity_tree = Tree::OfShape(TreeKind::kParity, job.parity_leaves.blocks(), layout.parity_size(f));
  Superblock& sb = contents.superblock;
  sb.state = SidecarState::kCommitted;
  sb.kind = kind;
  sb.placement = layout.parameters().placement;
  sb.compact = options.compact;
  sb.automatic_block_size = options.block_size == kAutomaticBlockSize;
  sb.block_size = layout.block_size();
  sb.unit = layout.unit();
  sb.parity = layout.parity();
  sb.stamp = {job.before.size, job.before.mtime_ns, job.before.inode, job.before.file_system, job.before.birth_ns};
  sb.commit_clock_ns = job.clock_ns;
  sb.parity_size = layout.parity_size(f);
  sb.parity_stride = layout.parity_stride();
  sb.first_row = layout.first_row();
}

void FillSharedShape(const Layout& layout, const std::string& name, const FileJob& job, SidecarContents& contents) {
  contents.superblock.members = layout.devices();
  contents.superblock.largest_group = layout.largest_group();
  InfoRecord& info = contents.info;
  info.name = name;
  info.groups = layout.parameters().groups;
  info.members.push_back(RecordOf(0, job.before, layout.parity_size(0), ""));
  info.path.leaf_count = 1;
  info.path.bytes = job.before.size;
}

MemberRecord RecordOf(std::uint32_t rank, const FileStat& stat, std::uint64_t parity_size, const std::string& domain) {
  return {rank, stat.mode, stat.uid, stat.gid, stat.mtime_ns, stat.size, {}, parity_size, {}, domain};
}

void FillSharedRoots(FileJob& job, SidecarContents& contents) {
  contents.data_tree = std::move(job.data_tree);
  contents.parity_tree = std::move(job.parity_tree);
  contents.superblock.wall_time_ns = WallClockNs();
  contents.info.members[0].data_root = contents.data_tree.Root();
  contents.info.members[0].parity_root = contents.parity_tree.Root();
  const Tree members = Tree::Build(TreeKind::kDataset, {contents.data_tree.Root()}, job.before.size);
  contents.superblock.dataset_root = DatasetRootOf(contents.superblock, members.Root());
}

// The file gets its final size at once, so threads can write parity at any place.
Status FreshSidecar::Begin() {
  job_.data = &data_;
  LZY_ASSIGN_OR_RETURN(job_.before, data_.Stat());
  // A copy has stripes of its own. Ask for those of `like_`, because `data_` may be no real file.
  if (options_.stripe_servers) {
    options_.by_servers.reset();
    (void)ApplyServers(context_.fs, like_, job_.before.size, options_);
  }
  LZY_ASSIGN_OR_RETURN(layout_, Layout::Create(SharedGeometry(options_, job_.before.size), {job_.before.size}));
  FillShape(context_.fs, options_, DatasetKind::kShared, *layout_, 0, job_, contents_);
  FillSharedShape(*layout_, name_, job_, contents_);
  contents_.superblock.uuid = NewUuid();
  contents_.superblock.generation = 1;
  LZY_ASSIGN_OR_RETURN(sidecar_, Sidecar::Create(context_.fs, path_, contents_, like_));
  LZY_RETURN_IF_ERROR(sidecar_->file().Lock());  // so that no other process removes it as debris
  LZY_RETURN_IF_ERROR(job_.Settle(&sidecar_->file()));
  contents_.superblock.commit_clock_ns = job_.clock_ns;
  job_.parity_out = &sidecar_->file();
  job_.parity_base = sidecar_->ParityFileOffset(0);
  job_.parity_is_fresh = true;
  if (layout_->parity_size(0) == 0) return Status::Ok();
  LZY_RETURN_IF_ERROR(sidecar_->file().Truncate(job_.parity_base + layout_->parity_size(0)));
  ExpectWriters(sidecar_->file(), ThreadsFor(context_), 0);
  return Status::Ok();
}

Status FreshSidecar::Encode() {
  const auto self = SelfCommunicator();
  PlanCache plans(*layout_);
  return InStretches(*layout_, [&](Interval stretch) -> Status {
    LZY_ASSIGN_OR_RETURN(const auto runs, RowsToEncode(*layout_, plans, {}, /*all=*/true, stretch));
    return pass_.Run(*layout_, *self, std::vector<int>(layout_->devices(), 0), {&job_}, runs);
  });
}

// The sidecar does not count before it has its final name. So the parity may become durable together with the metadata.
Status FreshSidecar::Finish() {
  LZY_RETURN_IF_ERROR(job_.MakeTrees(*layout_, 0));
  FillSharedRoots(job_, contents_);
  return sidecar_->WriteAll(contents_);
}

}  // namespace lzy
