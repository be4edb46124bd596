// Protect: encoding a dataset, whole or only the rows an epoch touched, and committing the result (docs/design.md "Commit").

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "engine/engine.h"
#include "engine/examine.h"
#include "engine/rehome.h"
#include "geometry/grouping.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

using SteadyClock = std::chrono::steady_clock;
double SecondsSince(SteadyClock::time_point start) { return std::chrono::duration<double>(SteadyClock::now() - start).count(); }

std::int64_t WallNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Waits until the file system's clock has left the tick of the last modification, so that any later one shows in the mtime
// (otherwise the stamp would be racy, DESIGN §7). Bounded: a file from the future is left racy.
std::int64_t SettledClock(std::int64_t mtime_ns) {
  const std::int64_t limit = std::max<std::int64_t>(100'000'000, 4 * CoarseGranularityNs());
  std::int64_t now = CoarseNowNs();
  while (now <= mtime_ns && mtime_ns - now <= limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now = CoarseNowNs();
  }
  return now;
}

// The geometry that counts: an existing dataset keeps its own but for options that were given.
Options EffectiveOptions(const Options& options, const DatasetView& view) {
  Options out = options;
  if (!view.committed) return out;
  auto given = [&](const char* name) { return options.given.count(name) != 0; };
  if (!given("parity")) out.parity = view.superblock.parity;
  if (!given("group")) out.group = view.info.group_option;
  if (!given("block-size")) out.block_size = view.superblock.block_size;
  if (!given("stripe")) out.stripe = view.info.stripe_option;
  return out;
}

// Everything one file brings into and gets out of an encoding.
struct FileJob {
  File* data = nullptr;
  FileStat before;
  std::int64_t clock_ns = 0;
  const Tree* old_data = nullptr;    // committed leaves that untouched blocks must still have; null: nothing to hold them to
  const Tree* old_parity = nullptr;  // leaves of rows that are not encoded again; null: all are
  const Touched* touched = nullptr;  // null: whole file
  std::unique_ptr<Sidecar> fresh;    // a sidecar built anew, or
  Sidecar* in_place = nullptr;       // the one updated
  File* parity_out = nullptr;
  std::uint64_t parity_base = 0;
  std::vector<Hash> data_leaves, parity_leaves;
  std::vector<std::uint8_t> data_known, parity_known;
  Tree data_tree{TreeKind::kData}, parity_tree{TreeKind::kParity};
};

bool IsTouched(const Touched* touched, std::uint64_t offset, std::uint64_t length) {
  if (touched == nullptr || touched->whole) return true;
  auto after = std::upper_bound(touched->ranges.begin(), touched->ranges.end(), offset + length - 1,
                                [](std::uint64_t at, const ByteRange& r) { return at < r.offset; });
  if (after == touched->ranges.begin()) return false;
  const ByteRange& last = *std::prev(after);
  return last.offset + last.length > offset;
}

