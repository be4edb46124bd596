// Compares commits of touched ranges with commits of everything: equal bytes have equal roots, leaves and parity, whatever
// the way and the number of ranks. Ranks are threads here (MPI: tests/engine/engine_mpi_test.cc).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

class Epochs {
 public:
  Epochs(Rng& rng, int ranks, std::string directory, Sample sample)
      : rng_(rng), ranks_(ranks), directory_(std::move(directory)), sample_(std::move(sample)) {}

  DatasetReport Protect(const std::optional<std::vector<Edits>>& edits, bool force = false) {
    return OnAll([&](const Context& context) {
      ProtectRequest request;
      request.force = force;
      if (edits) request.touched = (*edits)[static_cast<std::size_t>(context.comm.rank())];
      return lzy::Protect(context, RefOf(context.comm, sample_.path, Resolve::kProtectable), request);
    });
  }
  DatasetReport Verify(VerifyRequest request = {}) {
    return OnAll(
        [&](const Context& context) { return lzy::Verify(context, RefOf(context.comm, sample_.path), request); });
  }

  /// Deals edits to ranks: the edits of a member to one rank, those of a shared file to any ranks.
  std::vector<Edits> Deal(const std::map<std::uint32_t, IntervalSet>& by_file) {
    std::vector<Edits> out(static_cast<std::size_t>(ranks_));
    for (const auto& [file, touched] : by_file) {
      if (sample_.kind == DatasetKind::kSet) {
        out[file % out.size()][file] = touched;
        continue;
      }
      for (auto& one : out) one.try_emplace(0);
      for (const Interval& r : touched.intervals()) {
        // Writes of neighbouring ranks may overlap.
        const std::uint64_t cut = Below(rng_, r.end - r.begin + 1);
        AddTouched(out[Below(rng_, out.size())][0], r.begin, std::min(r.end - r.begin, cut + Below(rng_, 100)));
        AddTouched(out[Below(rng_, out.size())][0], r.begin + cut, r.end - r.begin - cut);
      }
    }
    return out;
  }

  void Round() {
    std::map<std::uint32_t, IntervalSet> edits;
    for (std::uint32_t f = 0; f < sample_.files.size(); ++f) {
      ASSERT_OK(BeginEpoch(PosixFileSystem(), sample_.options, sample_.files[f],
                           sample_.kind == DatasetKind::kSet ? sample_.path : ""));
      if (OneIn(rng_, 3)) continue;
      EditFile(rng_, sample_.files[f], ChooseBlockSize(sample_.options.block_size, ReadFile(sample_.files[f]).size()), edits[f]);
    }
    const DatasetReport made = Protect(Deal(edits));
    ASSERT_OK(made.status);
    EXPECT_EQ(std::string(Name(made.state)), "intact");
    const Fingerprint got = FingerprintOf(sample_.files);
    EXPECT_EQ(made.root, got.root);
    ExpectSame(got, FingerprintOfCopy(sample_, directory_));
    const DatasetReport verified = Verify();
    ASSERT_OK(verified.status);
    EXPECT_EQ(std::string(Name(verified.state)), "intact");
    EXPECT_TRUE(verified.damage.empty());
    std::uint64_t total = 0;
    for (const std::string& file : sample_.files) total += ReadFile(file).size();
    if (made.bytes_encoded < total) ++partial_;
  }

  const Sample& sample() const { return sample_; }
  std::uint64_t partial() const { return partial_; }

 private:
  template <class Fn>
  DatasetReport OnAll(const Fn& fn) {
    std::vector<DatasetReport> reports(static_cast<std::size_t>(ranks_));
    RunRanks(ranks_, [&](Communicator& comm) {
      reports[static_cast<std::size_t>(comm.rank())] =
          fn(Context{.fs = PosixFileSystem(), .comm = comm, .options = sample_.options, .share_page_cache = partial_ % 2 == 0});
    });
    for (const DatasetReport& report : reports) {
      EXPECT_EQ(report.status.code(), reports[0].status.code());
      EXPECT_EQ(ExitCodeOf(report), ExitCodeOf(reports[0]));
      EXPECT_EQ(report.root, reports[0].root);
      EXPECT_EQ(report.damage.size(), reports[0].damage.size());
      EXPECT_EQ(report.bytes, reports[0].bytes);
      EXPECT_EQ(report.sidecar_bytes, reports[0].sidecar_bytes);
      EXPECT_EQ(report.generation, reports[0].generation);
    }
    return reports[0];
  }

