// The engine on storage that lies: writes that are lost or torn but reported as done, and reads that return old bytes. Such
// storage may hold anything, but all reports about it must be true, and right data must not be lost.
#include <cstdio>
#include <mutex>
#include <ostream>
#include <string>
#include <tuple>

#include "both_forms.h"
#include "commit/check_written.h"
#include "misfortune_fixture.h"

namespace lzy::testing {
namespace {

using Op = MemoryFileSystem::Op;
using Lie = MemoryFileSystem::Lie;

/// What storage lies about.
enum class About {
  kLost,        ///< one write is lost
  kTorn,        ///< one write is done in part
  kStale,       ///< one read returns the old bytes
  kStalePages,  ///< all later reads of the same bytes do, too, except those past the page cache
};

using Contents = std::map<std::string, Bytes>;

class LyingStorage : public MisfortuneTest {
 protected:
  LyingStorage() { fs_.lie = Honest(); }

  /// Storage that does not lie, but keeps the old bytes for later lies.
  static std::function<Lie(Op, const std::string&, std::uint64_t, std::uint64_t, bool)> Honest() {
    return [](auto, const auto&, auto, auto, auto) { return Lie(); };
  }

  Contents Now() const {
    Contents out;
    for (const std::string& path : paths_) {
      if (fs_.Has(path)) out[path] = fs_.nodes().at(path)->bytes;
    }
    return out;
  }

  /// The root of these contents, protected in another file system.
  Hash RootOf(const Contents& contents) {
    MemoryFileSystem elsewhere;
    for (const auto& [path, bytes] : contents) elsewhere.Put(path, bytes, kPast);
    const DatasetReport made = Protect({elsewhere, *self_, options_}, ref_, {});
    EXPECT_OK(made.status);
    return made.root;
  }

  /// Expects that parity rebuilds any two lost devices.
  void ExpectParityServes(const std::string& what) {
    const auto left = fs_.Copy();
    const Contents contents = Now();
    const std::uint32_t devices =
        ref_.kind == DatasetKind::kSet ? static_cast<std::uint32_t>(paths_.size()) : options_.group;
    for (std::uint32_t first = 0; first + 1 < devices; ++first) {
      RestoreRequest request;
      request.force = true;  // the mtime may be that of a repair that broke off
      if (ref_.kind == DatasetKind::kSet) {
        for (const std::uint32_t lost : {first, first + 1}) {
          ASSERT_OK(fs_.Remove(paths_[lost]));
          ASSERT_OK(fs_.Remove(*SidecarPath(paths_[lost])));
        }
      } else {
        request.devices = {first, first + 1};
      }
      const DatasetReport restored = lzy::Restore(Here(), Ref(), request);
      EXPECT_EQ(ExitCodeOf(restored), 0) << what << ": what was called intact cannot be restored: " << Text(restored);
      EXPECT_EQ(Now(), contents) << what << ": what was called intact is restored as something else";
      fs_.Restore(left);
    }
  }

  /// Expects that a verdict "intact" is true: the data have the reported root, and parity can rebuild them.
  void ExpectTruth(const DatasetReport& found, const std::string& what) {
    if (!found.status.ok() || found.state != DatasetState::kIntact) return;
    EXPECT_EQ(found.root, RootOf(Now())) << what << ": called intact, and is not";
    const bool whole =
        std::none_of(found.damage.begin(), found.damage.end(), [](const Damage& d) { return !d.transient; });
    if (whole && OneIn(rng_, 3)) ExpectParityServes(what);  // takes time
  }

  /// The number of faults that verify-writes finds in the last epoch.
  std::uint64_t FaultsOfWrites() {
    const Written written{ref_, touched_, Check().generation, nullptr};
    const auto checked = CheckWritten(Here(), written);
    EXPECT_OK(checked);
    return checked.ok() ? checked->faults : 0;
  }
};

const char* TextOf(About about) {
  constexpr const char* kNames[] = {"Lost", "Torn", "Stale", "StalePages"};
  return kNames[static_cast<int>(about)];
}
void PrintTo(About about, std::ostream* out) {
  *out << TextOf(about);
}

class LieTest : public LyingStorage, public ::testing::WithParamInterface<std::tuple<About, bool>> {
 protected:
  LieTest() { options_.compact = std::get<1>(GetParam()); }
  About about() const { return std::get<0>(GetParam()); }
  bool Reading() const { return about() == About::kStale || about() == About::kStalePages; }