// Sorted, disjoint union.
void Normalise(Touched& touched) {
  if (touched.whole) {
    touched.ranges.clear();
    return;
  }
  std::sort(touched.ranges.begin(), touched.ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::vector<ByteRange> out;
  for (const ByteRange& r : touched.ranges) {
    if (r.length == 0) continue;
    if (!out.empty() && r.offset <= out.back().offset + out.back().length) {
      out.back().length = std::max(out.back().length, r.offset + r.length - out.back().offset);
    } else {
      out.push_back(r);
    }
  }
  touched.ranges = std::move(out);
}

// What changes with the size: the old last block, and everything between the old end and the new.
void AddResize(Touched& touched, std::uint64_t old_size, std::uint64_t new_size, std::uint64_t block) {
  if (touched.whole || old_size == new_size) return;
  const std::uint64_t from = std::min(old_size, new_size) / block * block;
  touched.ranges.push_back({from, std::max(old_size, new_size) - from});
  Normalise(touched);
}

class Encoder {
 public:
  Encoder(const Context& context, const DatasetRef& ref, const ProtectRequest& request, DatasetReport& report)
      : context_(context), comm_(context.comm), ref_(ref), request_(request), report_(report) {}

  Status Run() {
    const auto start = SteadyClock::now();
    Status status = ref_.kind == DatasetKind::kShared ? RunShared() : RunSet();
    report_.phases.total = SecondsSince(start);
    LZY_RETURN_IF_ERROR(GatherStats());
    return status;
  }

 private:
  bool shared() const { return ref_.kind == DatasetKind::kShared; }

  // ------------------------------------------------------------------------------------------------------ what is there

  // Opens the dataset with locks held, creating never-committed sidecars for files that have none.
  Status Open() {
    Status made;
    auto prepare = [&](const std::string& path, std::uint32_t rank) -> Status {
      auto data = context_.fs.Open(path, OpenMode::kRead);
      if (!data.ok()) return data.status();
      LZY_ASSIGN_OR_RETURN(const std::string sidecar_path, Rehome(context_.fs, path));
      auto existing = Sidecar::Load(context_.fs, sidecar_path, OpenMode::kRead);
      if (existing.ok()) return Status::Ok();
      if (existing.status().code() == Code::kNewerFormat) return existing.status();
      if (existing.status().code() == Code::kUnprotected && request_.touched == std::nullopt) {
        report_.warnings.push_back(fmt::format("{}: {}; it is made anew", sidecar_path, existing.status().message()));
      }
      const SidecarContents empty = EmptyContents(
          context_.options, ref_.kind, shared() ? BaseNameOf(path) : PatternTail(ref_.path), rank);
      return LockSidecar(context_.fs, sidecar_path, data->get(), &empty, context_.options.timeout_seconds).status();
    };
    if (shared()) {
      if (comm_.rank() == 0) made = prepare(ref_.path, 0);
    } else {
      for (const auto& [rank, path] : ref_.members) {
        auto stat = context_.fs.Stat(path);
        if (!stat.ok() && stat.status().code() == Code::kNotFound) continue;  // a lost member: judged below
        if (made = prepare(path, rank); !made.ok()) break;
      }
    }
    LZY_RETURN_IF_ERROR(Agree(comm_, made));
    LZY_ASSIGN_OR_RETURN(view_, OpenDataset(context_, ref_, {/*write=*/true}));
    return Status::Ok();
  }

  // ------------------------------------------------------------------------------------------- lzy-protect on the protected

  // Judges what is there by its hashes. True: nothing is left to be done (the report says why).
  Result<bool> JudgeExisting(const Options& options) {
    LZY_ASSIGN_OR_RETURN(const Findings findings, Examine(context_, view_, false));
    Describe(view_, findings, report_);
    const bool blocked = report_.state == DatasetState::kDamaged || report_.state == DatasetState::kUnrepairable;
    const bool data_damaged = std::any_of(report_.damage.begin(), report_.damage.end(), [](const Damage& d) {
      return !d.transient && d.part == DamagePart::kData && d.cause != DamageCause::kStale && d.cause != DamageCause::kAtRisk;
    });
    if (blocked && data_damaged && !request_.force) return true;
    const bool missing = std::any_of(report_.damage.begin(), report_.damage.end(), [](const Damage& d) {
      return d.part == DamagePart::kData && d.cause == DamageCause::kMissing && d.length == 0;
    });
    if (missing) return true;
    const bool same_geometry = options.parity == view_.superblock.parity && options.group == view_.info.group_option &&
                               options.block_size == view_.superblock.block_size && options.stripe == view_.info.stripe_option;
    if (findings.clean() && same_geometry && StampsFresh()) {
      report_.state = DatasetState::kIntact;
      return true;
    }
    std::uint64_t stale = 0, at_risk = 0, forced = 0;
    for (const Damage& d : report_.damage) {
      if (d.transient || d.part != DamagePart::kData) continue;
      (d.cause == DamageCause::kStale ? stale : d.cause == DamageCause::kAtRisk ? at_risk : forced) += d.length;
    }
    if (stale > 0) report_.warnings.push_back(fmt::format("{} changed since the last commit; committed as they are now", FormatSize(stale)));
    if (at_risk > 0) {
      report_.warnings.push_back(
          fmt::format("{} were being written when the last epoch broke off; committed as they are now", FormatSize(at_risk)));
    }
    if (forced > 0) report_.warnings.push_back(fmt::format("{} are damaged; committed as they are now (--force)", FormatSize(forced)));
    report_.damage.clear();
    return false;
  }

  bool StampsFresh() const {
    for (const Ensemble& ensemble : view_.ensembles) {
      for (const FileView& file : ensemble.files) {
        if (file.intent || !file.present || file.stat.mtime_ns != file.stamp.mtime_ns || file.stat.size != file.stamp.size) return false;
        if (!file.sidecar_usable() || file.stamp.inode != file.stat.inode) return false;
      }
    }
    return true;
  }

  // -------------------------------------------------------------------------------------------------------------- encode

  // The rows that must be encoded: all, or those that touched blocks belong to.
  Result<std::vector<RowRun>> RunsFor(const Layout& layout, const std::vector<const Touched*>& touched, bool all) {
    std::vector<RowRun> runs;
    const std::uint32_t slices = layout.slices();
    if (all) {
      std::uint64_t rows = 0;
      for (std::uint32_t g = 0; g < layout.group_count(); ++g) rows = std::max(rows, layout.unit_rows(g));
      for (std::uint64_t t = 0; t < rows; ++t) {
        for (std::uint32_t g = 0; g < layout.group_count(); ++g) {
          if (t >= layout.unit_rows(g)) continue;
          const std::uint64_t length = layout.UnitRowLength(g, t);
          if (length == 0) continue;
          LZY_ASSIGN_OR_RETURN(auto plan, plans_->Encode(g));
          const std::uint64_t used = (length + layout.block_size() - 1) / layout.block_size();
          runs.push_back({g, t, 0, static_cast<std::uint32_t>(used), std::move(plan)});
        }
      }
      return runs;
    }
    std::set<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> rows;  // unit row, group, slice
    for (std::uint32_t f = 0; f < layout.files(); ++f) {
      if (touched[f] == nullptr) continue;
      for (const ByteRange& range : touched[f]->ranges) {
        const std::uint64_t end = std::min(range.offset + range.length, layout.file_size(f));
        for (std::uint64_t i = range.offset / layout.block_size(); i * layout.block_size() < end; ++i) {
          const RowId row = layout.LocateData(f, i).row;
          rows.insert({row.unit_row, row.group, row.slice});
        }
        // Rows that lost their last data by truncation keep a zero-length parity; rows that got shorter are those of the last
        // block, which is part of the range, and those whose longest block was cut off.
        const std::uint64_t cut_end = (range.offset + range.length + layout.block_size() - 1) / layout.block_size();
        for (std::uint64_t i = (layout.file_size(f) + layout.block_size() - 1) / layout.block_size(); i < cut_end; ++i) {
          if (i * layout.block_size() < range.offset) continue;
          const RowId row = layout.LocateData(f, i).row;
          if (row.unit_row < layout.unit_rows(row.group) && layout.RowLength(row) > 0) {
            rows.insert({row.unit_row, row.group, row.slice});
          }
        }
      }
    }
    for (const auto& [t, g, slice] : rows) {
      if (!runs.empty()) {
        RowRun& last = runs.back();
        if (last.unit_row == t && last.group == g && last.first_slice + last.slices == slice && slice < slices) {
          ++last.slices;
          continue;
        }
      }
      LZY_ASSIGN_OR_RETURN(auto plan, plans_->Encode(g));
      runs.push_back({g, t, slice, 1, std::move(plan)});
    }
    return runs;
  }

  void InitLeaves(const Layout& layout, std::uint32_t f, FileJob& job) {
    job.data_leaves.assign(layout.data_blocks(f), Hash{});
    job.data_known.assign(job.data_leaves.size(), 0);
    if (f < layout.regions()) {
      job.parity_leaves.assign(layout.parity_blocks(f), Hash{});
      job.parity_known.assign(job.parity_leaves.size(), 0);
    }
  }

  Status Execute(const Layout& layout, Communicator& comm, std::vector<int> owner, std::vector<FileJob*> jobs,
                 std::span<const RowRun> runs) {
    std::vector<BlockStream> data(layout.files()), parity(layout.regions());
    RowPipelineSetup setup;
    setup.layout = &layout;
    setup.comm = &comm;
    setup.owner = std::move(owner);
    setup.data.assign(layout.files(), nullptr);
    setup.parity.assign(layout.regions(), nullptr);
    for (std::uint32_t f = 0; f < layout.files(); ++f) {
      if (jobs[f] == nullptr) continue;
      data[f] = DataStream(layout, f, jobs[f]->data, nullptr);
      setup.data[f] = &data[f];
    }
    setup.memory = context_.options.memory;
    setup.threads = ThreadsFor(context_);
    setup.stop = context_.stop;
    std::uint64_t total = 0;
    for (const RowRun& run : runs) total += layout.block_size() * run.slices * (layout.group(run.group).size() - layout.parity());
    std::atomic<std::uint64_t> done{0};
    if (context_.progress) {
      setup.progress = [&](std::uint64_t bytes) {
        done += bytes;
        context_.progress("protect", done, total);
      };
    }
    auto source = [&](const RowBlock& block, ByteSpan bytes) -> Status {
      FileJob& job = *jobs[layout.file_of(block.device)];
      const std::uint64_t i = block.place.index;
      job.data_leaves[i] = HashBytes(HashTag::kDataLeaf, i, bytes);
      job.data_known[i] = 1;
      encoded_ += bytes.size();
      if (job.old_data != nullptr && i < job.old_data->leaf_count() && !IsTouched(job.touched, block.place.offset, bytes.size()) &&
          job.data_leaves[i] != job.old_data->leaf(i)) {
        // Nobody wrote it, yet it is not what was committed: rot. Its old leaf stands, so that it stays visible as damage.
        job.data_leaves[i] = job.old_data->leaf(i);
        std::lock_guard lock(mutex_);
        rot_.push_back({job.data->path(), block.device, DamagePart::kData, block.place.offset, bytes.size(), DamageCause::kHash,
                        false, false, false, {}});
      }
      return Status::Ok();
    };
    auto target = [&](std::span<const RowBlock> blocks, ByteSpan bytes) -> Status {
      FileJob& job = *jobs[layout.region_of(blocks[0].device)];
      std::size_t at = 0;
      bool zero = true;
      for (const RowBlock& block : blocks) {
        const ByteSpan one = bytes.subspan(at, block.place.length);
        at += block.place.length;
        job.parity_leaves[block.place.index] = HashBytes(HashTag::kParityLeaf, block.place.index, one);
        job.parity_known[block.place.index] = 1;
      }
      // Parity of holes is a hole: a fresh sidecar reads as zeros where nothing was written.
      if (job.fresh || fresh_shared_) zero = std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
      else zero = false;
      if (zero) return Status::Ok();
      return job.parity_out->WriteAt(job.parity_base + blocks[0].place.offset, bytes);
    };
    return ExecuteRows(setup, runs, source, target, stats_);
  }

  // Trees from the leaves that were computed and, for the rest, the old ones.
  Status MakeTrees(const Layout& layout, std::uint32_t f, FileJob& job) {
    auto make = [&](TreeKind kind, std::vector<Hash>& leaves, std::vector<std::uint8_t>& known, const Tree* old, std::uint64_t bytes,
                    auto&& is_hole, Tree& tree) -> Status {
      std::vector<std::uint64_t> changed;
      for (std::uint64_t i = 0; i < leaves.size(); ++i) {
        if (known[i] != 0) {
          changed.push_back(i);
        } else if (is_hole(i)) {
          leaves[i] = Hash{};
          changed.push_back(i);
        } else if (old != nullptr && i < old->leaf_count()) {
          leaves[i] = old->leaf(i);
        } else {
          return {Code::kInternal, fmt::format("block {} of {} was not encoded", i, leaves.size())};
        }
      }
      if (old != nullptr) {
        tree = *old;
        tree.Update(std::move(leaves), changed, bytes);
      } else {
        tree = Tree::Build(kind, std::move(leaves), bytes);
      }
      return Status::Ok();
    };
    LZY_RETURN_IF_ERROR(make(TreeKind::kData, job.data_leaves, job.data_known, job.old_parity != nullptr ? job.old_data : nullptr,
                             layout.file_size(f), [](std::uint64_t) { return false; }, job.data_tree));
    const BlockStream stream = ParityStream(layout, f, nullptr, 0, nullptr);
    return make(TreeKind::kParity, job.parity_leaves, job.parity_known, job.old_parity, layout.parity_size(f),
                [&](std::uint64_t i) { return stream.place(i).length == 0; }, job.parity_tree);
  }

  Status CheckUnchanged(const std::string& path, FileJob& job) {
    LZY_ASSIGN_OR_RETURN(const FileStat after, job.data->Stat());
    if (after.size != job.before.size || after.mtime_ns != job.before.mtime_ns) {
      return {Code::kBusy, fmt::format("{}: something changed the file while its parity was being computed; it stays as it was protected before", path)};
    }
    return Status::Ok();
  }

  void FillSuperblock(SidecarContents& contents, const Layout& layout, const FileJob& job, std::uint32_t region) const {
    Superblock& sb = contents.superblock;
    sb.state = SidecarState::kCommitted;
    sb.kind = ref_.kind;
    sb.placement = layout.parameters().placement;
    sb.block_size = layout.block_size();
    sb.unit = layout.unit();
    sb.parity = layout.parity();
    sb.stamp = {job.before.size, job.before.mtime_ns, job.before.inode, job.before.device};
    sb.commit_clock_ns = job.clock_ns;
    sb.parity_size = layout.parity_size(region);
    sb.parity_stride = layout.parity_stride();
    sb.first_row = layout.first_row();
  }

  static Hash DatasetRoot(DatasetKind kind, const Layout& layout, std::uint32_t largest_group, std::uint64_t members, const Hash& tree_root) {
    ByteWriter out;
    out.Put(static_cast<std::uint32_t>(kind));
    out.Put(layout.block_size());
    out.Put(layout.unit());
    out.Put(largest_group);
    out.Put(layout.parity());
    out.Put(members);
    out.PutBytes(tree_root.bytes);
    return HashBytes(HashTag::kDatasetRoot, 0, out.bytes());
  }

  // -------------------------------------------------------------------------------------------------------------- shared

  Status RunShared() {
    LZY_RETURN_IF_ERROR(Open());
    FileView& file = view_.ensembles[0].files[0];
    if (!file.present) return {Code::kNotFound, fmt::format("{}: no such file", ref_.path)};
    const Options options = EffectiveOptions(context_.options, view_);
    if (!request_.touched && view_.committed) {
      LZY_ASSIGN_OR_RETURN(const bool done, JudgeExisting(options));
      if (done) return Status::Ok();
    }
    Touched touched;
    if (request_.touched) {
      LZY_ASSIGN_OR_RETURN(touched, UnionOfTouched(0));
    }

    // The file as it is when the reading starts; the same on every rank.
    FileJob job;
    job.data = file.data.get();
    Status settled;
    if (job.data == nullptr) {
      settled = {Code::kNotFound, fmt::format("{}: no such file", ref_.path)};
    } else if (comm_.rank() == 0) {
      settled = Settle(job);
    }
    LZY_RETURN_IF_ERROR(Agree(comm_, settled));
    LZY_RETURN_IF_ERROR(ShareStat(job));

    GeometryParameters parameters;
    parameters.kind = DatasetKind::kShared;
    parameters.placement = ParityPlacement::kPooled;
    parameters.block_size = options.block_size;
    parameters.parity = options.parity;
    const Grouping grouping = DealGroups(Anonymous(options.group), options.group, options.parity);
    parameters.groups = grouping.groups;
    std::uint32_t largest = 0;
    for (const auto& group : parameters.groups) largest = std::max(largest, static_cast<std::uint32_t>(group.size()));
    parameters.unit = ChooseUnit(DatasetKind::kShared, options.block_size, options.stripe, largest, job.before.size);
    LZY_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(parameters, {job.before.size}));
    InitLeaves(layout, 0, job);

    SidecarContents shape;
    shape.superblock.uuid = view_.superblock.uuid;
    if (view_.superblock.kind != DatasetKind::kShared) {  // was a member of a set before: no longer
      LZY_ASSIGN_OR_RETURN(shape.superblock.uuid, CommonUuid());
    }
    shape.superblock.generation = view_.superblock.generation + 1;
    shape.superblock.members = layout.devices();
    shape.superblock.largest_group = layout.largest_group();
    FillSuperblock(shape, layout, job, 0);
    shape.info.name = BaseNameOf(ref_.path);
    shape.info.stripe_option = options.stripe;
    shape.info.group_option = options.group;
    shape.info.groups = parameters.groups;
    shape.info.members.push_back({0, job.before.mode, job.before.uid, job.before.gid, job.before.mtime_ns, job.before.size, {}, layout.parity_size(0), {}, ""});
    shape.info.path.leaf_count = 1;
    shape.info.path.bytes = job.before.size;
    shape.data_tree = Tree::Build(TreeKind::kData, job.data_leaves, job.before.size);
    shape.parity_tree = Tree::Build(TreeKind::kParity, job.parity_leaves, layout.parity_size(0));

    // Only the touched rows, in place, if what is there can serve as the rest; otherwise everything, in a new file.
    const bool trusted = view_.committed && file.sidecar && request_.touched && !touched.whole &&
                         file.sidecar->unknown_data_leaves().empty() && file.sidecar->unknown_parity_leaves().empty();
    LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles,
                         comm_.AllReduceMax(trusted && file.sidecar->Fits(shape) ? 0 : 1));
    const bool incremental = obstacles == 0;
    if (trusted) AddResize(touched, file.stamp.size, job.before.size, layout.block_size());
    if (trusted && view_.superblock.block_size == layout.block_size()) {
      job.old_data = &file.sidecar->contents().data_tree;
      job.touched = &touched;
    }
    if (incremental) job.old_parity = &file.sidecar->contents().parity_tree;

    std::string out_path = file.sidecar_path;
    Status made;
    if (!incremental) {
      out_path = NewSidecarPath(ref_.path);
      if (comm_.rank() == 0) {
        auto fresh = Sidecar::Create(context_.fs, out_path, shape, *file.data);
        made = fresh.status();
        if (fresh.ok()) {
          job.fresh = std::move(fresh).value();
          job.parity_base = job.fresh->ParityFileOffset(0);
          if (layout.parity_size(0) > 0) made = job.fresh->file().Truncate(job.parity_base + layout.parity_size(0));
        }
      }
      fresh_shared_ = true;
    } else {
      job.in_place = file.sidecar.get();
      job.parity_base = file.sidecar->ParityFileOffset(0);
    }
    LZY_RETURN_IF_ERROR(Agree(comm_, made));
    LZY_ASSIGN_OR_RETURN(job.parity_base, comm_.AllReduceMax(job.parity_base));
    auto parity_file = context_.fs.Open(out_path, OpenMode::kReadWrite, /*follow=*/false);
    made = parity_file.status();
    if (parity_file.ok()) job.parity_out = parity_file->get();
    Status status = Agree(comm_, made);
    if (status.ok()) status = EncodeAndCommitShared(layout, job, touched, shape, incremental, out_path);
    if (!status.ok() && !incremental && comm_.rank() == 0) (void)context_.fs.Remove(out_path);
    return status;
  }

  Status EncodeAndCommitShared(const Layout& layout, FileJob& job, const Touched& touched, SidecarContents& contents, bool incremental,
                               const std::string& out_path) {
    plans_.emplace(layout);
    std::vector<const Touched*> per_file{&touched};
    LZY_ASSIGN_OR_RETURN(const std::vector<RowRun> runs, RunsFor(layout, per_file, !incremental));
    // Contiguous spans of rows, one a rank: neither data nor parity cross the network.
    const std::size_t size = static_cast<std::size_t>(comm_.size());
    const std::size_t rank = static_cast<std::size_t>(comm_.rank());
    const std::size_t begin = runs.size() * rank / size;
    const std::size_t end = runs.size() * (rank + 1) / size;
    auto self = SelfCommunicator();
    Status mine = Execute(layout, *self, std::vector<int>(layout.devices(), 0), {&job}, std::span(runs).subspan(begin, end - begin));
    auto start = SteadyClock::now();
    if (mine.ok()) mine = job.data->Sync();
    if (mine.ok()) mine = job.parity_out->Sync();
    report_.phases.sync += SecondsSince(start);
    LZY_RETURN_IF_ERROR(Agree(comm_, mine));
    start = SteadyClock::now();
    LZY_RETURN_IF_ERROR(GatherLeaves(job.data_leaves, job.data_known));
    LZY_RETURN_IF_ERROR(GatherLeaves(job.parity_leaves, job.parity_known));
    report_.phases.exchange += SecondsSince(start);

    start = SteadyClock::now();
    Status committed;
    if (comm_.rank() == 0) {
      committed = MakeTrees(layout, 0, job);
      if (committed.ok()) committed = CheckUnchanged(ref_.path, job);
      if (committed.ok()) {
        contents.data_tree = std::move(job.data_tree);
        contents.parity_tree = std::move(job.parity_tree);
        contents.superblock.wall_time_ns = WallNowNs();
        contents.info.members[0].data_root = contents.data_tree.Root();
        contents.info.members[0].parity_root = contents.parity_tree.Root();
        const Tree members = Tree::Build(TreeKind::kDataset, {contents.data_tree.Root()}, job.before.size);
        contents.superblock.dataset_root =
            DatasetRoot(DatasetKind::kShared, layout, layout.largest_group(), 1, members.Root());
        report_.root = contents.superblock.dataset_root;
        Sidecar& sidecar = incremental ? *job.in_place : *job.fresh;
        committed = sidecar.WriteAll(contents);
        if (committed.ok() && !incremental) committed = PublishSidecar(out_path, ref_.path);
        report_.sidecar_bytes = sidecar.file_size();
      }
    }
    LZY_RETURN_IF_ERROR(Agree(comm_, committed));
    report_.phases.write += SecondsSince(start);
    return FinishReport(layout, contents, {&layout});
  }

  Status PublishSidecar(const std::string& from, const std::string& data_path) {
    LZY_ASSIGN_OR_RETURN(const std::string to, SidecarPath(data_path));
    LZY_RETURN_IF_ERROR(context_.fs.Rename(from, to));
    return context_.fs.SyncDirectory(DirectoryOf(to));
  }

  static std::vector<std::string> Anonymous(std::uint32_t count) {
    std::vector<std::string> domains;
    for (std::uint32_t i = 0; i < count; ++i) domains.push_back(std::to_string(i));
    return domains;
  }

  Result<Uuid> CommonUuid() {
    Uuid uuid = NewUuid();
    Communicator::Bytes bytes(uuid.begin(), uuid.end());
    LZY_RETURN_IF_ERROR(comm_.Broadcast(bytes, 0));
    std::copy(bytes.begin(), bytes.end(), uuid.begin());
    return uuid;
  }

  Status Settle(FileJob& job) {
    LZY_ASSIGN_OR_RETURN(job.before, job.data->Stat());
    job.clock_ns = SettledClock(job.before.mtime_ns);
    LZY_ASSIGN_OR_RETURN(job.before, job.data->Stat());
    return Status::Ok();
  }

  Status ShareStat(FileJob& job) {
    Communicator::Bytes bytes;
    if (comm_.rank() == 0) {
      ByteWriter out;
      out.Put(job.before.size);
      out.Put(job.before.mtime_ns);
      out.Put(job.before.inode);
      out.Put(job.before.device);
      out.Put(job.before.mode);
      out.Put(job.before.uid);
      out.Put(job.before.gid);
      out.Put(job.clock_ns);
      bytes = std::move(out.bytes());
    }
    LZY_RETURN_IF_ERROR(comm_.Broadcast(bytes, 0));
    ByteReader in(bytes);
    job.before.size = in.Get<std::uint64_t>();
    job.before.mtime_ns = in.Get<std::int64_t>();
    job.before.inode = in.Get<std::uint64_t>();
    job.before.device = in.Get<std::uint64_t>();
    job.before.mode = in.Get<std::uint32_t>();
    job.before.uid = in.Get<std::uint32_t>();
    job.before.gid = in.Get<std::uint32_t>();
    job.clock_ns = in.Get<std::int64_t>();
    return Status::Ok();
  }

  // What all ranks together touched of file `rank`.
  Result<Touched> UnionOfTouched(std::uint32_t rank) {
    Touched mine;
    mine.whole = false;
    if (auto at = request_.touched->find(rank); at != request_.touched->end()) mine = at->second;
    ByteWriter out;
    out.Put<std::uint8_t>(mine.whole);
    for (const ByteRange& r : mine.ranges) {
      out.Put(r.offset);
      out.Put(r.length);
    }
    LZY_ASSIGN_OR_RETURN(const auto all, comm_.AllGather(out.bytes()));
    Touched touched;
    touched.whole = false;
    for (const auto& bytes : all) {
      ByteReader in(bytes);
      touched.whole = in.Get<std::uint8_t>() != 0 || touched.whole;
      while (in.remaining() >= 16) {
        const auto offset = in.Get<std::uint64_t>();
        touched.ranges.push_back({offset, in.Get<std::uint64_t>()});
      }
    }
    Normalise(touched);
    return touched;
  }

  Status GatherLeaves(std::vector<Hash>& leaves, std::vector<std::uint8_t>& known) {
    ByteWriter out;
    if (comm_.rank() != 0) {
      for (std::uint64_t i = 0; i < leaves.size();) {
        if (known[i] == 0) {
          ++i;
          continue;
        }
        std::uint64_t end = i;
        while (end < leaves.size() && known[end] != 0) ++end;
        out.Put(i);
        out.Put(end - i);
        for (; i < end; ++i) out.PutBytes(leaves[i].bytes);
      }
    }
    LZY_ASSIGN_OR_RETURN(const auto all, comm_.Gather(out.bytes(), 0));
    for (const auto& bytes : all) {
      ByteReader in(bytes);
      while (in.remaining() > 0) {
        auto first = in.Get<std::uint64_t>();
        for (auto count = in.Get<std::uint64_t>(); count > 0 && in.ok() && first < leaves.size(); --count, ++first) {
          ByteSpan raw = in.GetBytes(16);
          if (raw.size() == 16) std::copy(raw.begin(), raw.end(), leaves[first].bytes.begin());
          known[first] = 1;
        }
        if (!in.ok()) return {Code::kInternal, "leaves of a rank are malformed"};
      }
    }
    return Status::Ok();
  }

  // ----------------------------------------------------------------------------------------------------------------- set

  struct MemberFacts {
    FileStat before;
    std::int64_t clock_ns = 0;
    std::string domain;
    int owner = 0;
  };

  Status RunSet();
  Status EncodeAndCommitSet(const Options& options, const std::map<std::uint32_t, MemberFacts>& facts, const Grouping& grouping,
                            std::map<std::uint32_t, FileView*>& views, bool same_set);

  Result<std::map<std::uint32_t, MemberFacts>> GatherFacts(const std::map<std::uint32_t, FileJob>& jobs) {
    ByteWriter out;
    for (const auto& [rank, job] : jobs) {
      out.Put(rank);
      out.Put(job.before.size);
      out.Put(job.before.mtime_ns);
      out.Put(job.before.inode);
      out.Put(job.before.device);
      out.Put(job.before.mode);
      out.Put(job.before.uid);
      out.Put(job.before.gid);
      out.Put(job.clock_ns);
      out.PutString(comm_.ProcessorName());
    }
    LZY_ASSIGN_OR_RETURN(const auto all, comm_.AllGather(out.bytes()));
    std::map<std::uint32_t, MemberFacts> facts;
    for (std::size_t p = 0; p < all.size(); ++p) {
      ByteReader in(all[p]);
      while (in.remaining() > 0 && in.ok()) {
        const auto rank = in.Get<std::uint32_t>();
        MemberFacts& f = facts[rank];
        f.before.size = in.Get<std::uint64_t>();
        f.before.mtime_ns = in.Get<std::int64_t>();
        f.before.inode = in.Get<std::uint64_t>();
        f.before.device = in.Get<std::uint64_t>();
        f.before.mode = in.Get<std::uint32_t>();
        f.before.uid = in.Get<std::uint32_t>();
        f.before.gid = in.Get<std::uint32_t>();
        f.clock_ns = in.Get<std::int64_t>();
        f.domain = in.GetString(kMaxNameBytes);
        f.owner = static_cast<int>(p);
      }
    }
    return facts;
  }

  // -------------------------------------------------------------------------------------------------------------- report

  Status FinishReport(const Layout& layout, const SidecarContents& contents, const std::vector<const Layout*>& layouts) {
    report_.state = rot_.empty() ? DatasetState::kIntact : DatasetState::kDamaged;
    report_.devices = contents.superblock.members;
    report_.parity = layout.parity();
    report_.groups = shared() ? layout.group_count() : static_cast<std::uint32_t>(layouts.size());
    report_.group_size = contents.superblock.largest_group;
    report_.block_size = layout.block_size();
    report_.unit = layout.unit();
    report_.generation = contents.superblock.generation;
    report_.commit_time_ns = contents.superblock.wall_time_ns;
    report_.bytes = 0;
    for (const Layout* one : layouts) {
      for (std::uint32_t f = 0; f < one->files(); ++f) report_.bytes += one->file_size(f);
    }
    report_.committed = true;
    report_.bytes_encoded = encoded_;
    return Status::Ok();
  }

  // Everything reported is the same on every rank: phases of the slowest, bytes and damage of all.
  Status GatherStats() {
    report_.phases.read += stats_.read;
    report_.phases.hash += stats_.hash;
    report_.phases.encode += stats_.encode;
    report_.phases.exchange += stats_.exchange;
    report_.phases.write += stats_.write;
    ByteWriter out;
    const double phases[] = {report_.phases.read,  report_.phases.hash, report_.phases.encode, report_.phases.exchange,
                             report_.phases.write, report_.phases.sync, report_.phases.total};
    for (double seconds : phases) out.Put(static_cast<std::uint64_t>(seconds * 1e9));
    out.Put(stats_.bytes_read);
    out.Put(encoded_.load());
    out.Put(report_.sidecar_bytes);
    out.PutBytes(report_.root.bytes);
    out.Put(report_.commit_time_ns);
    out.Put(static_cast<std::uint32_t>(rot_.size()));
    for (const Damage& d : rot_) {
      out.PutString(d.path);
      out.Put(d.device);
      out.Put(d.offset);
      out.Put(d.length);
    }
    LZY_ASSIGN_OR_RETURN(const auto all, comm_.AllGather(out.bytes()));
    std::uint64_t slowest[7] = {};
    std::uint64_t sidecar_bytes = 0;
    report_.bytes_encoded = 0;
    rot_.clear();
    for (std::size_t p = 0; p < all.size(); ++p) {
      ByteReader in(all[p]);
      for (std::uint64_t& value : slowest) value = std::max(value, in.Get<std::uint64_t>());
      report_.bytes_read += in.Get<std::uint64_t>();
      report_.bytes_encoded += in.Get<std::uint64_t>();
      sidecar_bytes = std::max(sidecar_bytes, in.Get<std::uint64_t>());
      ByteSpan root = in.GetBytes(16);
      if (p == 0) std::copy(root.begin(), root.end(), report_.root.bytes.begin());
      const auto time = in.Get<std::int64_t>();
      if (p == 0) report_.commit_time_ns = time;
      for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
        Damage d;
        d.path = in.GetString(1 << 16);
        d.device = in.Get<std::uint32_t>();
        d.offset = in.Get<std::uint64_t>();
        d.length = in.Get<std::uint64_t>();
        rot_.push_back(std::move(d));
      }
    }
    double* fields[] = {&report_.phases.read,  &report_.phases.hash, &report_.phases.encode, &report_.phases.exchange,
                        &report_.phases.write, &report_.phases.sync, &report_.phases.total};
    for (int i = 0; i < 7; ++i) *fields[i] = static_cast<double>(slowest[i]) * 1e-9;
    report_.sidecar_bytes = sidecar_bytes;
    if (!rot_.empty()) {
      report_.state = DatasetState::kDamaged;
      report_.damage.insert(report_.damage.end(), rot_.begin(), rot_.end());
      MergeDamage(report_.damage);
    }
    return Status::Ok();
  }

  const Context& context_;
  Communicator& comm_;
  const DatasetRef& ref_;
  const ProtectRequest& request_;
  DatasetReport& report_;
  DatasetView view_;
  std::optional<PlanCache> plans_;
  RowStats stats_;
  std::atomic<std::uint64_t> encoded_{0};
  std::mutex mutex_;
  std::vector<Damage> rot_;
  bool fresh_shared_ = false;
};

