// Reads blocks of a file that did not have their hashes, and gives the caller the right bytes: verified reads use it.
//
// No lock is held while a program reads, so what is seen may change under the hands. The whole attempt is repeated if
// somebody commits, writes or repairs meanwhile. Only mending on disk takes the locks, and only if there is something
// to mend.

#include "mend/heal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "encode/rebuild.h"
#include "judge/examine.h"
#include "mend/mend.h"
#include "names/contents.h"
#include "names/lookup.h"

namespace lzy {
namespace {

using Verdict = HealedBlock::Verdict;

// Whoever commits or writes while we look makes what was seen void; so often it is tried again.
constexpr int kAttempts = 8;
// A repair under way is soon done. Until then the file has a wrong mtime, and nothing tells a rotten block from an
// edit.
constexpr std::chrono::milliseconds kRepairPause{20};
constexpr int kRepairPauses = 250;

// A view of the dataset, and what was seen of the rows in question.
struct Look {
  DatasetView view;
  std::size_t ensemble = 0;
  std::uint32_t file = 0;  // in the ensemble
  Findings findings;       // of the rows in question only
  struct Bad {
    Layout::DeviceRow at;
    std::vector<std::uint32_t> devices;  // of the row, that cannot be sources
  };
  std::map<std::uint64_t, Bad> bad;  // by block of the file: damaged, and to be had from the row
  std::optional<bool> other_content;  // see HoldsOtherContent

  const Ensemble& in() const { return view.ensembles[ensemble]; }
  const FileView& of() const { return in().files[file]; }
};

// One call of HealBlocks. Everything is local to this process: it opens what it needs of a set with a communicator of
// its own.
class Healer {
 public:
  Healer(FileSystem& fs, const Options& options, const HealRequest& request)
      : fs_(fs), request_(request), options_(options), self_(SelfCommunicator()), context_{fs_, *self_, options_} {}

  // Two counters bound the loop. `attempt` counts those that somebody's commit or write made void. `pauses` counts
  // waits for a repair, or for locks, that is under way; these are short and say nothing against the attempt. If all
  // are used up, nothing is judged.
  Result<HealReport> Run() {
    LZY_ASSIGN_OR_RETURN(const DatasetRef dataset, Resolved());
    for (int attempt = 0, pauses = 0, locked_out = 0; attempt < kAttempts;) {
      Start();
      repair_under_way_ = locked_ = false;
      LZY_ASSIGN_OR_RETURN(const bool settled, Try(dataset));
      // Whoever has the locks may be mending these very blocks, or may fail to.
      const bool left = locked_ && std::ranges::any_of(blocks_, [](const HealedBlock& b) { return b.damaged && !b.mended; });
      const bool once_more = left && locked_out++ == 0;
      if (settled && !repair_under_way_ && !once_more) return std::move(report_);
      if ((repair_under_way_ || once_more) && request_.patient && pauses++ < kRepairPauses) {
        std::this_thread::sleep_for(kRepairPause);
        continue;
      }
      report_.gave_up_waiting |= repair_under_way_;
      if (settled) return std::move(report_);
      if (++attempt < kAttempts && request_.patient) std::this_thread::sleep_for(kRepairPause);
    }
    Start();
    return std::move(report_);
  }

 private:
  // Forgets what an attempt has found.
  void Start() {
    blocks_.clear();
    report_.other_commit = false;
    for (const std::uint64_t index : request_.blocks) blocks_.emplace_back().index = index;
  }

  // The dataset that the file is part of: the file alone, or a set.
  Result<DatasetRef> Resolved() {
    LZY_ASSIGN_OR_RETURN(auto found, ResolvePath(fs_, *self_, request_.path, Resolve::kProtected));
    if (found.size() == 1) return std::move(found[0]);
    return {Code::kUnprotected, fmt::format("{}: stands for {} datasets", request_.path, found.size())};
  }

  // False when somebody wrote or committed meanwhile.
  Result<bool> Try(const DatasetRef& dataset) {
    std::vector<std::uint64_t> mended;
    if (request_.write) {
      LZY_ASSIGN_OR_RETURN(mended, MendOnDisk(dataset));
    }
    Look look;
    LZY_RETURN_IF_ERROR(Open(dataset, /*write=*/false, look));
    report_.other_commit = !IsTheCommit(look);
    if (report_.other_commit) return true;
    // Busy: somebody commits, and hashes cannot be read any more, or rows change.
    const Status rebuilt = NoThrow([&]() -> Status {
      LZY_RETURN_IF_ERROR(JudgeAll(look));
      return Rebuild(look);
    });
    if (rebuilt.code() == Code::kBusy) return false;
    LZY_RETURN_IF_ERROR(rebuilt);
    for (HealedBlock& block : blocks_) {
      if (!std::binary_search(mended.begin(), mended.end(), block.index)) continue;
      block.mended = block.verdict == Verdict::kAsCommitted && !block.damaged;
      block.damaged = block.damaged || block.mended;
    }
    return !ChangedMeanwhile(look);
  }

