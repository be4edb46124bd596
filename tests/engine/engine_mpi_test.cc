// The engine under MPI: any number of ranks, seeing any part of a set, makes the same sidecars as one process alone,
// and repairs the same damage. Every rank runs every test; rank 0 makes the files and looks at what became of them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>

#include "mpi/mpi_communicator.h"
#include "engine_fixture.h"
#include "exchange_fixture.h"
#include "sidecar/names.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

class EngineMpiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = MpiCommunicator(MPI_COMM_WORLD);
    ASSERT_OK(made);
    comm_ = std::move(*made);
    if (First()) scratch_.emplace();
    Bytes path;
    if (First()) path.assign(scratch_->path().begin(), scratch_->path().end());
    ASSERT_OK(comm_->Broadcast(path, 0));
    directory_.assign(path.begin(), path.end());
  }
  void TearDown() override {
    if (comm_) {
      EXPECT_OK(comm_->Barrier());
    }
  }

  bool First() const { return comm_->rank() == 0; }
  std::uint64_t ranks() const { return static_cast<std::uint64_t>(comm_->size()); }
  /// Collective: has anything failed anywhere?
  bool Failed() { return *comm_->AllReduceMax(HasFailure() ? 1 : 0) != 0; }

  /// A dataset that rank 0 makes and all know. `rng` is in the same state on all ranks, before and after.
  Sample Make(Rng& rng, const SampleLimits& limits) {
    const std::uint64_t seed = rng();
    Rng own(seed);
    ByteWriter out;
    if (First()) {
      PutBack(directory_, {});
      const Sample s = MakeSample(own, directory_, limits);
      out.Put(static_cast<std::uint32_t>(s.kind));
      out.Put(s.options.parity);
      out.Put(s.options.group);
      out.Put(s.options.block_size);
      out.Put(s.options.stripe);
      out.Put(s.options.memory);
      out.PutString(s.path);
      out.Put(static_cast<std::uint32_t>(s.files.size()));
      for (const std::string& file : s.files) out.PutString(file);
    }
    Bytes bytes = std::move(out.bytes());
    EXPECT_OK(comm_->Broadcast(bytes, 0));
    ByteReader in(bytes);
    Sample s;
    s.kind = static_cast<DatasetKind>(in.Get<std::uint32_t>());
    s.options.parity = in.Get<std::uint32_t>();
    s.options.group = in.Get<std::uint32_t>();
    s.options.block_size = in.Get<std::uint32_t>();
    s.options.stripe = in.Get<std::uint64_t>();
    s.options.memory = in.Get<std::uint64_t>();
    s.options.threads = 1;
    s.path = in.GetString(10000);
    s.files.resize(in.Get<std::uint32_t>());
    for (std::string& file : s.files) file = in.GetString(10000);
    return s;
  }

  /// Members that this rank sees: each is seen by one rank at least, maybe by none but that.
  DatasetRef Part(Rng& rng, const Sample& sample) {
    DatasetRef ref{sample.kind, sample.path, {}};
    for (std::uint32_t f = 0; f < sample.files.size() && sample.kind == DatasetKind::kSet; ++f) {
      const std::uint64_t sure = Below(rng, ranks());
      for (std::uint64_t r = 0; r < ranks(); ++r) {
        const bool sees = r == sure || OneIn(rng, 4);
        if (sees && static_cast<int>(r) == comm_->rank() &&
            (Exists(sample.files[f]) || Exists(*SidecarPath(sample.files[f])))) {
          ref.members[f] = sample.files[f];
        }
      }
    }
    return ref;
  }

  /// Ranks read each other's files in every other context only.
  Context With(const Sample& sample) {
    by_files_ = !by_files_;
    return {.fs = PosixFileSystem(), .comm = *comm_, .options = sample.options, .share_page_cache = by_files_};
  }

  /// All ranks have the same report.
  void ExpectAgreed(const DatasetReport& report) {
    ByteWriter out;
    out.Put(static_cast<std::uint32_t>(report.state));
    out.Put(static_cast<std::uint32_t>(report.status.code()));
    out.PutString(report.status.message());
    out.PutBytes(report.root.bytes);
    out.Put(report.generation);
    out.Put(report.bytes);
    out.Put(report.sidecar_bytes);
    out.Put(report.parity);
    out.Put(report.groups);
    out.Put(static_cast<std::uint32_t>(report.damage.size()));
    for (const Damage& d : report.damage) {
      out.PutString(d.path);
      out.Put(d.device);
      out.Put(static_cast<std::uint32_t>(d.part));
      out.Put(d.offset);
      out.Put(d.length);
      out.Put(static_cast<std::uint32_t>(d.cause));
      out.Put<std::uint8_t>(d.repaired);
    }
    auto all = comm_->AllGather(out.bytes());
    ASSERT_OK(all);
    for (const Bytes& one : *all) EXPECT_EQ(one, all->front()) << "ranks do not agree: " << report.status.message();
  }

  std::unique_ptr<Communicator> comm_;
  bool by_files_ = false;
  std::optional<Scratch> scratch_;
  std::string directory_;
};