Status Encoder::RunSet() {
  LZY_RETURN_IF_ERROR(Open());
  // A set whose number of members is another than that of the committed one is a new set: members are never mixed.
  std::vector<FileView*> present;
  for (Ensemble& ensemble : view_.ensembles) {
    for (FileView& file : ensemble.files) present.push_back(&file);
  }
  std::uint64_t seen = 0;
  for (const FileView* file : present) seen += file->present ? 1 : 0;
  bool same_set = view_.committed && view_.unknown_ranks.empty();
  if (view_.committed && request_.touched && seen + view_.unknown_ranks.size() != view_.superblock.members) same_set = false;
  if (request_.touched && static_cast<std::uint32_t>(comm_.size()) != view_.superblock.members) same_set = false;
  if (view_.committed && !request_.touched && !same_set) {
    return {Code::kBeyondRepair, fmt::format("{}: a whole group of the set is missing", ref_.path)};
  }
  const Options options = same_set ? EffectiveOptions(context_.options, view_) : context_.options;
  if (!request_.touched && same_set) {
    LZY_ASSIGN_OR_RETURN(const bool done, JudgeExisting(options));
    if (done) return Status::Ok();
  }
  std::map<std::uint32_t, FileView*> views;
  for (FileView* file : present) {
    if (file->present) views[file->rank] = file;
  }
  if (views.empty()) return {Code::kNotFound, fmt::format("{}: no member of the set exists", ref_.path)};
  std::uint32_t expected = 0;
  for (const auto& [rank, file] : views) {
    if (rank != expected) {
      return {Code::kIo, fmt::format("{}: member of rank {} is missing ({}); a set has members 0 to p-1", ref_.path, expected,
                                     ExpandPattern(ref_.path, expected))};
    }
    ++expected;
  }

  std::map<std::uint32_t, FileJob> jobs;
  Status settled;
  for (const auto& [rank, file] : views) {
    if (file->owner != comm_.rank()) continue;
    FileJob& job = jobs[rank];
    job.data = file->data.get();
    if (settled = Settle(job); !settled.ok()) break;
  }
  LZY_RETURN_IF_ERROR(Agree(comm_, settled));
  LZY_ASSIGN_OR_RETURN(const auto facts, GatherFacts(jobs));

  // Groups: as they are, or dealt across failure domains.
  Grouping grouping;
  const bool regroup = !same_set || options.parity != view_.superblock.parity || options.group != view_.info.group_option;
  if (regroup) {
    std::vector<std::string> domains;
    std::set<std::string> distinct;
    for (const auto& [rank, f] : facts) {
      domains.push_back(f.domain);
      distinct.insert(f.domain);
    }
    grouping = DealGroups(domains, options.group, options.parity);
    if (grouping.too_few_devices) {
      if (!request_.touched) {
        return {Code::kInvalidArgument, fmt::format("{}: {} members cannot carry parity {}: at least {} are needed", ref_.path,
                                                    facts.size(), options.parity, options.parity + 1)};
      }
      report_.warnings.push_back(fmt::format("{}: {} members cannot carry parity {}; hashes only, nothing can be rebuilt", ref_.path,
                                             facts.size(), options.parity));
    }
    if (grouping.groups_grown) {
      report_.warnings.push_back(fmt::format("{}: groups are larger than {}, since smaller ones could not hold {} members each",
                                             ref_.path, options.group, options.parity + 1));
    }
    if (distinct.size() > 1 && grouping.domain_shared && grouping.worst_domain_share > options.parity) {
      report_.warnings.push_back(fmt::format("{}: {} members of one node are in one group; losing that node cannot be mended with parity {}",
                                             ref_.path, grouping.worst_domain_share, options.parity));
    }
  } else {
    grouping.parity = options.parity;
    for (const Ensemble& ensemble : view_.ensembles) {
      auto& group = grouping.groups.emplace_back();
      for (const FileView& file : ensemble.files) group.push_back(file.rank);
    }
  }

  // Layouts, one a group, all with the unit that the largest member gives.
  std::uint64_t largest_member = 0, total_bytes = 0;
  std::uint32_t largest_group = 0;
  for (const auto& [rank, f] : facts) {
    largest_member = std::max(largest_member, f.before.size);
    total_bytes += f.before.size;
  }
  for (const auto& group : grouping.groups) largest_group = std::max(largest_group, static_cast<std::uint32_t>(group.size()));
  GeometryParameters parameters;
  parameters.kind = DatasetKind::kSet;
  parameters.placement = ParityPlacement::kPerDevice;
  parameters.block_size = options.block_size;
  parameters.parity = grouping.parity;
  parameters.unit = ChooseUnit(DatasetKind::kSet, options.block_size, options.stripe, largest_group, largest_member);
  std::vector<Layout> layouts;
  for (const auto& group : grouping.groups) {
    GeometryParameters own = parameters;
    own.groups.assign(1, {});
    std::vector<std::uint64_t> sizes;
    for (std::uint32_t i = 0; i < group.size(); ++i) {
      own.groups[0].push_back(i);
      sizes.push_back(facts.at(group[i]).before.size);
    }
    LZY_ASSIGN_OR_RETURN(Layout layout, Layout::Create(std::move(own), std::move(sizes)));
    layouts.push_back(std::move(layout));
  }

  // What was touched, by member; and contents of the shape the sidecars will have.
  std::map<std::uint32_t, Touched> touched;
  if (request_.touched) {
    ByteWriter out;
    for (const auto& [rank, t] : *request_.touched) {
      out.Put(rank);
      out.Put<std::uint8_t>(t.whole);
      out.Put(static_cast<std::uint32_t>(t.ranges.size()));
      for (const ByteRange& r : t.ranges) {
        out.Put(r.offset);
        out.Put(r.length);
      }
    }
    LZY_ASSIGN_OR_RETURN(const auto all, comm_.AllGather(out.bytes()));
    for (const auto& [rank, f] : facts) touched[rank].whole = false;
    for (const auto& bytes : all) {
      ByteReader in(bytes);
      while (in.remaining() > 0 && in.ok()) {
        Touched& t = touched[in.Get<std::uint32_t>()];
        t.whole = in.Get<std::uint8_t>() != 0 || t.whole;
        for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
          const auto offset = in.Get<std::uint64_t>();
          t.ranges.push_back({offset, in.Get<std::uint64_t>()});
        }
        Normalise(t);
      }
    }
  }
  Uuid uuid = view_.superblock.uuid;
  if (!same_set) {
    LZY_ASSIGN_OR_RETURN(uuid, CommonUuid());
  }
  std::uint64_t generation = 1;
  for (const auto& [rank, file] : views) {
    if (file->sidecar) generation = std::max(generation, file->sidecar->generation() + 1);
  }
  LZY_ASSIGN_OR_RETURN(generation, comm_.AllReduceMax(generation));

  std::map<std::uint32_t, SidecarContents> contents;
  bool incremental = same_set && !regroup && request_.touched.has_value();
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    const Layout& layout = layouts[g];
    const auto& group = grouping.groups[g];
    for (std::uint32_t f = 0; f < group.size(); ++f) {
      const std::uint32_t rank = group[f];
      if (facts.at(rank).owner != comm_.rank()) continue;
      FileJob& job = jobs[rank];
      InitLeaves(layout, f, job);
      SidecarContents& shape = contents[rank];
      shape.superblock.uuid = uuid;
      shape.superblock.generation = generation;
      shape.superblock.members = static_cast<std::uint32_t>(facts.size());
      shape.superblock.largest_group = largest_group;
      shape.superblock.rank = rank;
      FillSuperblock(shape, layout, job, f);
      shape.info.name = PatternTail(ref_.path);
      shape.info.stripe_option = options.stripe;
      shape.info.group_option = options.group;
      shape.info.groups = {group};
      for (std::uint32_t i = 0; i < group.size(); ++i) {
        const MemberFacts& m = facts.at(group[i]);
        shape.info.members.push_back({group[i], m.before.mode, m.before.uid, m.before.gid, m.before.mtime_ns, m.before.size, {},
                                      layout.parity_size(i), {}, m.domain});
      }
      shape.info.path = Tree::Build(TreeKind::kDataset, std::vector<Hash>(facts.size()), total_bytes).Prove(rank);
      if (facts.size() == 1) shape.info.path.pages.clear();
      shape.data_tree = Tree::Build(TreeKind::kData, job.data_leaves, job.before.size);
      shape.parity_tree = Tree::Build(TreeKind::kParity, job.parity_leaves, layout.parity_size(f));
      FileView& file = *views[rank];
      const bool trusted = same_set && request_.touched && file.sidecar && file.sidecar->committed() && !touched[rank].whole &&
                           file.sidecar->unknown_data_leaves().empty() && file.sidecar->unknown_parity_leaves().empty();
      if (trusted) AddResize(touched[rank], file.stamp.size, job.before.size, layout.block_size());
      if (trusted && file.sidecar->contents().superblock.block_size == layout.block_size()) {
        job.old_data = &file.sidecar->contents().data_tree;
        job.touched = &touched[rank];
      }
      if (!trusted || !file.sidecar->Fits(shape)) incremental = false;
    }
  }
  LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles, comm_.AllReduceMax(incremental ? 0 : 1));
  incremental = obstacles == 0;
  // The union of what was touched, with resizes, is known to owners only so far; rows must be the same list everywhere.
  if (incremental) {
    for (const auto& [rank, f] : facts) {
      std::uint64_t old_size = 0;
      for (const Ensemble& ensemble : view_.ensembles) {
        for (const FileView& file : ensemble.files) {
          if (file.rank == rank) old_size = file.stamp.size;
        }
      }
      AddResize(touched[rank], old_size, f.before.size, options.block_size);
    }
  }

  Status made;
  for (std::size_t g = 0; g < layouts.size() && made.ok(); ++g) {
    for (std::uint32_t f = 0; f < grouping.groups[g].size() && made.ok(); ++f) {
      const std::uint32_t rank = grouping.groups[g][f];
      if (facts.at(rank).owner != comm_.rank()) continue;
      FileJob& job = jobs[rank];
      FileView& file = *views[rank];
      if (incremental) {
        job.in_place = file.sidecar.get();
        job.old_parity = &file.sidecar->contents().parity_tree;
      } else {
        auto fresh = Sidecar::Create(context_.fs, NewSidecarPath(file.path), contents[rank], *file.data);
        made = fresh.status();
        if (!made.ok()) break;
        job.fresh = std::move(fresh).value();
        if (layouts[g].parity_size(f) > 0) {
          made = job.fresh->file().Truncate(job.fresh->ParityFileOffset(0) + layouts[g].parity_size(f));
        }
      }
      Sidecar& out = incremental ? *job.in_place : *job.fresh;
      job.parity_out = &out.file();
      job.parity_base = out.ParityFileOffset(0);
    }
  }
  Status status = Agree(comm_, made);

  // Groups are independent: a rank works on those it owns members of. With several groups each has its own communicator, made
  // for all of them first, so that groups without a common rank run side by side.
  std::vector<std::unique_ptr<Communicator>> group_comms(layouts.size());
  std::vector<std::vector<int>> owners(layouts.size());
  for (std::size_t g = 0; g < layouts.size() && status.ok(); ++g) {
    std::set<int> parts;
    for (std::uint32_t rank : grouping.groups[g]) parts.insert(facts.at(rank).owner);
    for (std::uint32_t rank : grouping.groups[g]) {
      const int owner = facts.at(rank).owner;
      const bool split = layouts.size() > 1 || parts.size() < static_cast<std::size_t>(comm_.size());
      owners[g].push_back(split ? static_cast<int>(std::distance(parts.begin(), parts.find(owner))) : owner);
    }
    if (layouts.size() > 1 || parts.size() < static_cast<std::size_t>(comm_.size())) {
      auto split = comm_.Split(parts.count(comm_.rank()) != 0 ? 0 : -1);
      if (!split.ok()) return split.status();
      group_comms[g] = std::move(split).value();
    }
  }
  for (std::size_t g = 0; g < layouts.size() && status.ok(); ++g) {
    const bool part = std::any_of(grouping.groups[g].begin(), grouping.groups[g].end(),
                                  [&](std::uint32_t rank) { return facts.at(rank).owner == comm_.rank(); });
    if (!part) continue;
    plans_.emplace(layouts[g]);
    std::vector<const Touched*> per_file;
    std::vector<FileJob*> own;
    for (std::uint32_t rank : grouping.groups[g]) {
      per_file.push_back(&touched[rank]);
      auto at = jobs.find(rank);
      own.push_back(at == jobs.end() ? nullptr : &at->second);
    }
    auto runs = RunsFor(layouts[g], per_file, !incremental);
    if (!runs.ok()) return runs.status();
    Communicator& comm = group_comms[g] ? *group_comms[g] : comm_;
    status = Execute(layouts[g], comm, owners[g], own, *runs);
  }
  auto start = SteadyClock::now();
  for (auto& [rank, job] : jobs) {
    if (status.ok()) status = job.data->Sync();
  }
  status = Agree(comm_, status);
  report_.phases.sync += SecondsSince(start);

  // Roots of all members, then the tree over them.
  bool publishing = false;
  start = SteadyClock::now();
  ByteWriter roots;
  for (std::size_t g = 0; g < layouts.size() && status.ok(); ++g) {
    for (std::uint32_t f = 0; f < grouping.groups[g].size() && status.ok(); ++f) {
      const std::uint32_t rank = grouping.groups[g][f];
      auto at = jobs.find(rank);
      if (at == jobs.end()) continue;
      status = MakeTrees(layouts[g], f, at->second);
      if (status.ok()) status = CheckUnchanged(views[rank]->path, at->second);
      roots.Put(rank);
      roots.PutBytes(at->second.data_tree.Root().bytes);
      roots.PutBytes(at->second.parity_tree.Root().bytes);
    }
  }
  status = Agree(comm_, status);
  if (status.ok()) {
    LZY_ASSIGN_OR_RETURN(const auto all, comm_.AllGather(roots.bytes()));
    std::vector<Hash> data_roots(facts.size()), parity_roots(facts.size());
    for (const auto& bytes : all) {
      ByteReader in(bytes);
      while (in.remaining() >= 36) {
        const auto rank = in.Get<std::uint32_t>();
        for (auto* list : {&data_roots, &parity_roots}) {
          ByteSpan raw = in.GetBytes(16);
          if (rank < list->size()) std::copy(raw.begin(), raw.end(), (*list)[rank].bytes.begin());
        }
      }
    }
    const Tree members = Tree::Build(TreeKind::kDataset, data_roots, total_bytes);
    const Hash dataset_root = DatasetRoot(DatasetKind::kSet, layouts[0], largest_group, facts.size(), members.Root());
    const std::int64_t wall = WallNowNs();
    LZY_ASSIGN_OR_RETURN(const std::uint64_t common_wall, comm_.AllReduceMax(static_cast<std::uint64_t>(wall)));
    report_.root = dataset_root;
    // Phase 1: everybody has the new generation durably.
    std::uint64_t sidecar_bytes = 0;
    for (auto& [rank, job] : jobs) {
      SidecarContents& c = contents[rank];
      c.superblock.wall_time_ns = static_cast<std::int64_t>(common_wall);
      c.superblock.dataset_root = dataset_root;
      for (MemberRecord& m : c.info.members) {
        m.data_root = data_roots[m.rank];
        m.parity_root = parity_roots[m.rank];
      }
      if (facts.size() > 1) c.info.path = members.Prove(rank);
      c.data_tree = std::move(job.data_tree);
      c.parity_tree = std::move(job.parity_tree);
      if (status.ok()) status = incremental ? job.in_place->Prepare(c) : job.fresh->WriteAll(c);
    }
    status = Agree(comm_, status);
    // Phase 2: it counts. From the first of these on, whoever finds it completes it; so nothing prepared is removed any more.
    if (status.ok()) {
      publishing = true;
      for (auto& [rank, job] : jobs) {
        Status one = incremental ? job.in_place->FinishPrepared()
                                 : PublishSidecar(NewSidecarPath(views[rank]->path), views[rank]->path);
        if (status.ok()) status = one;
        sidecar_bytes += (incremental ? job.in_place : job.fresh.get())->file_size();
      }
      status = Agree(comm_, status);
    }
    LZY_ASSIGN_OR_RETURN(report_.sidecar_bytes, comm_.AllReduceSum(sidecar_bytes));
    report_.phases.write += SecondsSince(start);
    if (status.ok()) {
      std::vector<const Layout*> all_layouts;
      for (const Layout& layout : layouts) all_layouts.push_back(&layout);
      SidecarContents any;
      any.superblock.members = static_cast<std::uint32_t>(facts.size());
      any.superblock.largest_group = largest_group;
      any.superblock.generation = generation;
      any.superblock.wall_time_ns = static_cast<std::int64_t>(common_wall);
      return FinishReport(layouts[0], any, all_layouts);
    }
  }
  if (!incremental && !publishing) {
    for (auto& [rank, job] : jobs) {
      if (job.fresh) (void)context_.fs.Remove(NewSidecarPath(views[rank]->path));
    }
  }
  return status;
}

}  // namespace

DatasetReport Protect(const Context& context, const DatasetRef& dataset, const ProtectRequest& request) {
  DatasetReport report;
  report.path = dataset.path;
  report.kind = dataset.kind;
  try {
    report.status = Encoder(context, dataset, request, report).Run();
  } catch (const std::bad_alloc&) {
    report.status = {Code::kNoMemory, fmt::format("{}: out of memory", dataset.path)};
  }
  return report;
}

}  // namespace lzy