  Rng& rng_;
  const int ranks_;
  const std::string directory_;
  const Sample sample_;
  std::uint64_t partial_ = 0;
};

class Incremental : public ::testing::TestWithParam<DatasetKind> {};

/// Runs several epochs of one random dataset. Returns the number of commits of some rows only. `automatic`: the block size
/// follows from the size of the file.
std::uint64_t RunEpochs(std::uint64_t seed, DatasetKind kind, bool automatic) {
  Rng rng(seed);
  Scratch scratch;
  SampleLimits limits;
  limits.kind = static_cast<int>(kind);
  limits.bytes = 128u << 10;
  const int ranks = static_cast<int>(kind == DatasetKind::kShared ? 1 + Below(rng, 4) : 2 + Below(rng, 6));
  limits.fixed_members = static_cast<std::uint32_t>(ranks);  // sets are closed by all ranks of the job, each its member
  Sample sample = MakeSample(rng, scratch.path(), limits);
  if (automatic) {
    sample.options.block_size = kAutomaticBlockSize;
    sample.options.stripe = kUsualBlockSize << Below(rng, 4);
  }
  Epochs epochs(rng, ranks, scratch.path(), sample);
  SCOPED_TRACE(fmt::format("seed {}, {} ranks: {}", seed, ranks, epochs.sample().Describe()));
  EXPECT_OK(
      epochs.Protect(OneIn(rng, 2) ? std::nullopt : std::optional(std::vector<Edits>(static_cast<std::size_t>(ranks)))).status);
  for (int round = 0; round < 8 && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("epoch {}: {}", round, epochs.sample().Describe()));
    epochs.Round();
  }
  return epochs.partial();
}

TEST_P(Incremental, EqualsACommitOfEverything) {
  const std::uint64_t seed = SeedOf(4711);
  std::uint64_t partial = 0;
  for (std::uint64_t i = 0; i < RoundsOf(kSanitized ? 15 : 40) && !HasFailure(); ++i) {
    partial += RunEpochs(seed + i, GetParam(), false);
  }
  EXPECT_GT(partial, kSanitized ? 3u : 10u) << "hardly any commit was one of touched rows only: this proves nothing";
}

TEST_P(Incremental, EqualsACommitOfEverythingIfTheBlockSizeFollowsTheSize) {
  const std::uint64_t seed = SeedOf(6553);
  for (std::uint64_t i = 0; i < RoundsOf(kSanitized ? 8 : 20) && !HasFailure(); ++i) RunEpochs(seed + i, GetParam(), true);
}

/// A protected dataset of full rows. Block `rotten` of file `victim` rots during an epoch.
class RottenEpoch {
 public:
  RottenEpoch(Rng& rng, const Scratch& scratch, DatasetKind kind, std::uint32_t parity = 1, bool automatic = false)
      : rng_(rng), sample_(automatic ? MakeSmall(rng, scratch, kind) : Make(rng, scratch, kind, parity)) {
    epochs.emplace(rng, 3, scratch.path(), sample_);
    victim = static_cast<std::uint32_t>(Below(rng, sample_.files.size()));
    rotten = Below(rng, 12);  // in a full row: others of it can be written
    block = ChooseBlockSize(sample_.options.block_size, 0);
  }
  void Begin() {
    ASSERT_OK(epochs->Protect(std::nullopt).status);
    before = ReadFile(Path());
    for (const std::string& file : sample_.files) {
      ASSERT_OK(BeginEpoch(PosixFileSystem(), sample_.options, file,
                           sample_.kind == DatasetKind::kSet ? sample_.path : ""));
    }
  }
  /// Writes all blocks of file `f` except the last one and the rotten one.
  void WriteAround(std::uint32_t f) {
    for (std::uint64_t b = 0; b < 20; ++b) {
      if (f == victim && b == rotten) continue;
      WriteAt(sample_.files[f], b * block, RandomBytes(rng_, block));
      AddTouched(edits[f], b * block, block);
    }
  }
  /// Makes every file `factor` times as long.
  void Grow(std::uint64_t factor) {
    for (std::uint32_t f = 0; f < sample_.files.size(); ++f) {
      const std::uint64_t size = ReadFile(sample_.files[f]).size();
      const std::uint64_t more = size * (factor - 1);
      WriteAt(sample_.files[f], size, RandomBytes(rng_, more));
      AddTouched(edits[f], size, more);
    }
  }
  /// Returns false if the bytes stayed the same.
  bool LetRot() {
    const Bytes whole = ReadFile(Path());
    Rot(rng_, Path(), rotten * block, block);
    after = ReadFile(Path());
    return whole != after;
  }
  DatasetReport Commit() { return epochs->Protect(epochs->Deal(edits)); }
  /// Expects that a repair restores the committed content.
  void ExpectRepaired() {
    VerifyRequest repair;
    repair.repair = true;
    EXPECT_EQ(ExitCodeOf(epochs->Verify(repair)), 0);
    Bytes now = ReadFile(Path());
    now.resize(before.size());
    EXPECT_EQ(now, before);
  }
  const std::string& Path() const { return sample_.files[victim]; }
  /// Expects that the report names only the rotten block of the data.
  void ExpectNamed(const DatasetReport& report) const {
    ASSERT_OK(report.status);
    int data = 0;
    for (const Damage& d : report.damage) {
      if (d.part != DamagePart::kData) continue;
      ++data;
      EXPECT_EQ(d.path, Path());
      EXPECT_EQ(d.offset, rotten * block);
      EXPECT_EQ(d.length, block);
    }
    EXPECT_EQ(data, 1);
  }