// As many losses as parity covers, in every group: up to `burst` bytes of a shared file, or `victims` members of a set,
// from number `first` on.
void Lose(Rng& rng, const Sample& sample, std::uint64_t victims, std::uint64_t burst, std::uint64_t first) {
  if (sample.kind == DatasetKind::kShared) {
    Rot(rng, sample.path, Below(rng, ReadFile(sample.path).size()), 1 + Below(rng, burst));
    return;
  }
  for (std::uint64_t v = 0; v < victims; ++v) {
    const std::string& file = sample.files[(first + v) % sample.files.size()];
    if (!OneIn(rng, 3)) std::filesystem::remove(file);
    if (!OneIn(rng, 3)) std::filesystem::remove(*SidecarPath(file));
  }
}

void ExpectSameFiles(const Sample& sample, const Image& now, const Image& whole) {
  EXPECT_EQ(now.size(), whole.size());
  for (const std::string& file : sample.files) {
    EXPECT_EQ(now.count(file), 1u) << file;
    if (now.count(file) == 0) continue;
    EXPECT_EQ(Differences({{file, whole.at(file)}}, {{file, now.at(file)}}), "");
  }
}

TEST_F(EngineMpiTest, MakesTheSameAsOneProcess) {
  const std::uint64_t seed = SeedOf(31337);
  for (std::uint64_t i = 0; i < RoundsOf(12); ++i) {
    Rng rng(seed + i);
    SampleLimits limits;
    limits.bytes = 256u << 10;
    limits.members = 9;
    const Sample sample = Make(rng, limits);
    SCOPED_TRACE(fmt::format("dataset {}: {}", i, sample.Describe()));
    Fingerprint want;
    if (First()) want = FingerprintOfCopy(sample, directory_);
    by_files_ = i % 2 == 0;
    ASSERT_OK(comm_->Barrier());
    const DatasetReport made = Protect(With(sample), Part(rng, sample), {});
    EXPECT_OK(made.status);
    ExpectAgreed(made);
    if (First()) ExpectSame(FingerprintOf(sample.files), want);
    if (Failed()) return;

    const DatasetReport verified = Verify(With(sample), Part(rng, sample), {});
    EXPECT_OK(verified.status);
    EXPECT_EQ(std::string(Name(verified.state)), "intact");
    EXPECT_EQ(verified.root, made.root);
    ExpectAgreed(verified);
    if (Failed()) return;
    if (sample.options.parity == 0) continue;

    // As many losses as parity covers, in every group: members gone, or blocks of a shared file.
    Image whole;
    const std::uint64_t victims = 1 + Below(rng, sample.options.parity);
    if (First()) {
      whole = ImageOf(directory_);
      Rng own(seed + i);
      Lose(own, sample, victims, victims * verified.unit - verified.block_size + 1, i);
    }
    EXPECT_OK(comm_->Barrier());
    const DatasetRef part = Part(rng, sample);
    const DatasetReport found = Verify(With(sample), part, {});
    EXPECT_OK(found.status);
    ExpectAgreed(found);
    const DatasetReport restored = Restore(With(sample), part, {});
    EXPECT_OK(restored.status);
    EXPECT_EQ(ExitCodeOf(restored), 0);
    ExpectAgreed(restored);
    EXPECT_OK(comm_->Barrier());
    if (First()) {
      ExpectSameFiles(sample, ImageOf(directory_), whole);
      ExpectSame(FingerprintOf(sample.files), want);
    }
    if (Failed()) return;
  }
}