  // Opens the dataset and finds the file in it, by device and inode: it may have been renamed.
  Status Open(const DatasetRef& dataset, bool write, Look& look) {
    LZY_ASSIGN_OR_RETURN(look.view, OpenDataset(context_, dataset, {write}));
    if (!look.view.committed) return {Code::kUnprotected, fmt::format("{}: no sidecar", request_.path)};
    LZY_ASSIGN_OR_RETURN(const FileStat stat, fs_.Stat(request_.path));
    for (look.ensemble = 0; look.ensemble < look.view.ensembles.size(); ++look.ensemble) {
      const auto& files = look.in().files;
      for (look.file = 0; look.file < files.size(); ++look.file) {
        const FileStat& one = files[look.file].stat;
        if (!files[look.file].present || one.inode != stat.inode || one.device != stat.device) continue;
        if (request_.inode != 0 && one.inode != request_.inode) continue;
        for (const Ensemble& e : look.view.ensembles) look.findings.files.emplace_back(e.files.size());
        return Status::Ok();
      }
    }
    return {Code::kUnprotected, fmt::format("{}: is not part of {}", request_.path, dataset.path)};
  }

  // The block's bytes where they are as committed, in the page cache or on the device. No bytes: `fault`.
  Result<std::optional<std::vector<std::uint8_t>>> ReadGood(const BlockStream& stream, std::uint64_t index,
                                                            BlockFault& fault) {
    const BlockPlace place = stream.place(index);
    std::vector<std::uint8_t> bytes(place.length);
    for (const bool from_device : {false, true}) {
      const auto got = from_device ? stream.file->ReadAtFromDevice(stream.base + place.offset, bytes)
                                   : stream.file->ReadAt(stream.base + place.offset, bytes);
      if (!got.ok() && got.status().code() != Code::kUnreadable) return got.status();
      fault = !got.ok() ? BlockFault::kUnreadable : *got < bytes.size() ? BlockFault::kMissing : BlockFault::kHash;
      if (fault == BlockFault::kHash && IsAsCommitted(stream, index, bytes)) return {std::move(bytes)};
    }
    return std::optional<std::vector<std::uint8_t>>();
  }

  // Fills in verdicts, bytes, and the rows that are needed for rebuilding (look.bad).
  Status JudgeAll(Look& look) {
    Start();
    for (HealedBlock& block : blocks_) LZY_RETURN_IF_ERROR(Judge(look, block));
    return Status::Ok();
  }

  // The order of checks is that of docs/design/repair.md §8. What cannot be judged keeps kNotJudged.
  Status Judge(Look& look, HealedBlock& block) {
    const Layout& layout = *look.in().layout;
    const FileView& file = look.of();
    const bool known = file.data && file.sidecar && file.data_tree() != nullptr && block.index < layout.data_blocks(look.file);
    if (!known) return Status::Ok();
    const auto& unknown = file.sidecar->unknown_data_leaves();
    if (std::binary_search(unknown.begin(), unknown.end(), block.index)) return Status::Ok();

    const BlockStream stream = StreamOf(look.in(), false, look.file);
    BlockFault fault{};
    LZY_ASSIGN_OR_RETURN(auto good, ReadGood(stream, block.index, fault));
    if (good) {
      block.verdict = Verdict::kAsCommitted;
      block.bytes = std::move(*good);
      return Status::Ok();
    }
    const Layout::DeviceRow at = layout.LocateData(look.file, block.index);
    // Whatever cannot be read may have been an edit, too.
    const BlockPlace place = stream.place(block.index);
    const DamageCause cause = CauseOf(file, BlockFault::kHash, {place.offset, place.length});
    repair_under_way_ |= cause == DamageCause::kStale && file.intent && IsOfRepair(*file.intent);
    if (IsEdit(cause) || InChange(look, at.row)) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(const bool other, HoldsOtherContent(look));
    if (other) return Status::Ok();
    block.damaged = true;
    look.findings.files[look.ensemble][look.file].data.push_back({block.index, 1, fault, false});
    LZY_ASSIGN_OR_RETURN(Look::Bad bad, LookAtRow(look, at));
    if (bad.devices.size() <= layout.parity()) {
      look.bad.emplace(block.index, std::move(bad));
      return Status::Ok();
    }
    block.verdict = Verdict::kLost;
    block.why = fmt::format("{} blocks of its row are lost, and parity {} can rebuild at most {}", bad.devices.size(),
                            layout.parity(), layout.parity());
    return Status::Ok();
  }

