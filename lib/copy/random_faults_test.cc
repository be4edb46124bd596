// Random trees and random faults: rot, bad sectors, wrong reads, lost and torn writes, full disks, edits, crashes and loss
// of power. A copy has its name only if it has the committed content, or the content of an unprotected source.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "copy/copy_tree.h"
#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "names/peek.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

using Op = MemoryFileSystem::Op;
using Lie = MemoryFileSystem::Lie;

constexpr std::int64_t kCommittedAt = 1'600'000'000'000'000'000;

/// One random case. Everything except the order of threads follows from the seed.
class Case {
 public:
  explicit Case(std::uint64_t seed) : rng_(seed) {
    options_.block_size = 512u << Below(rng_, 5);
    options_.stripe = options_.block_size << Below(rng_, 4);
    options_.group = static_cast<std::uint32_t>(2 + Below(rng_, 5));
    options_.parity = static_cast<std::uint32_t>(Below(rng_, std::min(options_.group, 4u)));
    options_.threads = static_cast<std::uint32_t>(1 + Below(rng_, 2));
    options_.timeout_seconds = 0;
    request_.read_back = OneIn(rng_, 3) ? ReadBack::kCache : ReadBack::kUncached;
    request_.protect = !OneIn(rng_, 4);
    request_.salvage = OneIn(rng_, 4);
    apart_ = OneIn(rng_, 3);
  }

  void Run() {
    MakeFiles();
    Damage();
    const auto damaged = fs_.Copy();
    PlanFaults();
    const bool edited = Copy();
    CheckSource(damaged, edited);
    CheckCopies();
    if (crashes_) fs_.PowerLoss(rng_);
    // Without faults of the destination, a second run copies everything that can be copied.
    edit_at_ = 0;
    if (!edited) {
      request_.resume = OneIn(rng_, 2);
      Copy();
      CheckCopies();
      for (const auto& [name, file] : files_) {
        if (file.rows_lost == 0 && !file.unreadable) {
          EXPECT_TRUE(fs_.Has("d/" + name)) << name << ": " << reports_[name].status.message();
        }
      }
      EXPECT_EQ(Debris(), std::vector<std::string>());
    }
  }

 private:
  struct Source {
    Bytes committed;  // or as it was, where nothing was committed
    bool is_protected = false;
    std::uint64_t rows_lost = 0;
    bool unreadable = false;      // and unprotected
    std::set<std::uint64_t> hit;  // offsets of damaged bytes
  };