  std::optional<Epochs> epochs;
  std::uint32_t victim = 0;
  std::uint64_t rotten = 0;
  std::uint64_t block = 0;
  std::map<std::uint32_t, IntervalSet> edits;
  Bytes before, after;  ///< of the file that rots: as committed, and after it rotted

 private:
  static Sample Make(Rng& rng, const Scratch& scratch, DatasetKind kind, std::uint32_t parity) {
    SampleLimits limits;
    limits.kind = static_cast<int>(kind);
    limits.fixed_members = 3;
    Sample sample = MakeSample(rng, scratch.path(), limits);
    sample.options.compact = false;  // what is committed in place is another matter than what is built anew
    sample.options.parity = parity;
    sample.options.group = 3;
    sample.options.stripe = 256 * std::uint64_t{sample.options.block_size};  // the unit follows from the size
    for (const std::string& file : sample.files) {
      FillFile(rng, file, 20 * sample.options.block_size + Below(rng, 300), sample.options.block_size);
    }
    return sample;
  }

  /// Files of full rows that have small blocks only because they are small.
  static Sample MakeSmall(Rng& rng, const Scratch& scratch, DatasetKind kind) {
    Sample sample = Make(rng, scratch, kind, 1);
    sample.options.compact = OneIn(rng, 2);
    sample.options.block_size = kAutomaticBlockSize;
    sample.options.stripe = 1u << 20;
    for (const std::string& file : sample.files) FillFile(rng, file, 12 * kSmallBlockSize + Below(rng, 300), kSmallBlockSize);
    return sample;
  }

  Rng& rng_;
  const Sample sample_;
};