  // Whether the file may be right as it is, with another content than the committed one: another sidecar proves that, or
  // by inode or birth it is another file, and the better part of it is not as committed. Asked once for a look.
  Result<bool> HoldsOtherContent(Look& look) {
    if (look.other_content) return *look.other_content;
    const FileView& file = look.of();
    const std::string real = FollowLink(fs_, file.path);
    const auto prover = FindProver(fs_, real, file.sidecar_path, options_.key.get());
    look.other_content = prover.ok() && prover->has_value();  // what cannot be read is proven by nobody
    if (*look.other_content || MayBe(file.stat, file.stamp)) return *look.other_content;
    const std::uint64_t blocks = look.in().layout->data_blocks(look.file);
    std::uint64_t bad = 0;
    LZY_RETURN_IF_ERROR(CheckInPieces(StreamOf(look.in(), false, look.file), {0, blocks}, SettingsFor(context_, false),
                                      [&](std::uint64_t, const CheckResult& found) {
                                        for (const BadBlocks& one : found.bad) bad += one.transient ? 0 : one.count;
                                      }));
    look.other_content = 2 * bad > blocks;
    return *look.other_content;
  }

  // Whether an intent names any data of the row.
  bool InChange(const Look& look, const RowId& row) const {
    const Layout& layout = *look.in().layout;
    return std::ranges::any_of(layout.group(row.group), [&](std::uint32_t device) {
      if (layout.IsParity(device, row.unit_row)) return false;
      const BlockPlace place = layout.DataBlock(device, row.unit_row, row.slice);
      const FileView& file = look.in().files[layout.file_of(device)];
      return place.length > 0 && CauseOf(file, BlockFault::kHash, {place.offset, place.length}) == DamageCause::kAtRisk;
    });
  }

  // What else of the row is bad; adds that to the findings. Each other block of the row is read and compared, since it
  // is a source or is lost, too.
  Result<Look::Bad> LookAtRow(Look& look, const Layout::DeviceRow& at) {
    const Layout& layout = *look.in().layout;
    const RowStreams streams = StreamsOf(look.in());
    Look::Bad bad{at, {}};
    for (const std::uint32_t device : layout.group(at.row.group)) {
      const bool parity = layout.IsParity(device, at.row.unit_row);
      const std::uint32_t number = layout.HolderOf(parity, device);
      const BlockStream& stream = parity ? streams.parity[number] : streams.data[number];
      const BlockPlace place = layout.Block(parity, device, at.row.unit_row, at.row.slice);
      if (device == at.device) {
        bad.devices.push_back(device);
        continue;
      }
      if (place.length == 0) continue;
      BadBlocks found{place.index, 1, BlockFault::kMissing, false};
      if (stream.file != nullptr && stream.expected != nullptr) {
        LZY_ASSIGN_OR_RETURN(const CheckResult checked, CheckBlocks(stream, place.index, 1, {}));
        if (checked.bad.empty() || checked.bad[0].transient) continue;
        found = checked.bad[0];
      }
      if (parity && stream.expected != nullptr && stream.expected->leaf(place.index) == kNoParityLeaf) {
        found.fault = BlockFault::kForsaken;
      }
      bad.devices.push_back(device);
      FileFindings& of_file = look.findings.files[look.ensemble][number];
      (parity ? of_file.parity : of_file.data).push_back(found);
    }
    return bad;
  }

  // Rebuilds in memory the damaged blocks that parity can give back.
  Status Rebuild(const Look& look) {
    if (look.bad.empty()) return Status::Ok();
    const Layout& layout = *look.in().layout;
    const RowStreams streams = StreamsOf(look.in());
    PlanCache plans(layout);
    std::vector<RowRun> runs;
    for (const auto& [index, bad] : look.bad) {
      const std::uint32_t wanted[] = {bad.at.device};
      const RowId& row = bad.at.row;
      LZY_ASSIGN_OR_RETURN(auto plan, plans.Rebuild(row.group, row.unit_row, bad.devices, wanted));
      runs.push_back({row.group, row.unit_row, row.slice, 1, std::move(plan)});
    }
    // A difference means that somebody writes: the attempt is void.
    const auto take = [&](const RowBlock& block, ByteSpan bytes) {
      HealedBlock& healed = *std::ranges::lower_bound(blocks_, block.place.index, {}, &HealedBlock::index);
      healed.verdict = Verdict::kAsCommitted;
      healed.bytes.assign(bytes.begin(), bytes.end());
    };
    return RebuildInMemory(context_, layout, streams, *self_, std::vector<int>(layout.devices(), 0), runs, request_.path, take);
  }