TEST_F(EngineMpiTest, CommitsOfWhatWasTouchedEqualCommitsOfEverything) {
  const std::uint64_t seed = SeedOf(2718);
  for (std::uint64_t i = 0; i < RoundsOf(6); ++i) {
    Rng rng(seed + i);
    SampleLimits limits;
    limits.bytes = 128u << 10;
    limits.fixed_members = static_cast<std::uint32_t>(ranks());
    limits.kind = ranks() > 1 && OneIn(rng, 2) ? 2 : 1;
    const Sample sample = Make(rng, limits);
    DatasetRef ref{sample.kind, sample.path, {}};
    const bool set = sample.kind == DatasetKind::kSet;
    const auto mine = static_cast<std::uint32_t>(comm_->rank());
    if (set) ref.members[mine] = sample.files[mine];
    EXPECT_OK(Protect(With(sample), ref, {}).status);
    for (int epoch = 0; epoch < 3; ++epoch) {
      SCOPED_TRACE(fmt::format("dataset {}, epoch {}: {}", i, epoch, sample.Describe()));
      EXPECT_OK(comm_->Barrier());
      // A set's members are written by their ranks; a shared file here by one after the other.
      Edits edits;
      Rng own(rng() + mine);
      for (std::uint64_t turn = 0; turn < ranks(); ++turn) {
        if (turn == mine) {
          const std::string& file = sample.files[set ? mine : 0];
          EXPECT_OK(BeginEpoch(PosixFileSystem(), sample.options, file, set ? sample.path : ""));
          edits.try_emplace(set ? mine : 0);
          EditFile(own, file, sample.options.block_size, edits[set ? mine : 0]);
        }
        EXPECT_OK(comm_->Barrier());
      }
      ProtectRequest request;
      request.touched = edits;
      const DatasetReport made = Protect(With(sample), ref, request);
      EXPECT_OK(made.status);
      EXPECT_EQ(std::string(Name(made.state)), "intact");
      ExpectAgreed(made);
      if (First()) ExpectSame(FingerprintOf(sample.files), FingerprintOfCopy(sample, directory_));
      EXPECT_OK(comm_->Barrier());
      const DatasetReport verified = Verify(With(sample), ref, {});
      EXPECT_EQ(std::string(Name(verified.state)), "intact");
      if (Failed()) return;
    }
  }
}

