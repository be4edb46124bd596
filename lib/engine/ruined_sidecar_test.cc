// Sidecars that are cut, zeroed or overwritten; the data are whole, or have one known rotten byte. Right data must never be
// called damaged, and wrong data never intact. Every tool must accept what a tool writes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "sidecar/sidecar.h"

namespace lzy::testing {
namespace {

struct Shape {
  const char* name;
  DatasetKind kind;
  std::uint32_t parity;
  std::uint64_t size;  ///< of each file
  bool device_dirs;
  bool compact = true;  ///< the form of its sidecars, if it is small enough
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.name << ", parity " << shape.parity;
}

constexpr std::uint32_t kMembers = 4;
constexpr std::uint64_t kPage = 4096;

/// The rotten byte, if there is one. No other byte may be called damaged.
struct Rotten {
  std::string path;
  std::uint64_t offset = 0;
};

class RuinedSidecar : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    options_.parity = GetParam().parity;
    options_.group = kMembers;
    options_.block_size = 512;
    options_.stripe = 1024;
    options_.threads = 1;
    options_.compact = GetParam().compact;
    options_.given = {"parity", "group", "block-size", "stripe"};
    std::filesystem::create_directory(scratch_ / "data");
    path_ = scratch_ / (GetParam().kind == DatasetKind::kSet ? "data/f.%r" : "data/f");
    const std::uint32_t files = GetParam().kind == DatasetKind::kSet ? kMembers : 1;
    for (std::uint32_t rank = 0; rank < files; ++rank) {
      files_.push_back(GetParam().kind == DatasetKind::kSet ? fmt::format("{}.{}", scratch_ / "data/f", rank) : path_);
      WriteFile(files_.back(), RandomBytes(rng_, GetParam().size + 100 * rank));
      SetMtime(files_.back(), CoarseNowNs() - 3'600'000'000'000);
    }
    for (std::uint32_t d = 0; GetParam().device_dirs && d < kMembers; ++d) {
      options_.device_dirs.push_back(scratch_ / fmt::format("data/dev{}", d));
      std::filesystem::create_directory(options_.device_dirs.back());
    }
    if (GetParam().device_dirs) options_.given.insert("device-dirs");
    const DatasetReport made = Protect(context_, RefOf(*comm_, path_, Resolve::kProtectable), {});
    ASSERT_EQ(ExitCodeOf(made), 0) << Text(made);
    start_ = ImageOf(scratch_ / "data");
    for (const auto& [file, image] : start_) {
      if (std::ranges::find(files_, file) == files_.end()) sidecars_.push_back(file);
    }
    ASSERT_FALSE(sidecars_.empty());
  }

  DatasetRef Ref() { return RefOf(*comm_, path_); }

  /// Expects that all that the report says about the data is true.
  void ExpectHonest(const DatasetReport& report, const Rotten* rotten, const std::string& what) {
    for (const Damage& damage : report.damage) {
      if (damage.part != DamagePart::kData) continue;
      // For a member without hashes, its root shows that it is damaged, but not where.
      const bool where_it_is = rotten != nullptr && damage.path == rotten->path && damage.offset <= rotten->offset &&
                               rotten->offset < damage.offset + damage.length;
      const bool true_enough =
          where_it_is && (damage.length <= options_.block_size || GetParam().kind == DatasetKind::kSet);
      EXPECT_TRUE(true_enough) << what << ": " << Text(report);
    }
    if (rotten == nullptr) {
      EXPECT_NE(ExitCodeOf(report), 2) << what << ": " << Text(report);
    }
  }

  void ExpectDataAreWhole(const std::string& what) {
    for (const std::string& file : files_) EXPECT_EQ(ReadFile(file), start_.at(file).bytes) << what << ": " << file;
  }

  /// Checks all tools. The sidecars are ruined, the data are whole except for `rotten`.
  void Check(const std::string& what, const Rotten* rotten) {
    const Image ruined = ImageOf(scratch_ / "data");
    const DatasetReport found = Verify(context_, Ref(), {});
    ExpectHonest(found, rotten, what);
    if (rotten != nullptr) {
      EXPECT_NE(ExitCodeOf(found), 0) << what << ": " << Text(found);
    }

    VerifyRequest repair;
    repair.repair = true;
    const DatasetReport repaired = Verify(context_, Ref(), repair);
    ExpectHonest(repaired, rotten, what + ", repaired");
    if (rotten == nullptr) ExpectDataAreWhole(what + ", repaired");
    const DatasetReport after = Verify(context_, Ref(), {});
    ExpectHonest(after, rotten, what + ", after its repair");
    if (ExitCodeOf(repaired) == 0) {
      EXPECT_EQ(ExitCodeOf(after), 0) << what << ": " << Text(after);
      ExpectDataAreWhole(what + ", after its repair");
    }

    PutBack(scratch_ / "data", ruined);
    RestoreRequest salvage;
    salvage.salvage = true;
    const DatasetReport salvaged = Restore(context_, Ref(), salvage);
    ExpectHonest(salvaged, rotten, what + ", salvaged");
    if (ExitCodeOf(found) == 1) {
      EXPECT_EQ(ExitCodeOf(salvaged), 0) << what << ": " << Text(found) << "\n" << Text(salvaged);
    }
    if (rotten == nullptr) ExpectDataAreWhole(what + ", salvaged");
    const DatasetReport last = Verify(context_, Ref(), {});
    ExpectHonest(last, rotten, what + ", after its salvage");
    if (ExitCodeOf(salvaged) == 0) {
      EXPECT_EQ(ExitCodeOf(last), 0) << what << ": " << Text(last);
    }
    // Unchecked data stay unchecked, and a sidecar that a tool wrote is not refused as a contradiction.
    EXPECT_EQ(last.status.message().find("contradict"), std::string::npos) << what << ": " << last.status.message();

    // The command that the report names must help.
    if (ExitCodeOf(last) == 4) {
      // A shared file needs force: nothing else records what it was.
      ProtectRequest request;
      request.force = GetParam().kind == DatasetKind::kShared && !last.status.ok();
      if (request.force) {
        const DatasetReport refused = Protect(context_, RefOf(*comm_, path_, Resolve::kProtectable), {});
        EXPECT_EQ(ExitCodeOf(refused), 4) << what << ": " << Text(refused);
      }
      const DatasetReport anew = Protect(context_, RefOf(*comm_, path_, Resolve::kProtectable), request);
      EXPECT_EQ(ExitCodeOf(anew), 0) << what << ": " << Text(anew);
      EXPECT_EQ(ExitCodeOf(Verify(context_, Ref(), {})), 0) << what;
    }
  }