  // Mends under the locks, as lzy-verify --repair does. Returns the blocks that were mended; none, and no failure,
  // where that cannot be done now. The first look is without locks. The second one is under them, since the first may
  // be out of date by then.
  Result<std::vector<std::uint64_t>> MendOnDisk(const DatasetRef& dataset) {
    std::vector<std::uint64_t> mended;
    Look look;
    LZY_RETURN_IF_ERROR(Open(dataset, /*write=*/false, look));
    if (!IsTheCommit(look)) return mended;
    LZY_RETURN_IF_ERROR(JudgeAll(look));
    if (look.bad.empty()) return mended;  // nobody's locks are taken for nothing
    look = Look();
    const Status opened = Open(dataset, /*write=*/true, look);
    locked_ = opened.code() == Code::kBusy;
    if (!opened.ok() || !IsTheCommit(look) || HasIntent(look)) return mended;
    LZY_RETURN_IF_ERROR(JudgeAll(look));
    if (look.bad.empty()) return mended;  // whoever had the locks has mended it
    Order(look.findings);
    LZY_RETURN_IF_ERROR(TellOthersContent(context_, look.view, look.findings));  // of the other members, too
    DatasetReport report;
    Describe(look.view, look.findings, report);
    const Status done = Mend(context_, look.view, look.findings, {}, report);
    repair_under_way_ |= done.code() == Code::kBusy;  // somebody else's, who had the lock when the file was looked at
    if (!done.ok()) return mended;
    for (const auto& [index, bad] : look.bad) mended.push_back(index);
    return mended;
  }

  // The caller knows the blocks of one commit only.
  bool IsTheCommit(const Look& look) const {
    const Superblock& now = look.view.superblock;
    return request_.generation == 0 || (now.uuid == request_.uuid && now.generation == request_.generation);
  }

  // Whoever mends a file in which an epoch is open leaves it with another mtime, so that nobody could judge it any
  // more; and whoever finishes a repair that broke off makes rot of the edits since.
  static bool HasIntent(const Look& look) {
    return std::ranges::any_of(look.in().files, [](const FileView& f) { return f.intent.has_value(); });
  }

  // Blocks of one row may have been looked at for several others of it.
  static void Order(Findings& findings) {
    for (FileFindings& file : findings.files | std::views::join) {
      for (auto* list : {&file.data, &file.parity}) {
        std::ranges::stable_sort(*list, {}, &BadBlocks::first);
        const auto doubles = std::ranges::unique(*list, {}, &BadBlocks::first);
        list->erase(doubles.begin(), doubles.end());
      }
    }
  }

  // Bytes that have their committed hash are right whatever happened meanwhile. Every other verdict needs a file that
  // stood still.
  bool ChangedMeanwhile(const Look& look) const {
    const auto right = [](const HealedBlock& b) { return b.verdict == Verdict::kAsCommitted && !b.damaged; };
    if (std::ranges::all_of(blocks_, right)) return false;
    const auto now = fs_.Stat(request_.path);
    const FileStat& then = look.of().stat;
    return !now.ok() || now->size != then.size || now->mtime_ns != then.mtime_ns || CommittedSince(context_, look.view);
  }

  FileSystem& fs_;
  const HealRequest& request_;
  const Options& options_;
  const std::unique_ptr<Communicator> self_;
  const Context context_;
  HealReport report_;
  std::vector<HealedBlock>& blocks_ = report_.blocks;
  bool repair_under_way_ = false;
  bool locked_ = false;  // out, by somebody who writes
};

}  // namespace

Result<HealReport> HealBlocks(FileSystem& fs, const Options& options, const HealRequest& request) {
  HealReport healed;
  LZY_RETURN_IF_ERROR(NoThrow([&]() -> Status {
    LZY_ASSIGN_OR_RETURN(healed, Healer(fs, options, request).Run());
    return Status::Ok();
  }));
  return healed;
}

}  // namespace lzy
