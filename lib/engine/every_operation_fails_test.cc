// At each operation of a commit, a repair and a restore in turn: the process crashes, or the operation fails, is torn, or
// cannot read.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>
#include <ostream>
#include <string>
#include <tuple>

#include "both_forms.h"
#include "misfortune_fixture.h"

namespace lzy::testing {
namespace {

constexpr std::uint64_t kSector = 512;

/// The fault at one operation.
enum class Fate {
  kCrash,       ///< the process ends; its earlier operations count (loss of power: power_loss_test.cc)
  kFails,       ///< one change fails, later ones do not
  kTorn,        ///< as kFails, but a write has written a part
  kUnreadable,  ///< one read meets a bad sector
  kNotRead,     ///< one read fails for another reason
};

const char* TextOf(Fate fate) {
  constexpr const char* kNames[] = {"Crash", "Fails", "Torn", "Unreadable", "NotRead"};
  return kNames[static_cast<int>(fate)];
}
void PrintTo(Fate fate, std::ostream* out) {
  *out << TextOf(fate);
}

class FateTest : public MisfortuneTest, public ::testing::WithParamInterface<std::tuple<Fate, bool>> {
 protected:
  FateTest() { options_.compact = std::get<1>(GetParam()); }
  Fate fate() const { return std::get<0>(GetParam()); }

  /// Injects the fault at each operation of `work` in turn, and calls `check` on the result.
  template <class Work, class CheckFn>
  void AtEveryOperation(const Work& work, const CheckFn& check) {
    const auto start = fs_.Copy();
    const bool reading = fate() == Fate::kUnreadable || fate() == Fate::kNotRead;
    const Code code = fate() == Fate::kUnreadable ? Code::kUnreadable : Code::kIo;
    for (std::uint64_t budget = 0;; ++budget) {
      fs_.Restore(start);
      std::atomic<std::uint64_t> used{0};
      std::atomic<bool> torn{false};
      fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
        if ((op == MemoryFileSystem::Op::kRead) != reading) return Status::Ok();
        const std::uint64_t number = used++;
        const bool struck = fate() == Fate::kCrash ? number >= budget : number == budget;
        if (fate() == Fate::kTorn && struck && op == MemoryFileSystem::Op::kWrite) {
          torn = true;
          return Status::Ok();
        }
        return struck ? Status(code, path + ": no luck") : Status::Ok();
      };
      fs_.lie = [&](MemoryFileSystem::Op op, const std::string&, std::uint64_t, std::uint64_t length, bool) {
        MemoryFileSystem::Lie lie;
        if (op != MemoryFileSystem::Op::kWrite || !torn.exchange(false)) return lie;
        // After a sector, or anywhere.
        lie.kind = MemoryFileSystem::Lie::Kind::kTorn;
        lie.bytes = budget % 2 == 0 ? length / 2 / kSector * kSector : Below(rng_, length);
        return lie;
      };
      const bool done = work();
      fs_.fault = nullptr;
      fs_.lie = nullptr;
      auto left = fs_.Copy();
      fs_.Restore(left);  // locks go with the process
      SCOPED_TRACE(fmt::format("struck at operation {}", budget));
      check(done);
      if (HasFailure() || used <= budget) return;
      ASSERT_LT(budget, 5000u);
    }
  }
};

TEST_P(FateTest, FirstCommit) {
  for (std::uint32_t members : {0u, 3u}) {
    Make(members);
    for (const std::string& path : paths_) ASSERT_OK(fs_.Remove(*SidecarPath(path)));
    const auto data = fs_.Copy();
    AtEveryOperation([&] { return Protect(Here(), ref_, {}).status.ok(); },
                     [&](bool done) {
                       for (const std::string& path : paths_) EXPECT_EQ(fs_.At(path).bytes, data.at(path).bytes);
                       if (done) {
                         ExpectIntact();
                       }
                       const DatasetReport again = Protect(Here(), ref_, {});
                       ASSERT_TRUE(again.status.ok()) << Text(again);
                       EXPECT_EQ(again.root, root_);
                       ExpectIntact();
                     });
  }
}

TEST_P(FateTest, LzyProtectOfAnEditedDataset) {
  for (std::uint32_t members : {0u, 3u}) {
    Make(members);
    for (std::uint32_t r = 0; r < paths_.size(); ++r) {
      Write(r, 5 * kBlock, Bytes(700, 0x77));
    }
    AtEveryOperation([&] { return Protect(Here(), ref_, {}).status.ok(); },
                     [&](bool) { ExpectRecoverable(members > 0 ? "set" : "shared"); });
  }
}

TEST_P(FateTest, EpochOfASharedFile) {
  Make();
  AtEveryOperation([&] { return Epoch(1); }, [&](bool) { ExpectRecoverable("shared"); });
}

TEST_P(FateTest, EpochOfASet) {
  Make(3);
  AtEveryOperation([&] { return Epoch(3); }, [&](bool) { ExpectRecoverable("set"); });
}

TEST_P(FateTest, Repair) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    for (std::uint64_t block : {2u, 3u, 11u}) Data().bytes[block * kBlock] ^= 1;
    if (members > 0) {
      Data(1).bytes.push_back(9);
    }
    AtEveryOperation([&] { return this->MisfortuneTest::Repair().status.ok(); },
                     [&](bool) {
                       const DatasetReport again = this->MisfortuneTest::Repair();
                       ASSERT_TRUE(again.status.ok()) << Text(again);
                       EXPECT_EQ(ExitCodeOf(again), 0) << Text(again);
                       ExpectDataAsCommitted();
                       ExpectIntact();
                     });
  }
}

TEST_P(FateTest, Restore) {
  Make(4);
  LoseMember(1);
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[2])));
  AtEveryOperation([&] { return lzy::Restore(Here(), Ref(), {}).status.ok(); },
                   [&](bool) {
                     const DatasetReport again = lzy::Restore(Here(), Ref(), {});
                     ASSERT_TRUE(again.status.ok()) << Text(again);
                     EXPECT_EQ(ExitCodeOf(again), 0) << Text(again);
                     ExpectDataAsCommitted();
                     ExpectIntact();
                   });
}

std::string NameOfFate(const ::testing::TestParamInfo<std::tuple<Fate, bool>>& test) {
  return TextOf(std::get<0>(test.param)) + SuffixOfForm(std::get<1>(test.param));
}
INSTANTIATE_TEST_SUITE_P(Of, FateTest,
                         ::testing::Combine(::testing::Values(Fate::kCrash, Fate::kFails, Fate::kTorn,
                                                              Fate::kUnreadable, Fate::kNotRead),
                                            ::testing::Bool()),
                         NameOfFate);

}  // namespace
}  // namespace lzy::testing
