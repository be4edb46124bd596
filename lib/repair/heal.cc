// Gives verified reads the right bytes of blocks that did not have their hashes.
//
// A program that reads holds no lock, so the file may change at any time. If another process commits, writes or repairs
// meanwhile, the whole attempt is repeated. Only repairs of the file take the locks, and only if something must be repaired.

#include "repair/heal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "encode/rebuild.h"
#include "judge/examine.h"
#include "names/lookup.h"
#include "names/provers.h"
#include "repair/repair.h"

namespace lzy {
namespace {

using Verdict = HealedBlock::Verdict;

// How often to try if other processes commit or write meanwhile.
constexpr int kAttempts = 8;
// A repair by another process ends soon. Until then the file has a wrong mtime, and rot cannot be distinguished from edits.
constexpr std::chrono::milliseconds kRepairPause{20};
constexpr int kRepairPauses = 250;

// A view of the dataset, and what was found in the rows of the request.
struct Look {
  DatasetView view;
  std::size_t ensemble = 0;
  std::uint32_t file = 0;  // in the ensemble
  Findings findings;       // of the rows of the request only
  struct Bad {
    Layout::DeviceRow at;
    std::vector<std::uint32_t> devices;  // of the row; they cannot be sources
  };
  std::map<std::uint64_t, Bad> bad;  // damaged blocks that the row can rebuild, by number
  std::optional<bool> other_content;  // see HoldsOtherContent

  const Ensemble& in() const { return view.ensembles[ensemble]; }
  const FileView& of() const { return in().files[file]; }
};

// One call of HealBlocks. Everything is local to this process, which opens the members of a set with a communicator of its
// own.
class Healer {
 public:
  Healer(FileSystem& fs, const Options& options, const HealRequest& request)
      : fs_(fs), request_(request), options_(options), self_(SelfCommunicator()), context_{fs_, *self_, options_} {}