  /// Calls Check after every way to ruin a sidecar.
  void Sweep(const Rotten* rotten, std::uint64_t step) {
    Image begin = start_;
    if (rotten != nullptr) begin.at(rotten->path).bytes[rotten->offset] ^= 0x40;
    const auto each = [&](const std::string& file, const std::string& what, const auto& ruin) {
      PutBack(scratch_ / "data", begin);
      Bytes bytes = begin.at(file).bytes;
      ruin(bytes);
      WriteFile(file, bytes);
      Check(file + ": " + what, rotten);
    };
    for (const std::string& file : sidecars_) {
      const std::uint64_t size = begin.at(file).bytes.size();
      for (std::uint64_t at = 0; at < size && !HasFailure(); at += step) {
        each(file, fmt::format("cut at {}", at), [&](Bytes& bytes) { bytes.resize(at); });
      }
      const auto sidecar = Sidecar::Load(PosixFileSystem(), file, OpenMode::kRead);
      ASSERT_TRUE(sidecar.ok());
      const Superblock& sb = (*sidecar)->contents().superblock;
      const std::uint64_t copy_bytes = sb.compact ? kPage : sb.spacing;
      for (std::uint64_t at = 0; at < size && !HasFailure(); at += std::max(kPage, step)) {
        const std::uint64_t length = std::min(kPage, size - at);
        each(file, fmt::format("zero at {}", at), [&](Bytes& bytes) { std::fill_n(bytes.begin() + at, length, 0); });
        each(file, fmt::format("random at {}", at), [&](Bytes& bytes) {
          const Bytes random = RandomBytes(rng_, length);
          std::copy(random.begin(), random.end(), bytes.begin() + at);
        });
        if (at >= copy_bytes) continue;
        each(file, fmt::format("zero at {} of all copies", at), [&](Bytes& bytes) {
          for (std::uint32_t c = 0; c < sb.copies && sb.PlaceOf(c) + at < size; ++c) {
            const std::uint64_t from = sb.PlaceOf(c) + at;
            std::fill_n(bytes.begin() + from, std::min(kPage, size - from), 0);
          }
        });
      }
    }
  }

  Rng rng_{SeedOf(20261123)};
  Scratch scratch_;
  Options options_;
  std::unique_ptr<Communicator> comm_ = SelfCommunicator();
  Context context_{PosixFileSystem(), *comm_, options_};
  std::string path_;
  std::vector<std::string> files_;     // of data
  std::vector<std::string> sidecars_;  // and parts
  Image start_;
};

TEST_P(RuinedSidecar, NeverCallsIntactDataDamaged) {
  Sweep(nullptr, kSanitized ? 3 * kPage : 512);
}

TEST_P(RuinedSidecar, NeverHidesRotAndBlamesNoOtherBlock) {
  const Rotten rotten{files_.back(), GetParam().size / 2 + 3};
  Sweep(&rotten, kSanitized ? 3 * kPage : kPage);
}

INSTANTIATE_TEST_SUITE_P(Of, RuinedSidecar,
                         ::testing::Values(Shape{"SharedFile", DatasetKind::kShared, 0, 150'000, false},
                                           Shape{"SharedFile", DatasetKind::kShared, 1, 150'000, false},
                                           Shape{"SharedFile", DatasetKind::kShared, 2, 150'000, false},
                                           Shape{"SmallFile", DatasetKind::kShared, 1, 40'000, false, false},
                                           Shape{"Compact", DatasetKind::kShared, 1, 40'000, false},
                                           Shape{"Compact", DatasetKind::kShared, 2, 12'000, false},
                                           Shape{"CompactOneBlock", DatasetKind::kShared, 1, 400, false},
                                           Shape{"CompactOneBlock", DatasetKind::kShared, 2, 400, false},
                                           Shape{"CompactSet", DatasetKind::kSet, 1, 20'000, false},
                                           Shape{"CompactSet", DatasetKind::kSet, 2, 5'000, false},
                                           Shape{"Set", DatasetKind::kSet, 0, 140'000, false},
                                           Shape{"Set", DatasetKind::kSet, 1, 140'000, false},
                                           Shape{"Set", DatasetKind::kSet, 2, 70'000, false},
                                           Shape{"Directories", DatasetKind::kShared, 1, 150'000, true},
                                           Shape{"Directories", DatasetKind::kShared, 2, 140'000, true}));

}  // namespace
}  // namespace lzy::testing