  /// Lies at each operation of `work` in turn (every third; all with LZY_TEST_ALL_POINTS=1), and calls `check` with: whether
  /// `work` reported success, and whether the lie was about data.
  template <class Work, class CheckFn>
  void AtEveryOperation(const Work& work, const CheckFn& check) {
    const auto start = fs_.Copy();
    const std::uint64_t step = NumberFromEnvironment("LZY_TEST_ALL_POINTS", 0) != 0 ? 1 : 3;
    for (std::uint64_t at = Below(rng_, step);; at += step) {
      fs_.Restore(start);
      std::mutex mutex;
      std::uint64_t used = 0, offset = 0, end = 0;
      std::string path;
      fs_.lie = [&](Op op, const std::string& name, std::uint64_t from, std::uint64_t length, bool uncached) {
        const std::lock_guard lock(mutex);
        Lie lie;
        if (program_writes_ || (op == Op::kRead) != Reading()) return lie;
        const bool first = used++ == at;
        if (first) std::tie(path, offset, end) = std::tuple(name, from, from + length);
        const bool again = about() == About::kStalePages && used > at && !uncached && name == path &&
                           from < end && offset < from + length;
        if (!first && !again) return lie;
        lie.kind = about() == About::kLost   ? Lie::Kind::kLost
                   : about() == About::kTorn ? Lie::Kind::kTornMutely
                                                : Lie::Kind::kStale;
        lie.bytes = OneIn(rng_, 2) ? length / 2 / kBlock * kBlock : Below(rng_, length);
        return lie;
      };
      const bool done = work();
      fs_.lie = Honest();
      fs_.Restore(fs_.Copy());  // locks go with the process
      const bool data = std::find(paths_.begin(), paths_.end(), path) != paths_.end();
      check(done, data, fmt::format("lied at operation {}, [{}, {}) of {}", at, offset, end, path));
      if (HasFailure() || used <= at) return;
      ASSERT_LT(at, 5000u);
    }
  }

  /// After a commit of data that are on disk as the program wrote them: they stay, and can be committed.
  void ExpectDataStay(bool done, bool of_data, const std::string& what) {
    const Contents written = Now();
    const DatasetReport found = Check();
    EXPECT_TRUE(found.status.ok() || found.status.code() == Code::kUnprotected) << what << ": " << Text(found);
    ExpectTruth(found, what);
    // If the commit itself read wrong data, it has committed them. Verify names that, and verify-writes finds it after the
    // commit.
    const bool misled = done && of_data && Reading();
    if (misled && ExitCodeOf(found) != 0 && !touched_.empty()) {
      EXPECT_GT(FaultsOfWrites(), 0u) << what << ": " << Text(found);
    }
    const auto left = fs_.Copy();
    const DatasetReport repaired = Repair();
    if (!misled) {
      EXPECT_EQ(Now(), written) << what << ": a repair took data back: " << Text(repaired);
    }
    ExpectTruth(Check(), what + ", then repaired");
    if (misled) fs_.Restore(left);
    ProtectRequest force;
    force.force = misled;
    const DatasetReport again = Protect(Here(), Ref(), force);
    EXPECT_EQ(ExitCodeOf(again), 0) << what << ": " << Text(again);
    EXPECT_EQ(Now(), written) << what;
    const DatasetReport after = Check();
    EXPECT_EQ(ExitCodeOf(after), 0) << what << ": " << Text(after);
    ExpectTruth(after, what + ", then protected");
  }

