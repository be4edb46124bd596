#pragma once
// Records what a run does to storage, and looks at every state in which a loss of power can leave it (power_loss.h).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_dataset.h"
#include "memory_files.h"
#include "merkle/hash.h"
#include "power_loss.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {

class PowerLossFixture : public MemoryDatasetTest {
 public:
  static constexpr std::uint32_t kBlock = 1024;  // two sectors
  static constexpr std::uint64_t kSector = 512;
  static constexpr std::int64_t kPast = 1'600'000'000'000'000'000;

  /// Contents by path.
  using Contents = std::map<std::string, Bytes>;

  struct Write {
    std::uint32_t file = 0;
    bool truncate = false;
    std::uint64_t offset = 0;  ///< or the new size
    Bytes bytes;
  };

  /// Looks at what is left. `returned`: the power failed after the run had come to its end.
  using CheckFn = std::function<void(bool returned)>;

  PowerLossFixture() : MemoryDatasetTest(kBlock, 2 * kBlock, 5) {
    fs_.now = [this] { return clock_ += 1000; };
  }

  // ------------------------------------------------------------------------------------------------ what is recorded

  /// Files that are not protected yet: a shared file, or a set of `members`.
  void MakeFiles(std::uint32_t members, std::uint64_t blocks) {
    versions_.clear();
    NameFiles(members);
    for (std::uint32_t r = 0; r < paths_.size(); ++r) {
      fs_.Put(paths_[r], RandomBytes(rng_, blocks * kBlock - 100 * r - 7));
    }
    for (const std::string& directory : options_.device_dirs) fs_.Put(directory + "/lost+found", {});
  }
  /// From now on shared files have device directories, as many as a group has devices.
  void UseDirectories() {
    for (std::uint32_t d = 0; d < options_.group; ++d) options_.device_dirs.push_back(fmt::format("/p{}", d));
  }
  void LosePart(std::uint32_t device) {
    const auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[0]), OpenMode::kRead);
    ASSERT_OK(sidecar);
    const Parts& parts = (*sidecar)->contents().info.parts;
    ASSERT_EQ(parts.directories, options_.device_dirs);
    ASSERT_OK(fs_.Remove(JoinPath(parts.directories[device], parts.name)));
  }
  void MakeProtected(std::uint32_t members, std::uint64_t blocks) {
    MakeFiles(members, blocks);
    const DatasetReport made = Protect(Here(), ref_, {});
    ASSERT_OK(made.status);
    NoteVersion(made);
    if (with_snapshot_) TakeSnapshot();
  }
  /// The sidecars get second names in another directory, as by `cp -al`.
  void TakeSnapshot() {
    fs_.hard_links = true;
    snapshot_.clear();
    for (const std::string& path : paths_) {
      const std::string sidecar = *SidecarPath(path), second = "/snapshot/" + BaseNameOf(sidecar);
      ASSERT_OK(fs_.MakeHardLink(sidecar, second));
      snapshot_[second];
    }
  }
  void ExpectSnapshotIsAsItWas() {
    for (const auto& [path, bytes] : snapshot_) {
      ASSERT_TRUE(fs_.Has(path)) << path;
      EXPECT_TRUE(fs_.At(path).bytes == bytes) << path << " was changed";
    }
  }
  void NoteVersion(const DatasetReport& report) { versions_[report.root.bytes] = Present(); }
  Contents Present() const {
    Contents contents;
    for (const std::string& path : paths_) {
      if (fs_.Has(path)) contents[path] = fs_.nodes().at(path)->bytes;
    }
    return contents;
  }

  std::vector<Write> RandomWrites(bool growing) {
    std::vector<Write> writes;
    for (std::uint32_t f = 0; f < paths_.size(); ++f) {
      if (f > 0 && OneIn(rng_, 3)) continue;
      const std::uint64_t size = fs_.At(paths_[f]).bytes.size();
      for (std::uint64_t count = 1 + Below(rng_, 3); count > 0; --count) {
        const std::uint64_t at = Below(rng_, size);
        writes.push_back(
            {f, false, at, RandomBytes(rng_, 1 + Below(rng_, std::min<std::uint64_t>(size - at, 3 * kBlock)))});
      }
      if (growing) writes.push_back({f, false, size, RandomBytes(rng_, size * 3)});
      if (!growing && OneIn(rng_, 3)) writes.push_back({f, true, size - Below(rng_, 2 * kBlock), {}});
      if (!growing && OneIn(rng_, 3)) writes.push_back({f, false, size, RandomBytes(rng_, 1 + Below(rng_, kBlock))});
    }
    return writes;
  }

  /// One epoch, as the hooks go through it, of as many ranks as there are files.
  void Epoch(const std::vector<Write>& writes) {
    std::vector<Intent> own;
    for (const std::string& path : paths_) {
      const auto start = BeginEpoch(fs_, options_, path, ref_.kind == DatasetKind::kSet ? ref_.path : "");
      ASSERT_OK(start);
      own.push_back(start->intent);
      whole_ |= !start->had_sidecar || start->changed_behind;
    }
    Edits touched;
    for (std::uint32_t f = 0; f < paths_.size(); ++f) touched[f] = whole_ ? IntervalSet::Whole() : IntervalSet();
    for (const Write& write : writes) {
      auto file = fs_.Open(paths_[write.file], OpenMode::kReadWrite);
      ASSERT_OK(file);
      const std::uint64_t size = fs_.At(paths_[write.file]).bytes.size();
      const std::uint64_t from = std::min(size, write.offset);
      ASSERT_OK(write.truncate ? (*file)->Truncate(write.offset) : (*file)->WriteAt(write.offset, write.bytes));
      const std::uint64_t end = write.truncate ? size : write.offset + write.bytes.size();
      if (!whole_) AddTouched(touched[write.file], from == 0 ? 0 : from - 1, end - from + 1);
      AddTouched(touched_[write.file], from == 0 ? 0 : from - 1, end - from + 1);
    }
    for (const std::string& path : paths_) ASSERT_OK((*fs_.Open(path, OpenMode::kReadWrite))->Sync());
    DatasetReport made;
    std::mutex mutex;
    RunRanks(static_cast<int>(paths_.size()), [&](Communicator& comm) {
      const auto rank = static_cast<std::uint32_t>(comm.rank());
      ProtectRequest request;
      request.touched = Edits{{rank, touched[rank]}};
      request.own_intents = own;
      DatasetRef ref = ref_;
      std::erase_if(ref.members, [&](const auto& m) { return m.first != rank; });
      const DatasetReport report = Protect(Context{fs_, comm, options_}, ref, request);
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(report.status.ok()) << Text(report);
      made = report;
    });
    NoteVersion(made);
  }

  /// Records what `work` does, from what there is now on.
  template <class Work>
  void Record(const Work& work) {
    const PowerLoss::Files start = fs_.Copy();
    for (auto& [path, bytes] : snapshot_) bytes = fs_.At(path).bytes;  // damage hits both names
    std::vector<StorageOp> ops;
    touched_.clear();
    whole_ = false;
    fs_.record = [&](const StorageOp& op) { ops.push_back(op); };
    work();
    fs_.record = nullptr;
    run_.emplace(start, std::move(ops));
  }

  // -------------------------------------------------------------------------------------------- what is left, and why

  /// Puts `check` to every state that chance (`rounds` times each prefix), or every chance there is, leaves of the run.
  void AtEveryPrefix(const CheckFn& check, std::uint64_t rounds) {
    const double likely[] = {0, 1, 0.5, 0.1, 0.9};
    for (std::size_t count = 0; count <= run_->operations(); ++count) {
      for (std::uint64_t round = 0; round < rounds; ++round) {
        const double p = likely[round % std::size(likely)];
        const std::uint64_t sector = OneIn(rng_, 3) ? 0 : kSector;
        std::bernoulli_distribution survives(p);
        Look(check, count, run_->After(count, sector, [&] { return survives(rng_); }));
        if (HasFailure()) return;
      }
    }
  }
  void AtEveryPossibility(const CheckFn& check, std::size_t most_bits) {
    for (std::size_t count = 0; count <= run_->operations(); ++count) {
      std::size_t bits = 0;
      run_->After(count, 0, [&] { return ++bits, true; });
      // Of too many, some are enumerated, and the others left to chance.
      std::vector<std::size_t> enumerated(bits);
      for (std::size_t bit = 0; bit < bits; ++bit) enumerated[bit] = bit;
      std::shuffle(enumerated.begin(), enumerated.end(), rng_);
      enumerated.resize(std::min(bits, most_bits));
      for (std::uint64_t choice = 0; choice < 1ull << enumerated.size(); ++choice) {
        std::vector<bool> survives(bits);
        for (std::size_t bit = 0; bit < bits; ++bit) survives[bit] = OneIn(rng_, 2);
        for (std::size_t i = 0; i < enumerated.size(); ++i) survives[enumerated[i]] = ((choice >> i) & 1) != 0;
        std::size_t asked = 0;
        Look(check, count, run_->After(count, 0, [&] { return survives[asked++]; }));
        if (HasFailure()) return;
      }
    }
  }

  void Look(const CheckFn& check, std::size_t count, const PowerLoss::Files& left) {
    Bytes all;
    for (const auto& [path, node] : left) {
      all.insert(all.end(), path.begin(), path.end());
      all.insert(all.end(), node.bytes.begin(), node.bytes.end());
      std::uint8_t mtime[8];
      StoreLe(mtime, static_cast<std::uint64_t>(node.stat.mtime_ns));
      all.insert(all.end(), mtime, mtime + 8);
    }
    if (!seen_.insert(HashBytes(HashTag::kInfo, count == run_->operations(), all).bytes).second) return;
    SCOPED_TRACE(
        fmt::format("the power failed after {} of {} operations, state {}", count, run_->operations(), seen_.size()));
    fs_.Restore(left);
    check(count == run_->operations());
    if (HasFailure()) PrintOperations(count);
  }

  /// The first `count` operations, for whoever looks for the reason.
  void PrintOperations(std::size_t count) const {
    const char* names[] = {"create", "write", "truncate", "set times", "sync", "rename", "remove", "sync directory"};
    for (std::size_t i = 0; i < count; ++i) {
      const StorageOp& op = run_->operation(i);
      fmt::print("{:4} {} {} {} inode {} offset {} bytes {}\n", i, names[static_cast<int>(op.kind)], op.path, op.to,
                 op.inode, op.offset, op.bytes.size());
    }
  }

  std::int64_t clock_ = kPast;
  std::map<std::array<std::uint8_t, 16>, Contents> versions_;  // what was ever committed, by root
  std::optional<PowerLoss> run_;
  bool with_snapshot_ = false;
  Contents snapshot_;   // what the second names of sidecars lead to
  Edits touched_;       // by the run, in all its epochs
  bool whole_ = false;  // and everything, as far as lzy knows
  std::set<std::array<std::uint8_t, 16>> seen_;
};

}  // namespace lzy::testing