TEST_F(EngineMpiTest, BeyondRepairIsSaidByAllAndWritesNothing) {
  Rng rng(5);
  for (const int kind : {1, 2}) {
    SampleLimits limits;
    limits.kind = kind;
    limits.fixed_members = 5;
    Sample sample = Make(rng, limits);
    sample.options.parity = 1;
    sample.options.group = 5;
    if (First()) {
      for (const std::string& file : sample.files)
        FillFile(rng, file, 30 * sample.options.block_size, sample.options.block_size);
      for (const std::string& file : sample.files) WriteAt(file, 0, Bytes(30 * sample.options.block_size, 0x11));
    }
    EXPECT_OK(comm_->Barrier());
    rng.seed(77);
    EXPECT_OK(Protect(With(sample), Part(rng, sample), {}).status);
    Image before;
    if (First()) {
      const std::int64_t mtime = MtimeOf(sample.files[0]);
      WriteAt(sample.files[0], 0, Bytes(30 * sample.options.block_size, 0x22));
      SetMtime(sample.files[0], mtime);
      if (kind == 2) std::filesystem::remove(sample.files[3]);
      before = ImageOf(directory_);
    }
    EXPECT_OK(comm_->Barrier());
    rng.seed(78);
    const DatasetRef part = Part(rng, sample);
    VerifyRequest repair;
    repair.repair = true;
    for (int i = 0; i < 2; ++i) {
      const DatasetReport report = i == 0 ? Verify(With(sample), part, repair) : Restore(With(sample), part, {});
      EXPECT_OK(report.status);
      EXPECT_EQ(ExitCodeOf(report), 2);
      ExpectAgreed(report);
      EXPECT_OK(comm_->Barrier());
      if (First()) {
        EXPECT_EQ(Differences(before, ImageOf(directory_)), "");
      }
    }
    if (Failed()) return;
  }
}

// Any message of the layer may err, all along: what is made is right, or it is said on all ranks that it could not be made.
TEST_F(EngineMpiTest, FaultsOfMessagesMakeNoWrongFiles) {
  const std::uint64_t seed = SeedOf(1618);
  std::uint64_t faults = 0, restored_ones = 0;
  for (std::uint64_t i = 0; i < RoundsOf(16); ++i) {
    Rng rng(seed + i);
    SampleLimits limits;
    limits.bytes = 128u << 10;
    limits.kind = 2;
    limits.fixed_members = 4;
    Sample sample = Make(rng, limits);
    sample.options.parity = 1 + static_cast<std::uint32_t>(Below(rng, 2));
    sample.options.group = 4;
    SCOPED_TRACE(fmt::format("dataset {}: {}", i, sample.Describe()));
    const DatasetRef all = Part(rng, sample);
    DatasetReport made, restored;
    const auto with_faults = [&](std::uint64_t salt, const auto& work) {
      validated::Faults noise(seed + 2 * i + salt);
      noise.share = 0.05;
      DatasetReport report = work();
      faults += noise.total();
      return report;
    };
    made = with_faults(0, [&] { return Protect(With(sample), all, {}); });
    if (!made.status.ok()) {
      EXPECT_CODE(made.status, Code::kMpi);
    }
    const bool failed_anywhere = *comm_->AllReduceMax(made.status.ok() ? 0 : 1) != 0;
    EXPECT_EQ(failed_anywhere, !made.status.ok());
    if (failed_anywhere) continue;
    if (First()) ExpectSame(FingerprintOf(sample.files), FingerprintOfCopy(sample, directory_));
    const std::string lost = sample.files[Below(rng, sample.files.size())];
    Bytes before;
    if (First()) {
      before = ReadFile(lost);
      std::filesystem::remove(lost);
      std::filesystem::remove(*SidecarPath(lost));
    }
    EXPECT_OK(comm_->Barrier());
    const DatasetRef left = Part(rng, sample);
    restored = with_faults(1, [&] { return Restore(With(sample), left, {}); });
    EXPECT_OK(comm_->Barrier());
    if (!restored.status.ok()) {
      EXPECT_CODE(restored.status, Code::kMpi);
    }
    if (First() && Exists(lost)) {
      EXPECT_EQ(ReadFile(lost), before);
    }
    if (restored.status.ok()) {
      ++restored_ones;
      if (First()) ExpectSame(FingerprintOf(sample.files), FingerprintOfCopy(sample, directory_));
    }
    if (Failed()) return;
  }
  if (ranks() == 1) return;
  EXPECT_GT(*comm_->AllReduceSum(faults), RoundsOf(16)) << "this proves little";
  EXPECT_GT(restored_ones, 0u);
}

}  // namespace
}  // namespace lzy::testing