  /// After an attempt to repair: everything that was reported as repaired is, and the rest can be repaired.
  void ExpectRepairable(const DatasetReport& tried, const std::string& what) {
    const DatasetReport found = Check();
    ExpectTruth(found, what);
    const auto was_told = [&](const Damage& now) {
      // Blocks whose read returned the bytes from before the damage count as committed. Metadata are not read back.
      const bool read_right =
          Reading() && (tried.state == DatasetState::kIntact ||
                        std::any_of(tried.damage.begin(), tried.damage.end(), [&](const Damage& then) {
                          return then.transient && then.path == now.path && then.offset == now.offset;
                        }));
      return read_right || now.part == DamagePart::kMetadata;
    };
    if (tried.status.ok() && ExitCodeOf(tried) == 0) {
      for (const Damage& d : found.damage) EXPECT_TRUE(was_told(d)) << what << ", called repaired: " << Text(found);
    }
    const DatasetReport again = lzy::Restore(Here(), Ref(), {});
    EXPECT_EQ(ExitCodeOf(again), 0) << what << ": " << Text(again);
    SCOPED_TRACE(what);
    ExpectDataAsCommitted();
    ExpectIntact();
  }
};

TEST_P(LieTest, FirstCommit) {
  for (const std::uint32_t members : {0u, 3u}) {
    Make(members);
    for (std::uint32_t r = 0; r < paths_.size(); ++r) {
      ASSERT_OK(fs_.Remove(*SidecarPath(paths_[r])));
      Write(r, 0, RandomBytes(rng_, Data(r).bytes.size()));
    }
    AtEveryOperation([&] { return ExitCodeOf(Protect(Here(), ref_, {})) == 0; },
                     [&](bool done, bool data, const std::string& what) { ExpectDataStay(done, data, what); });
  }
}

TEST_P(LieTest, LzyProtectOfAnEditedDataset) {
  for (const std::uint32_t members : {0u, 3u}) {
    Make(members);
    for (std::uint32_t r = 0; r < paths_.size(); ++r) Write(r, 5 * kBlock, Bytes(700, 0x77));
    AtEveryOperation([&] { return ExitCodeOf(Protect(Here(), ref_, {})) == 0; },
                     [&](bool done, bool data, const std::string& what) { ExpectDataStay(done, data, what); });
  }
}

TEST_P(LieTest, EpochOfASharedFile) {
  Make();
  AtEveryOperation([&] { return Epoch(1); },
                   [&](bool done, bool data, const std::string& what) { ExpectDataStay(done, data, what); });
}

TEST_P(LieTest, EpochOfASet) {
  Make(3);
  AtEveryOperation([&] { return Epoch(3); },
                   [&](bool done, bool data, const std::string& what) { ExpectDataStay(done, data, what); });
}

TEST_P(LieTest, Repair) {
  for (const std::uint32_t members : {0u, 4u}) {
    Make(members);
    const Bytes right = Data().bytes;
    // Write wrong bytes, so that the old bytes are the right ones.
    for (const std::uint64_t block : {2u, 3u, 11u}) Write(0, block * kBlock, Bytes(1, right[block * kBlock] ^ 1));
    Data().stat.mtime_ns = kPast;
    DatasetReport repaired;
    AtEveryOperation(
        [&] {
          repaired = this->MisfortuneTest::Repair();
          return repaired.status.ok();
        },
        [&](bool, bool, const std::string& what) { ExpectRepairable(repaired, what); });
  }
}

TEST_P(LieTest, Restore) {
  Make(4);
  ASSERT_OK(fs_.Remove(paths_[1]));
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[1])));
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[2])));
  DatasetReport restored;
  AtEveryOperation(
      [&] {
        restored = lzy::Restore(Here(), Ref(), {});
        return restored.status.ok();
      },
      [&](bool, bool, const std::string& what) { ExpectRepairable(restored, what); });
}

// The page cache has the bytes from before the damage.
TEST_F(LyingStorage, DamageThatThePageCacheHidesIsFoundFromDisk) {
  for (const std::uint32_t members : {0u, 4u}) {
    Make(members);
    Write(0, 3 * kBlock, Bytes(100, 0x5a));
    Data().stat.mtime_ns = kPast;
    fs_.lie = [&](Op op, const std::string& path, std::uint64_t, std::uint64_t, bool uncached) {
      return Lie{op == Op::kRead && path == paths_[0] && !uncached ? Lie::Kind::kStale : Lie::Kind::kNone, 0};
    };
    EXPECT_EQ(ExitCodeOf(Check()), 0);
    VerifyRequest request;
    request.from_disk = true;
    const DatasetReport found = Verify(Here(), Ref(), request);
    EXPECT_EQ(ExitCodeOf(found), 1) << Text(found);
    ASSERT_EQ(found.damage.size(), 1u) << Text(found);
    EXPECT_EQ(found.damage[0].offset, 3 * kBlock);
    request.repair = true;
    EXPECT_EQ(ExitCodeOf(Verify(Here(), Ref(), request)), 0);
    fs_.lie = Honest();
    ExpectDataAsCommitted();
    ExpectIntact();
  }
}