// Other blocks of the row were written, so the rotten block can never be rebuilt. All reports must say so.
TEST_P(Incremental, RotInATouchedRowIsReportedAndStaysDamage) {
  const std::uint64_t seed = SeedOf(815);
  std::uint64_t caught = 0;
  for (std::uint64_t i = 0; i < RoundsOf(kSanitized ? 12 : 30) && !HasFailure(); ++i) {
    Rng rng(seed + i);
    Scratch scratch;
    RottenEpoch epoch(rng, scratch, GetParam());
    SCOPED_TRACE(fmt::format("dataset {}, block {} of {}: {}", i, epoch.rotten, epoch.Path(), epoch.epochs->sample().Describe()));
    epoch.Begin();
    for (std::uint32_t f = 0; f < epoch.epochs->sample().files.size(); ++f) epoch.WriteAround(f);
    if (!epoch.LetRot()) continue;
    const DatasetReport made = epoch.Commit();
    epoch.ExpectNamed(made);
    EXPECT_EQ(std::string(Name(made.state)), "unrepairable");
    EXPECT_EQ(ExitCodeOf(made), 2);
    EXPECT_EQ(ReadFile(epoch.Path()), epoch.after) << "a commit changes no data";
    for (int again = 0; again < 2; ++again) {
      const DatasetReport verified = epoch.epochs->Verify();
      epoch.ExpectNamed(verified);
      EXPECT_EQ(ExitCodeOf(verified), 2) << "the rot was blessed, or promised to be repaired";
    }
    VerifyRequest repair;
    repair.repair = true;
    EXPECT_EQ(ExitCodeOf(epoch.epochs->Verify(repair)), 2);
    EXPECT_EQ(ReadFile(epoch.Path()), epoch.after) << "nothing is written where something is beyond repair";
    if (OneIn(rng, 2)) {
      // The user has a copy of the block. Then the row is whole, but without parity until the next commit.
      const std::int64_t mtime = MtimeOf(epoch.Path());
      const auto at = static_cast<std::ptrdiff_t>(epoch.rotten * epoch.block);
      WriteAt(epoch.Path(), epoch.rotten * epoch.block,
              Bytes(epoch.before.begin() + at, epoch.before.begin() + at + static_cast<std::ptrdiff_t>(epoch.block)));
      SetMtime(epoch.Path(), mtime);
      for (const bool with_repair : {false, true}) {
        repair.repair = with_repair;
        const DatasetReport report = epoch.epochs->Verify(repair);
        EXPECT_OK(report.status);
        EXPECT_EQ(ExitCodeOf(report), 1);
        for (const Damage& d : report.damage) EXPECT_EQ(std::string(Name(d.part)), "parity");
        EXPECT_FALSE(report.warnings.empty()) << "who is to know what to do about it?";
      }
      EXPECT_EQ(ExitCodeOf(epoch.epochs->Protect(std::nullopt)), 0);
      EXPECT_EQ(ExitCodeOf(epoch.epochs->Verify()), 0);
      ++caught;
      continue;
    }
    // After the program writes the block again, it is intact.
    WriteAt(epoch.Path(), epoch.rotten * epoch.block, RandomBytes(rng, epoch.block));
    epoch.edits.clear();
    AddTouched(epoch.edits[epoch.victim], epoch.rotten * epoch.block, epoch.block);
    EXPECT_EQ(ExitCodeOf(epoch.Commit()), 0);
    EXPECT_EQ(ExitCodeOf(epoch.epochs->Verify()), 0);
    ++caught;
  }
  EXPECT_GT(caught, kSanitized ? 3u : 10u);
}

// A file that grows gets another geometry, so all of it is encoded again. Blocks that the old parity can rebuild are encoded
// with their right content.
TEST_P(Incremental, RotIsStillRepairedAfterTheFileGrew) {
  const std::uint64_t seed = SeedOf(1618);
  std::uint64_t caught = 0;
  for (std::uint64_t i = 0; i < RoundsOf(kSanitized ? 12 : 30) && !HasFailure(); ++i) {
    Rng rng(seed + i);
    Scratch scratch;
    RottenEpoch epoch(rng, scratch, GetParam());
    SCOPED_TRACE(fmt::format("dataset {}, block {} of {}: {}", i, epoch.rotten, epoch.Path(), epoch.epochs->sample().Describe()));
    epoch.Begin();
    epoch.Grow(64);
    if (!epoch.LetRot()) continue;
    const DatasetReport made = epoch.Commit();
    epoch.ExpectNamed(made);
    EXPECT_EQ(ExitCodeOf(made), 1);
    EXPECT_EQ(ReadFile(epoch.Path()), epoch.after) << "a commit changes no data";
    const DatasetReport verified = epoch.epochs->Verify();
    epoch.ExpectNamed(verified);
    EXPECT_EQ(ExitCodeOf(verified), 1);
    epoch.ExpectRepaired();
    EXPECT_EQ(ExitCodeOf(epoch.epochs->Verify()), 0);
    ++caught;
  }
  EXPECT_GT(caught, kSanitized ? 3u : 10u);
}