  void MakeFiles() {
    const auto self = SelfCommunicator();
    const std::uint64_t count = 1 + Below(rng_, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string name = "f" + std::to_string(i);
      Source& file = files_[name];
      // One of some spans several batches.
      const std::uint64_t size =
          OneIn(rng_, 25) ? (18u << 20) + Below(rng_, 1u << 20) : Below(rng_, OneIn(rng_, 3) ? 2'000'000 : 40'000);
      file.committed = RandomBytes(rng_, size);
      if (OneIn(rng_, 3))
        std::fill(file.committed.begin(), file.committed.begin() + static_cast<std::ptrdiff_t>(size / 2),
                  std::uint8_t{0});
      fs_.Put("s/" + name, file.committed, kCommittedAt + static_cast<std::int64_t>(i));
      file.is_protected = !OneIn(rng_, 3);
      if (file.is_protected)
        EXPECT_OK(Protect({fs_, *self, options_}, {DatasetKind::kShared, "s/" + name, {}}, {}).status);
    }
  }

  // Makes rot and bad sectors in the source. Rows show what parity can rebuild.
  void Damage() {
    for (auto& [name, file] : files_) {
      if (file.committed.empty() || OneIn(rng_, 3)) continue;
      auto& node = fs_.At("s/" + name);
      std::set<std::uint64_t> blocks;
      for (std::uint64_t n = Below(rng_, 6); n > 0; --n) {
        const std::uint64_t at = Below(rng_, file.committed.size());
        blocks.insert(at / options_.block_size);
        if (OneIn(rng_, 3)) {
          node.unreadable.emplace_back(at, 1);
          file.unreadable |= !file.is_protected;
        } else if (file.is_protected && OneIn(rng_, 3)) {  // nobody can notice it otherwise
          node.flaky.emplace_back(at, 1);
        } else {
          node.bytes[at] ^= 0x10;
          node.durable[at] = node.bytes[at];
        }
        file.hit.insert(at);
      }
      if (!file.is_protected) file.committed = node.bytes;
      CountLost(name, file, blocks);
    }
  }

  // Blocks that are wrong only in the page cache count, too, and so do whole rows with several faults: HealBlocks does not
  // judge a row with a source that is read wrong.
  void CountLost(const std::string& name, Source& file, const std::set<std::uint64_t>& blocks) {
    if (!file.is_protected) return;
    const auto sidecar = Sidecar::Load(fs_, "s/.LZY." + name, OpenMode::kRead);
    ASSERT_OK(sidecar);
    const auto layout = LayoutOf((*sidecar)->contents());
    ASSERT_OK(layout);
    const std::uint32_t most = fs_.At("s/" + name).flaky.empty() ? options_.parity : std::min(options_.parity, 1u);
    std::map<RowId, std::uint32_t> rows;
    for (const std::uint64_t block : blocks) {
      if (++rows[layout->LocateData(0, block).row] == most + 1) ++file.rows_lost;
    }
  }

  // Faults of the destination. A lie affects either at most kTries writes of one place, so the copy can be proven, or all
  // writes, so it cannot.
  void PlanFaults() {
    const bool lies = OneIn(rng_, 2), full = OneIn(rng_, 4);
    crashes_ = OneIn(rng_, 4);
    edit_at_ = OneIn(rng_, 6) ? 1 + Below(rng_, 30) : 0;
    full_at_ = full ? Below(rng_, 60) : ~0ull;
    crash_at_ = crashes_ ? Below(rng_, 60) : ~0ull;
    one_in_ = lies ? 2 + Below(rng_, 20) : 0;
    forever_ = OneIn(rng_, 4);
    lie_rng_.seed(rng_());
  }

  // Returns true if the source was edited meanwhile.
  bool Copy() {
    std::mutex mutex;
    std::uint64_t operations = 0, writes = 0;
    bool edited = false;
    std::map<std::pair<std::string, std::uint64_t>, int> told;
    std::set<std::pair<std::string, std::uint64_t>> cursed;
    const bool trouble = !second_;
    fs_.fault = [&](Op op, const std::string& path, std::uint64_t, std::uint64_t) -> Status {
      const std::lock_guard lock(mutex);
      if (!trouble || !path.starts_with("d")) return Status::Ok();
      if (op != Op::kRead && operations++ >= crash_at_) return {Code::kIo, path + ": crashed"};
      if (op == Op::kWrite && writes++ >= full_at_) return {Code::kIo, path + ": No space left on device"};
      return Status::Ok();
    };
    fs_.lie = [&](Op op, const std::string& path, std::uint64_t offset, std::uint64_t length, bool) -> Lie {
      const std::lock_guard lock(mutex);
      if (!trouble || op != Op::kWrite || !path.starts_with("d/.LZY-copy.")) return {};
      if (edit_at_ > 0 && --edit_at_ == 0) {
        fs_.At("s/f0").stat.mtime_ns += 1;
        edited = true;
      }
      const std::pair<std::string, std::uint64_t> place{path, offset / kCopyChunk};
      if (!cursed.contains(place) && (one_in_ == 0 || !OneIn(lie_rng_, one_in_))) return {};
      if (forever_) cursed.insert(place);
      if (!forever_ && ++told[place] >= CopyTarget::kTries) return {};
      return OneIn(lie_rng_, 2) ? Lie{Lie::Kind::kLost, 0} : Lie{Lie::Kind::kTornMutely, Below(lie_rng_, length)};
    };
    reports_.clear();
    auto plan = PlanCopy(fs_, {"s"}, "d", /*resume=*/true);
    EXPECT_OK(plan);
    if (plan.ok() && apart_) plan->sight = {{1}, {0}, true};
    // Of two ranks, one reads and the other one writes.
    const auto copy = [&](Communicator& comm) {
      EXPECT_OK(CopyAll({fs_, comm, options_}, *plan, request_, [&](CopyReport report) {
        if (comm.rank() == 0) reports_[BaseNameOf(report.from)] = std::move(report);
      }));
    };
    if (plan.ok()) RunRanks(apart_ ? 2 : 1, copy);
    fs_.fault = nullptr;
    fs_.lie = nullptr;
    second_ = true;
    return edited;
  }

  void CheckSource(const std::map<std::string, MemoryFileSystem::Node>& before, bool edited) {
    for (const auto& [path, node] : before) {
      if (!path.starts_with("s/")) continue;
      EXPECT_EQ(fs_.At(path).bytes, node.bytes) << path;
      if (!edited) {
        EXPECT_EQ(fs_.At(path).stat.mtime_ns, node.stat.mtime_ns) << path;
      }
    }
  }

  void CheckCopies() {
    for (const auto& [name, file] : files_) {
      const bool there = fs_.Has("d/" + name);
      const auto report = reports_.find(name);
      if (report == reports_.end()) continue;
      EXPECT_TRUE(there || !report->second.status.ok()) << name;
      if (!there) continue;
      Bytes copy = fs_.At("d/" + name).bytes;
      ASSERT_EQ(copy.size(), file.committed.size()) << name;
      for (const ByteRange& range : report->second.lost) {
        lost_[name].push_back(range);
      }
      for (const ByteRange& range : lost_[name]) {
        EXPECT_TRUE(request_.salvage);
        // Something in it was damaged.
        const auto hit = file.hit.lower_bound(range.offset);
        EXPECT_TRUE(hit != file.hit.end() && *hit < range.offset + range.length) << name << " at " << range.offset;
        std::copy_n(file.committed.begin() + static_cast<std::ptrdiff_t>(range.offset), range.length,
                    copy.begin() + static_cast<std::ptrdiff_t>(range.offset));
      }
      EXPECT_TRUE(copy == file.committed) << name << " differs";
    }
  }

  std::vector<std::string> Debris() {
    std::vector<std::string> found;
    for (const auto& [path, node] : fs_.nodes()) {
      // A sidecar that was set aside proves the content of another file.
      const auto aside = path.starts_with("d/.LZY-tmp.") ? PeekSidecar(fs_, path) : Result<Peek>(Code::kNotFound, path);
      if (path.starts_with("d/.LZY-") && !(aside.ok() && aside->committed)) found.push_back(path);
    }
    return found;
  }

  Rng rng_, lie_rng_;
  MemoryFileSystem fs_;
  Options options_;
  CopyRequest request_;
  std::map<std::string, Source> files_;
  std::map<std::string, CopyReport> reports_;
  std::map<std::string, std::vector<ByteRange>> lost_;
  bool apart_ = false, crashes_ = false, forever_ = false, second_ = false;
  std::uint64_t edit_at_ = 0, full_at_ = 0, crash_at_ = 0, one_in_ = 0;
};

TEST(RandomFaults, CopiesAreWholeOrHaveNoName) {
  const std::uint64_t seed = SeedOf(1), rounds = RoundsOf(kSanitized ? 20 : 500);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    SCOPED_TRACE(::testing::Message() << "LZY_TEST_SEED=" << seed + i << " LZY_TEST_ROUNDS=1");
    Case(seed + i).Run();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace lzy::testing