// Each byte is from some version of the file. An interrupted repair may have given a file its old length without filling it.
void ExpectEverWritten(const std::string& path, const Bytes& bytes, const std::vector<Bytes>& versions) {
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const bool ever = std::any_of(versions.begin(), versions.end(), [&](const Bytes& one) {
      return at < one.size() ? one[at] == bytes[at] : bytes[at] == 0;
    });
    ASSERT_TRUE(ever) << path << " has at " << at << " what nobody wrote";
  }
}

// Any number of lies and failures of all kinds, for all readers and writers. All reports must be true, and files must not
// have bytes that no program wrote. LZY_TEST_ROUNDS sets the number of rounds.
TEST_F(LyingStorage, RandomLies) {
  const std::uint64_t seed = SeedOf(20261122);
  const std::uint64_t rounds = RoundsOf(300);
  std::uint64_t told = 0, intact = 0, done = 0;
  for (std::uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
    rng_.seed(seed + round);
    SCOPED_TRACE(fmt::format("LZY_TEST_SEED={} LZY_TEST_ROUNDS=1", seed + round));
    fs_.lie = Honest();
    options_.compact = OneIn(rng_, 2);
    Make(OneIn(rng_, 2) ? 0 : 3);
    std::map<std::string, std::vector<Bytes>> versions;
    const auto remember = [&] {
      for (const auto& [path, bytes] : Now()) versions[path].push_back(bytes);
    };
    remember();
    for (int step = 0; step < 3 && !HasFailure(); ++step) {
      std::mutex mutex;
      const std::uint64_t rarity = 1 + Below(rng_, 100);
      const auto struck = [&] { return !program_writes_ && OneIn(rng_, rarity); };
      fs_.lie = [&](Op op, const std::string&, std::uint64_t, std::uint64_t length, bool) {
        const std::lock_guard lock(mutex);
        if (!struck()) return Lie();
        ++told;
        if (op == Op::kRead) return Lie{Lie::Kind::kStale, 0};
        constexpr Lie::Kind kKinds[] = {Lie::Kind::kTorn, Lie::Kind::kTornMutely, Lie::Kind::kLost};
        return Lie{kKinds[Below(rng_, 3)], Below(rng_, length)};
      };
      fs_.fault = [&](Op, const std::string& path, std::uint64_t, std::uint64_t) {
        const std::lock_guard lock(mutex);
        if (!struck() || !OneIn(rng_, 4)) return Status::Ok();
        ++told;
        return Status(OneIn(rng_, 2) ? Code::kUnreadable : Code::kIo, path + ": no luck");
      };
      const std::uint64_t what = Below(rng_, 4);
      if (what == 0) done += Epoch(ref_.kind == DatasetKind::kSet ? 3 : 1);
      if (what == 1) done += ExitCodeOf(Protect(Here(), Ref(), {})) == 0;
      if (what == 2) done += ExitCodeOf(Repair()) == 0;
      if (what == 3) done += ExitCodeOf(lzy::Restore(Here(), Ref(), {})) == 0;
      program_writes_ = false;
      fs_.fault = nullptr;
      fs_.lie = Honest();
      fs_.Restore(fs_.Copy());
      if (what == 0) remember();
      const auto before = fs_.Copy();
      const DatasetReport found = Check();
      for (const auto& [path, node] : before) EXPECT_EQ(fs_.At(path).bytes, node.bytes) << "verify wrote to " << path;
      intact += found.status.ok() && found.state == DatasetState::kIntact;
      ExpectTruth(found, fmt::format("round {}, step {}, work {}", round, step, what));
      for (const auto& [path, bytes] : Now()) ExpectEverWritten(path, bytes, versions[path]);
    }
  }
  std::printf("%llu lies, %llu works said to be done, %llu times intact\n", static_cast<unsigned long long>(told),
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(intact));
  EXPECT_GT(told, rounds);
  EXPECT_GT(intact, rounds / 2);
}

std::string NameOfLie(const ::testing::TestParamInfo<std::tuple<About, bool>>& test) {
  return TextOf(std::get<0>(test.param)) + SuffixOfForm(std::get<1>(test.param));
}
INSTANTIATE_TEST_SUITE_P(Of, LieTest,
                         ::testing::Combine(::testing::Values(About::kLost, About::kTorn, About::kStale,
                                                              About::kStalePages),
                                            ::testing::Bool()),
                         NameOfLie);

}  // namespace
}  // namespace lzy::testing