// Blocks of another size could not be compared with the old leaves, so rot would be committed as if a program had written
// it.
TEST_P(Incremental, BlocksOfSmallFilesStaySmallUntilRotIsRepaired) {
  const std::uint64_t seed = SeedOf(4096);
  std::uint64_t caught = 0;
  for (std::uint64_t i = 0; i < RoundsOf(kSanitized ? 8 : 20) && !HasFailure(); ++i) {
    Rng rng(seed + i);
    Scratch scratch;
    RottenEpoch epoch(rng, scratch, GetParam(), 1, /*automatic=*/true);
    SCOPED_TRACE(fmt::format("dataset {}, block {} of {}: {}", i, epoch.rotten, epoch.Path(), epoch.epochs->sample().Describe()));
    epoch.Begin();
    epoch.Grow(3);
    if (!epoch.LetRot()) continue;
    const DatasetReport made = epoch.Commit();
    epoch.ExpectNamed(made);
    EXPECT_EQ(ExitCodeOf(made), 1);
    EXPECT_EQ(made.block_size, kSmallBlockSize);
    EXPECT_EQ(ReadFile(epoch.Path()), epoch.after) << "a commit changes no data";
    epoch.ExpectRepaired();
    epoch.edits.clear();
    const DatasetReport next = epoch.Commit();
    EXPECT_EQ(ExitCodeOf(next), 0);
    EXPECT_EQ(next.block_size, kUsualBlockSize);
    EXPECT_EQ(ExitCodeOf(epoch.epochs->Verify()), 0);
    ++caught;
  }
  EXPECT_GT(caught, kSanitized ? 3u : 10u);
}

// One of two parity blocks is rotten, too. The other one is enough.
TEST(Rot, IsRebuiltWhenOneOfTwoParityBlocksIsRotten) {
  const std::uint64_t seed = SeedOf(2718);
  std::uint64_t caught = 0;
  for (std::uint64_t i = 0; i < RoundsOf(kSanitized ? 8 : 20) && !::testing::Test::HasFailure(); ++i) {
    Rng rng(seed + i);
    Scratch scratch;
    RottenEpoch epoch(rng, scratch, DatasetKind::kSet, 2);
    epoch.Begin();
    epoch.Grow(64);
    if (!epoch.LetRot()) continue;
    // With n = 3 and m = 2 each other member has parity of every row of this one.
    const std::string& other = epoch.epochs->sample().files[(epoch.victim + 1 + i % 2) % 3];
    const std::string sidecar = *SidecarPath(other);
    std::uint64_t base = 0, size = 0;
    {
      auto loaded = Sidecar::Load(PosixFileSystem(), sidecar, OpenMode::kRead);
      ASSERT_OK(loaded);
      base = (*loaded)->ParityFileOffset(0);
      size = (*loaded)->contents().superblock.parity_size;
    }
    Rot(rng, sidecar, base, size);
    const DatasetReport made = epoch.Commit();
    epoch.ExpectNamed(made);
    EXPECT_EQ(ExitCodeOf(made), 1) << "it could be had";
    epoch.ExpectRepaired();
    ++caught;
  }
  EXPECT_GT(caught, kSanitized ? 3u : 10u);
}

// A program that is started with another block size keeps the old one if it writes only a part of the file: leaves of other
// blocks could not be compared.
TEST_P(Incremental, AnotherBlockSizeDoesNotCommitRot) {
  Rng rng(SeedOf(5));
  Scratch scratch;
  RottenEpoch epoch(rng, scratch, GetParam());
  epoch.Begin();
  for (std::uint32_t f = 0; f < epoch.epochs->sample().files.size(); ++f) epoch.WriteAround(f);
  while (!epoch.LetRot()) {
  }
  Sample changed = epoch.epochs->sample();
  changed.options.block_size *= 2;
  changed.options.given = {"block-size"};
  Epochs restarted(rng, 3, scratch.path(), changed);
  const DatasetReport made = restarted.Protect(restarted.Deal(epoch.edits));
  epoch.ExpectNamed(made);
  EXPECT_NE(ExitCodeOf(made), 0);
  EXPECT_EQ(made.block_size, epoch.block);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Incremental, ::testing::Values(DatasetKind::kShared, DatasetKind::kSet),
                         [](const auto& test) { return test.param == DatasetKind::kShared ? "Shared" : "Set"; });