  // Two counters bound the loop. `attempt` counts attempts that a commit or a write of another process made void. `pauses`
  // counts short waits for a repair or a lock of another process, which do not make an attempt void. If all are used up,
  // nothing is judged.
  Result<HealReport> Run() {
    LZY_ASSIGN_OR_RETURN(const DatasetRef dataset, Resolved());
    for (int attempt = 0, pauses = 0, locked_out = 0; attempt < kAttempts;) {
      Start();
      repair_under_way_ = locked_ = false;
      LZY_ASSIGN_OR_RETURN(const bool settled, Try(dataset));
      // The process that has the locks may be repairing these blocks, or may fail to.
      const bool left = locked_ && std::ranges::any_of(blocks_, [](const HealedBlock& b) { return b.damaged && !b.repaired; });
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
  // Resets the result before a new attempt.
  void Start() {
    blocks_.clear();
    report_.other_commit = false;
    for (const std::uint64_t index : request_.blocks) blocks_.emplace_back().index = index;
  }

  // The dataset of the file: the file alone, or a set.
  Result<DatasetRef> Resolved() {
    LZY_ASSIGN_OR_RETURN(auto found, ResolvePath(fs_, *self_, request_.path, Resolve::kProtected));
    if (found.size() == 1) return std::move(found[0]);
    return {Code::kUnprotected, fmt::format("{}: stands for {} datasets", request_.path, found.size())};
  }

  // Returns false if another process wrote or committed meanwhile.
  Result<bool> Try(const DatasetRef& dataset) {
    std::vector<std::uint64_t> repaired;
    if (request_.write) {
      LZY_ASSIGN_OR_RETURN(repaired, RepairOnDisk(dataset));
    }
    Look look;
    LZY_RETURN_IF_ERROR(Open(dataset, /*write=*/false, look));
    report_.other_commit = !IsTheCommit(look);
    if (report_.other_commit) return true;
    // kBusy: another process commits, and hashes cannot be read or rows change.
    const Status rebuilt = NoThrow([&]() -> Status {
      LZY_RETURN_IF_ERROR(JudgeAll(look));
      return Rebuild(look);
    });
    if (rebuilt.code() == Code::kBusy) return false;
    LZY_RETURN_IF_ERROR(rebuilt);
    for (HealedBlock& block : blocks_) {
      if (!std::binary_search(repaired.begin(), repaired.end(), block.index)) continue;
      block.repaired = block.verdict == Verdict::kAsCommitted && !block.damaged;
      block.damaged = block.damaged || block.repaired;
    }
    return !ChangedMeanwhile(look);
  }

  // Opens the dataset and finds the file in it, by file system and inode: it may have been renamed.
  Status Open(const DatasetRef& dataset, bool write, Look& look) {
    LZY_ASSIGN_OR_RETURN(look.view, OpenDataset(context_, dataset, {write}));
    if (!look.view.committed) return {Code::kUnprotected, fmt::format("{}: no sidecar", request_.path)};
    LZY_ASSIGN_OR_RETURN(const FileStat stat, fs_.Stat(request_.path));
    for (look.ensemble = 0; look.ensemble < look.view.ensembles.size(); ++look.ensemble) {
      const auto& files = look.in().files;
      for (look.file = 0; look.file < files.size(); ++look.file) {
        const FileStat& one = files[look.file].stat;
        if (!files[look.file].present || one.inode != stat.inode || one.file_system != stat.file_system) continue;
        if (request_.inode != 0 && one.inode != request_.inode) continue;
        for (const Ensemble& e : look.view.ensembles) look.findings.files.emplace_back(e.files.size());
        return Status::Ok();
      }
    }
    return {Code::kUnprotected, fmt::format("{}: is not part of {}", request_.path, dataset.path)};
  }

  // The bytes of the block if they are as committed, in the page cache or in storage. Otherwise nullopt, and `fault` says
  // why.
  Result<std::optional<std::vector<std::uint8_t>>> ReadGood(const BlockStream& stream, std::uint64_t index,
                                                            BlockFault& fault) {
    const BlockPlace place = stream.place(index);
    std::vector<std::uint8_t> bytes(place.length);
    for (const bool uncached : {false, true}) {
      const auto got = uncached ? stream.file->ReadAtUncached(stream.base + place.offset, bytes)
                                : stream.file->ReadAt(stream.base + place.offset, bytes);
      if (!got.ok() && got.status().code() != Code::kUnreadable) return got.status();
      fault = !got.ok() ? BlockFault::kUnreadable : *got < bytes.size() ? BlockFault::kMissing : BlockFault::kHash;
      if (fault == BlockFault::kHash && IsAsCommitted(stream, index, bytes)) return {std::move(bytes)};
    }
    return std::optional<std::vector<std::uint8_t>>();
  }

  // Fills in the verdicts, the bytes, and the rows from which blocks can be rebuilt (look.bad).
  Status JudgeAll(Look& look) {
    Start();
    for (HealedBlock& block : blocks_) LZY_RETURN_IF_ERROR(Judge(look, block));
    return Status::Ok();
  }

  // Judges in the order of docs/design/repair.md §8. A block that cannot be judged keeps kNotJudged.
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
    // An unreadable block may have been an edit, too.
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

  // True if the file may be right although it differs: another sidecar proves its content, or it is another file by inode or
  // birth and more than half of it differs. Computed once for each look.
  Result<bool> HoldsOtherContent(Look& look) {
    if (look.other_content) return *look.other_content;
    const FileView& file = look.of();
    const std::string real = FollowLink(fs_, file.path);
    const auto prover = FindProver(fs_, real, file.sidecar_path, options_.key.get());
    look.other_content = prover.ok() && prover->has_value();  // an unreadable content is not proven
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

  // True if an intent covers any data of the row.
  bool InChange(const Look& look, const RowId& row) const {
    const Layout& layout = *look.in().layout;
    return std::ranges::any_of(layout.group(row.group), [&](std::uint32_t device) {
      if (layout.IsParity(device, row.unit_row)) return false;
      const BlockPlace place = layout.DataBlock(device, row.unit_row, row.slice);
      const FileView& file = look.in().files[layout.file_of(device)];
      return place.length > 0 && CauseOf(file, BlockFault::kHash, {place.offset, place.length}) == DamageCause::kAtRisk;
    });
  }

  // Reads and compares the other blocks of the row: each is either a source or also lost. Adds the lost ones to the
  // findings.
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

  // Rebuilds the damaged blocks that parity can rebuild, in memory.
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
    // A difference means that a process writes, so the attempt is void.
    const auto take = [&](const RowBlock& block, ByteSpan bytes) {
      HealedBlock& healed = *std::ranges::lower_bound(blocks_, block.place.index, {}, &HealedBlock::index);
      healed.verdict = Verdict::kAsCommitted;
      healed.bytes.assign(bytes.begin(), bytes.end());
    };
    return RebuildInMemory(context_, layout, streams, *self_, std::vector<int>(layout.devices(), 0), runs, request_.path, take);
  }

  // Repairs the file under the locks, as lzy-verify --repair does. Returns the blocks that were repaired; none, without an
  // error, if that is not possible now. Looks first without the locks, then again with them, because the first look may be
  // out of date.
  Result<std::vector<std::uint64_t>> RepairOnDisk(const DatasetRef& dataset) {
    std::vector<std::uint64_t> repaired;
    Look look;
    LZY_RETURN_IF_ERROR(Open(dataset, /*write=*/false, look));
    if (!IsTheCommit(look)) return repaired;
    LZY_RETURN_IF_ERROR(JudgeAll(look));
    if (look.bad.empty()) return repaired;  // take no locks without need
    look = Look();
    const Status opened = Open(dataset, /*write=*/true, look);
    locked_ = opened.code() == Code::kBusy;
    if (!opened.ok() || !IsTheCommit(look) || HasIntent(look)) return repaired;
    LZY_RETURN_IF_ERROR(JudgeAll(look));
    if (look.bad.empty()) return repaired;  // the previous holder of the locks has repaired it
    Order(look.findings);
    LZY_RETURN_IF_ERROR(FillIdentities(context_, look.view, look.findings));  // of the other members, too
    DatasetReport report;
    Describe(look.view, look.findings, report);
    const Status done = Repair(context_, look.view, look.findings, {}, report);
    repair_under_way_ |= done.code() == Code::kBusy;  // another process had the lock when the file was examined
    if (!done.ok()) return repaired;
    for (const auto& [index, bad] : look.bad) repaired.push_back(index);
    return repaired;
  }

  // True if the dataset still has the commit whose leaves the caller knows.
  bool IsTheCommit(const Look& look) const {
    const Superblock& now = look.view.superblock;
    return request_.generation == 0 || (now.uuid == request_.uuid && now.generation == request_.generation);
  }

  // True if any intent is set. A repair changes the mtime, after which writes of an open epoch could not be judged any more.
  // And finishing an interrupted repair would make edits since then look like rot.
  static bool HasIntent(const Look& look) {
    return std::ranges::any_of(look.in().files, [](const FileView& f) { return f.intent.has_value(); });
  }

  // Sorts, and removes duplicates: a block may have been examined for several blocks of its row.
  static void Order(Findings& findings) {
    for (FileFindings& file : findings.files | std::views::join) {
      for (auto* list : {&file.data, &file.parity}) {
        std::ranges::stable_sort(*list, {}, &BadBlocks::first);
        const auto doubles = std::ranges::unique(*list, {}, &BadBlocks::first);
        list->erase(doubles.begin(), doubles.end());
      }
    }
  }

  // Bytes that have their committed hash are right in any case. Every other verdict needs a file that did not change.
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
  bool locked_ = false;  // another process has the locks
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