/// The members that each of `ranks` ranks sees: each member is seen by one rank, several, or all. Empty for a shared file.
std::vector<std::map<std::uint32_t, std::string>> SeenBy(Rng& rng, const Sample& sample, int ranks) {
  std::vector<std::map<std::uint32_t, std::string>> seen(static_cast<std::size_t>(ranks));
  for (std::uint32_t f = 0; f < sample.files.size() && sample.kind == DatasetKind::kSet; ++f) {
    const std::size_t sure = Below(rng, seen.size());
    for (std::size_t r = 0; r < seen.size(); ++r) {
      if (r == sure || OneIn(rng, 3)) seen[r][f] = sample.files[f];
    }
  }
  return seen;
}

/// Loses no more than parity covers.
void LoseSome(Rng& rng, const Sample& sample) {
  const std::string& victim = sample.files[Below(rng, sample.files.size())];
  if (sample.kind == DatasetKind::kSet) {
    if (!OneIn(rng, 3)) std::filesystem::remove(victim);
    if (!OneIn(rng, 3)) std::filesystem::remove(*SidecarPath(victim));
  } else {
    Rot(rng, victim, Below(rng, ReadFile(victim).size()), 1);
  }
}

/// Expects that both images have the same files of the sample, and that no other file was left.
void ExpectSameFiles(const Sample& sample, const Image& now, const Image& whole) {
  for (const std::string& file : sample.files) {
    ASSERT_EQ(now.count(file), 1u);
    EXPECT_EQ(Differences({{file, whole.at(file)}}, {{file, now.at(file)}}), "");
  }
  EXPECT_EQ(now.size(), whole.size()) << "something was left behind";
}

/// Protects, verifies and restores the same bytes with different numbers of ranks, which see different members.
TEST(Ranks, AnyNumberOfRanksMakesTheSameRootAndParity) {
  const std::uint64_t seed = SeedOf(99);
  for (std::uint64_t i = 0; i < RoundsOf(kSanitized ? 12 : 30) && !::testing::Test::HasFailure(); ++i) {
    Rng rng(seed + i);
    Scratch scratch;
    SampleLimits limits;
    limits.bytes = 256u << 10;
    const Sample sample = MakeSample(rng, scratch.path(), limits);
    SCOPED_TRACE(fmt::format("dataset {}: {}", i, sample.Describe()));
    const Fingerprint want = FingerprintOfCopy(sample, scratch.path());
    const Image before = ImageOf(scratch.path());
    for (int ranks : {1, 2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{} ranks", ranks));
      PutBack(scratch.path(), before);
      const auto seen = SeenBy(rng, sample, ranks);
      const bool by_files = OneIn(rng, 2);
      std::vector<DatasetReport> made(seen.size()), verified(seen.size()), restored(seen.size());
      auto run = [&](auto&& work) {
        RunRanks(ranks, [&](Communicator& comm) {
          const auto r = static_cast<std::size_t>(comm.rank());
          DatasetRef ref{sample.kind, sample.path, seen[r]};
          std::erase_if(ref.members,
                        [](const auto& m) { return !Exists(m.second) && !Exists(*SidecarPath(m.second)); });
          work(Context{.fs = PosixFileSystem(), .comm = comm, .options = sample.options, .share_page_cache = by_files}, ref, r);
        });
      };
      run([&](const Context& context, const DatasetRef& ref, std::size_t r) { made[r] = Protect(context, ref, {}); });
      ASSERT_OK(made[0].status);
      ExpectSame(FingerprintOf(sample.files), want);
      run([&](const Context& context, const DatasetRef& ref, std::size_t r) {
        verified[r] = Verify(context, ref, {});
      });
      ASSERT_OK(verified[0].status);
      EXPECT_EQ(std::string(Name(verified[0].state)), "intact");
      for (const DatasetReport& report : made) EXPECT_EQ(report.root, want.root);
      for (const DatasetReport& report : verified) EXPECT_EQ(report.root, want.root);

      // Lose something and restore it.
      if (sample.options.parity == 0) continue;
      const Image whole = ImageOf(scratch.path());
      LoseSome(rng, sample);
      run([&](const Context& context, const DatasetRef& ref, std::size_t r) {
        restored[r] = Restore(context, ref, {});
      });
      ASSERT_OK(restored[0].status);
      EXPECT_EQ(ExitCodeOf(restored[0]), 0);
      ExpectSameFiles(sample, ImageOf(scratch.path()), whole);
      ExpectSame(FingerprintOf(sample.files), want);
    }
  }
}

}  // namespace
}  // namespace lzy::testing
