// What was captured while a file was written makes the same sidecar as reading it back: random patterns of writes by
// several ranks, captured or not, in one epoch or several, against lzy-protect of the same bytes.
#include "encode/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "commit/check_written.h"
#include "dataset/view.h"
#include "rows/retry.h"
#include "rows/rows.h"
#include "engine_fixture.h"
#include "status_matchers.h"
#include "thread_communicator.h"
#include "wrong_sums.h"

namespace lzy::testing {
namespace {

struct Write {
  int rank = 0;
  std::uint64_t offset = 0, length = 0;
};

// Ways in which programs write a file of about `size` bytes, on `ranks` ranks.
std::vector<Write> Pattern(Rng& rng, std::uint64_t size, std::uint64_t block, int ranks) {
  std::vector<Write> writes;
  const auto any_rank = [&] { return static_cast<int>(Below(rng, static_cast<std::uint64_t>(ranks))); };
  switch (Below(rng, 6)) {
    case 0: {  // each rank a slab, in one piece
      const std::uint64_t part = std::max<std::uint64_t>(1, size / static_cast<std::uint64_t>(ranks));
      for (int r = 0; r < ranks; ++r) writes.push_back({r, static_cast<std::uint64_t>(r) * part, part});
      break;
    }
    case 1:
    case 2: {  // round robin, in pieces of blocks or of anything
      const std::uint64_t piece = OneIn(rng, 2) ? block * (1 + Below(rng, 8)) : 1 + Below(rng, 3 * block);
      for (std::uint64_t at = 0, i = 0; at < size; at += piece, ++i)
        writes.push_back({static_cast<int>(i % static_cast<std::uint64_t>(ranks)), at, std::min(piece, size - at)});
      if (OneIn(rng, 2)) std::shuffle(writes.begin(), writes.end(), rng);
      break;
    }
    case 3:  // one rank alone, appending
      for (std::uint64_t at = 0, rank = Below(rng, static_cast<std::uint64_t>(ranks)); at < size;) {
        const std::uint64_t length = 1 + Below(rng, 4 * block);
        writes.push_back({static_cast<int>(rank), at, length});
        at += length;
      }
      break;
    case 4:  // here and there, upon each other
      for (std::uint64_t i = 1 + Below(rng, 30); i > 0; --i)
        writes.push_back({any_rank(), Below(rng, size), 1 + Below(rng, OneIn(rng, 3) ? size : 4 * block)});
      break;
    default:  // all of it, and then some again
      writes.push_back({any_rank(), 0, size});
      for (std::uint64_t i = Below(rng, 5); i > 0; --i) writes.push_back({any_rank(), Below(rng, size), 1 + Below(rng, block)});
  }
  return writes;
}

class CapturedFile {
 public:
  explicit CapturedFile(std::uint64_t seed) : rng_(seed) {
    sample_.kind = DatasetKind::kShared;
    sample_.path = scratch_ / "file";
    sample_.files = {sample_.path};
    Options& o = sample_.options;
    o.block_size = 512u << Below(rng_, 3);
    o.stripe = o.block_size << Below(rng_, 5);
    o.group = static_cast<std::uint32_t>(2 + Below(rng_, 7));
    o.parity = static_cast<std::uint32_t>(Below(rng_, std::min<std::uint64_t>(o.group, 4)));
    o.threads = static_cast<std::uint32_t>(1 + Below(rng_, 2));
    o.memory = OneIn(rng_, 4) ? 64u << 10 : 8u << 20;
    ranks_ = static_cast<int>(1 + Below(rng_, 4));
    WriteFile(sample_.path, {});
  }

  void Epoch() {
    const std::uint64_t block = sample_.options.block_size;
    const std::uint64_t before = ReadFile(sample_.path).size();
    const std::uint64_t size = 1 + Below(rng_, block * (OneIn(rng_, 3) ? 200 : 40));
    // The one that will be, or a wrong one.
    const std::uint64_t expected = OneIn(rng_, 8) ? Below(rng_, 2 * size) : std::max(before, size);
    auto captures = std::exchange(carried_, {});
    compare_ = OneIn(rng_, 6);
    writers_.clear();
    cut_ = false;
    if (compare_ || OneIn(rng_, 3)) captures.clear();
    captures.resize(static_cast<std::size_t>(ranks_));
    std::vector<Edits> edits(static_cast<std::size_t>(ranks_));
    for (int r = 0; r < ranks_; ++r) {
      edits[static_cast<std::size_t>(r)].try_emplace(0);
      if (captures[static_cast<std::size_t>(r)]) continue;
      CaptureSetup setup = SetupFor(expected);
      // As for a new file: the geometry of a large one, which counts only if the file becomes large.
      if (OneIn(rng_, 2)) {
        setup = SetupFor(std::uint64_t{1} << 60);
        setup.certain_from = 4 * setup.parameters.unit * setup.parameters.groups[0].size();
      }
      auto made = lzy::Capture::Create(std::move(setup));
      ASSERT_OK(made);
      captures[static_cast<std::size_t>(r)] = std::move(*made);
    }
    const auto start = BeginEpoch(PosixFileSystem(), sample_.options, sample_.path, "");
    ASSERT_OK(start);
    departs_from_ = start->intent;
    const bool fresh = generation_ == 0;
    const bool all_captured = OneIn(rng_, 2);
    const bool ordered = OneIn(rng_, 2);
    std::uint64_t turn = 0;
    std::vector<Write> writes = Pattern(rng_, size, block, ranks_);
    const std::uint64_t behind = OneIn(rng_, 3) ? before + (OneIn(rng_, 3) ? Below(rng_, 30 * block) : 0) : 0;
    for (Write& write : writes) write.offset += behind;
    for (const Write& write : writes) {
      if (OneIn(rng_, 20)) Cut(captures, edits);
      lzy::Capture& capture = *captures[static_cast<std::size_t>(write.rank)];
      // The buffer lies anyhow in memory.
      const std::uint64_t skew = Below(rng_, 64);
      const Bytes bytes = RandomBytes(rng_, write.length + skew);
      const ByteSpan data = ByteSpan(bytes).subspan(skew);
      Put(write.offset, data);
      writers_.resize(std::max<std::size_t>(writers_.size(), write.offset + write.length));
      for (std::uint64_t i = 0; i < write.length; ++i) writers_[write.offset + i] = static_cast<std::uint8_t>(writers_[write.offset + i] | (1u << write.rank));
      AddTouched(edits[static_cast<std::size_t>(write.rank)][0], write.offset, write.length);
      if (all_captured || !OneIn(rng_, 8)) {
        capture.Take(write.offset, data, ordered ? ++turn : 0);
      } else {
        capture.Miss({write.offset, write.offset + write.length});
      }
    }
    if (OneIn(rng_, 10)) Cut(captures, edits);
    Commit(captures, edits, fresh);
  }

  std::uint64_t captured() const { return captured_; }
  std::uint64_t read_back() const { return read_back_; }
  /// Commits with sums that arrived wrong at first.
  std::uint64_t made_again() const { return made_again_; }
  /// Captures that went on in another epoch.
  std::uint64_t carried() const { return carried_commits_; }
  /// Epochs of which all bytes were compared with what was written, and those in which a wrong one was found.
  std::uint64_t compared() const { return compared_; }
  std::uint64_t found() const { return found_; }

 private:
  void Put(std::uint64_t offset, ByteSpan bytes) {
    const int file = open(sample_.path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset)), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(close(file), 0);
  }

  CaptureSetup SetupFor(std::uint64_t size) const {
    CaptureSetup setup{.parameters = SharedGeometry(sample_.options, size), .memory = sample_.options.memory, .key = sample_.options.key};
    if (compare_) setup.hold = setup.memory / 3 * 2;
    setup.compare = compare_;
    return setup;
  }

  // As MPI_File_set_size is told: from the smaller of the two sizes on.
  void Cut(std::vector<std::unique_ptr<lzy::Capture>>& captures, std::vector<Edits>& edits) {
    const std::uint64_t old = ReadFile(sample_.path).size();
    const std::uint64_t size = OneIn(rng_, 3) ? 0 : Below(rng_, 2 * old + 1);
    const bool known = !OneIn(rng_, 4);
    Truncate(sample_.path, size);
    cut_ = true;
    const std::uint64_t from = std::min(old, size) - (std::min(old, size) > 0);
    for (std::size_t r = 0; r < captures.size(); ++r) {
      if (known) {
        captures[r]->Cut(size);
      } else {
        captures[r]->Miss({from, std::uint64_t{1} << 62});
      }
      AddTouched(edits[r][0], from, std::max(old, size) + 1 - from);
    }
  }

  void Commit(std::vector<std::unique_ptr<lzy::Capture>>& captures, const std::vector<Edits>& edits, bool fresh) {
    std::vector<DatasetReport> reports(captures.size());
    const bool met_another = OneIn(rng_, 20);
    WrongSums wrong(rng_(), 40, kMostExchanges - 1);
    const auto commit = [&](Communicator& comm) {
      const auto r = static_cast<std::size_t>(comm.rank());
      ProtectRequest request;
      request.touched = edits[r];
      if (fresh) (*request.touched)[0].AddWhole();
      request.capture = captures[r].get();
      request.departs_from = departs_from_.uuid;
      request.departs_from_generation = departs_from_.generation + (met_another ? 1 : 0);
      reports[r] = Protect(Context{.fs = PosixFileSystem(), .comm = comm, .options = sample_.options},
                           RefOf(comm, sample_.path, Resolve::kProtectable), request);
    };
    RunRanks(ranks_, commit, {}, [&](int, std::span<std::uint64_t> received) { wrong(received); });
    ASSERT_OK(reports[0].status);
    made_again_ += wrong.faults > 0 && !reports[0].warnings.empty() ? 1 : 0;
    generation_ = reports[0].generation;
    counts_ = reports[0].captures_count;
    if (met_another) {
      EXPECT_EQ(reports[0].bytes_captured, 0u);
    }
    captured_ += reports[0].bytes_captured;
    read_back_ += reports[0].bytes_read;
    EXPECT_TRUE(reports[0].damage.empty());
    ExpectSame(FingerprintOf(sample_.files), FingerprintOfCopy(sample_, scratch_.path()));
    if (compare_ && !::testing::Test::HasFailure()) return Compare(captures, edits);
    // As the layer does after a sync.
    for (auto& capture : captures) {
      const bool carries = reports[0].captures_count && capture->Carry();
      carried_commits_ += carries ? 1 : 0;
      if (!carries) capture.reset();
    }
    carried_ = std::move(captures);
  }

  // As verify-writes does: nothing is wrong. Then a byte is changed that one rank alone wrote: that is found, if it is said
  // to have been compared.
  void Compare(const std::vector<std::unique_ptr<lzy::Capture>>& captures, const std::vector<Edits>& edits) {
    const WrittenCheck right = Checked(captures, edits);
    EXPECT_EQ(right.faults, 0u);
    compared_ += right.uncompared.total() == 0;
    const Bytes before = ReadFile(sample_.path);
    if (before.empty() || ::testing::Test::HasFailure()) return;
    const std::uint64_t at = Below(rng_, before.size());
    // Of a block that was cut, other ranks do not know in which order it was written.
    const bool one_alone = at < writers_.size() && std::has_single_bit(writers_[at]) && !cut_;
    Rot(rng_, sample_.path, at, 1);
    const WrittenCheck wrong = Checked(captures, edits);
    if (one_alone && right.uncompared.total() == 0) {
      EXPECT_TRUE(wrong.faults > 0 || wrong.uncompared[Uncompared::kOverlap] > 0) << "byte " << at;
      found_ += wrong.faults > 0;
    }
    WriteAt(sample_.path, at, {before[at]});
  }

  WrittenCheck Checked(const std::vector<std::unique_ptr<lzy::Capture>>& captures, const std::vector<Edits>& edits) {
    std::vector<WrittenCheck> checks(captures.size());
    IntervalSet touched;
    for (const Edits& theirs : edits) touched.Add(theirs.at(0).intervals());
    RunRanks(ranks_, [&](Communicator& comm) {
      const auto r = static_cast<std::size_t>(comm.rank());
      Written written{RefOf(comm, sample_.path, Resolve::kProtectable), {{0, touched}}, generation_, counts_ ? captures[r].get() : nullptr};
      auto checked = CheckWritten(Context{.fs = PosixFileSystem(), .comm = comm, .options = sample_.options}, written);
      ASSERT_OK(checked);
      checks[r] = std::move(*checked);
    });
    return checks[0];
  }

  Rng rng_;
  Scratch scratch_;
  Sample sample_;
  bool compare_ = false, counts_ = false;
  std::vector<std::uint8_t> writers_;  // of each byte in this epoch, a bit for each rank
  bool cut_ = false;                   // in this epoch
  std::uint64_t compared_ = 0, found_ = 0;
  int ranks_ = 1;
  std::uint64_t generation_ = 0;
  Intent departs_from_;
  std::uint64_t captured_ = 0, read_back_ = 0, made_again_ = 0, carried_commits_ = 0;
  std::vector<std::unique_ptr<lzy::Capture>> carried_;  // to the next epoch, by rank
};

// 3,200 epochs in all, and 40,000 in slow.capture; with a sanitizer fewer, since it is slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kRounds = 80;
#else
constexpr std::uint64_t kRounds = 200;
#endif

class Capture : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Capture, MakesTheSameAsReadingBack) {
  const std::uint64_t seed = SeedOf(GetParam());
  std::uint64_t captured = 0, read_back = 0, made_again = 0, carried = 0, compared = 0, found = 0;
  for (std::uint64_t i = 0; i < RoundsOf(kRounds) && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("LZY_TEST_SEED={}", seed + i));
    CapturedFile test(seed + i);
    for (int epoch = 0; epoch < 4 && !HasFailure(); ++epoch) test.Epoch();
    captured += test.captured();
    read_back += test.read_back();
    made_again += test.made_again();
    carried += test.carried();
    compared += test.compared();
    found += test.found();
  }
  // Both ways were tried.
  EXPECT_GT(captured, read_back / 4);
  EXPECT_GT(read_back, captured / 20);
  EXPECT_GT(made_again, kRounds / 200) << "hardly any sum was wrong";
  EXPECT_GT(carried, kRounds / 10);
  EXPECT_GT(compared, kRounds / 10);
  EXPECT_GT(found, kRounds / 40);
}

// Of a row with one block that nobody wrote, that block is read, and held to its leaf.
TEST(CaptureGaps, AreReadAloneAndRotInThemStaysDamage) {
  constexpr std::uint64_t kBlock = 512, kSize = 24 * kBlock;
  for (std::uint64_t gap = 0; gap < 24 && !HasFailure(); ++gap) {
    for (const bool rots : {false, true}) {
      SCOPED_TRACE(fmt::format("block {}, rots: {}", gap, rots));
      Rng rng(gap);
      Scratch scratch;
      const std::string path = scratch / "file";
      Options options;
      options.block_size = 512;
      options.stripe = kBlock;
      options.group = 4;
      options.parity = 1;
      options.compact = false;  // else all other rows would be read, too
      WriteFile(path, RandomBytes(rng, kSize));
      const auto self = SelfCommunicator();
      const Context context{.fs = PosixFileSystem(), .comm = *self, .options = options};
      const DatasetRef file = RefOf(*self, path, Resolve::kProtectable);
      ASSERT_OK(Protect(context, file, {}).status);
      const auto start = BeginEpoch(PosixFileSystem(), options, path, "");
      ASSERT_OK(start);
      auto capture = lzy::Capture::Create({.parameters = SharedGeometry(options, kSize), .memory = options.memory});
      ASSERT_OK(capture);
      const auto layout = Layout::Create(SharedGeometry(options, kSize), {kSize});
      ASSERT_OK(layout);
      ProtectRequest request;
      request.touched.emplace();
      IntervalSet& touched = (*request.touched)[0];
      const RowId row = layout->LocateData(0, gap).row;
      for (const std::uint32_t device : layout->group(row.group)) {
        if (layout->IsParity(device, row.unit_row)) continue;
        const BlockPlace place = layout->DataBlock(device, row.unit_row, row.slice);
        if (place.index == gap) continue;
        const Bytes bytes = RandomBytes(rng, kBlock);
        WriteAt(path, place.offset, bytes);
        AddTouched(touched, place.offset, kBlock);
        (*capture)->Take(place.offset, bytes);
      }
      if (rots) Rot(rng, path, gap * kBlock, kBlock);
      request.capture = capture->get();
      request.departs_from = start->intent.uuid;
      request.departs_from_generation = start->intent.generation;
      const DatasetReport made = Protect(context, file, request);
      ASSERT_OK(made.status);
      EXPECT_EQ(made.bytes_captured, 2 * kBlock);
      EXPECT_EQ(made.bytes_read, kBlock) << "the capture was made for a file of this size, so block 0 is not compared";
      const DatasetReport verified = Verify(context, file, {});
      EXPECT_EQ(ExitCodeOf(verified), rots ? 2 : 0) << "the rot was blessed, or promised to be repaired";
      for (const DatasetReport* report : {&made, &verified}) {
        const bool named = std::any_of(report->damage.begin(), report->damage.end(), [&](const Damage& d) {
          return d.part == DamagePart::kData && d.offset == gap * kBlock && d.length == kBlock && d.beyond_repair;
        });
        EXPECT_EQ(named, rots);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Capture, ::testing::Values(4711, 104711, 204711, 304711));

// A set whose members are captured, each by its rank.
class CapturedSet {
 public:
  explicit CapturedSet(std::uint64_t seed) : rng_(seed) {
    ranks_ = static_cast<int>(1 + Below(rng_, 4));
    sample_.kind = DatasetKind::kSet;
    sample_.path = scratch_ / "member.%r";
    Options& o = sample_.options;
    o.block_size = 512u << Below(rng_, 3);
    o.parity = static_cast<std::uint32_t>(OneIn(rng_, 2) ? Below(rng_, static_cast<std::uint64_t>(ranks_)) : 0);
    o.threads = static_cast<std::uint32_t>(1 + Below(rng_, 2));
    if (OneIn(rng_, 4)) o.key = TestKey();
    copies_ = !OneIn(rng_, 3);
    for (int r = 0; r < ranks_; ++r) {
      sample_.files.push_back(scratch_ / fmt::format("member.{}", r));
      WriteFile(sample_.files.back(), {});
    }
  }

  void Epoch() {
    std::vector<Member> members(static_cast<std::size_t>(ranks_));
    for (std::size_t r = 0; r < members.size(); ++r) WriteMember(r, members[r]);
    std::vector<DatasetReport> reports(members.size());
    RunRanks(ranks_, [&](Communicator& comm) {
      const auto r = static_cast<std::size_t>(comm.rank());
      ProtectRequest request;
      request.touched.emplace();
      // That a member has no entry says the same as an empty one: nobody wrote it.
      if (!members[r].touched.empty()) (*request.touched)[static_cast<std::uint32_t>(r)] = members[r].touched;
      request.capture = members[r].capture.get();
      request.departs_from = members[r].start.uuid;
      request.departs_from_generation = members[r].start.generation + (members[r].met_another ? 1 : 0);
      const DatasetRef set{.kind = DatasetKind::kSet, .path = sample_.path, .members = {{comm.rank(), sample_.files[r]}}};
      reports[r] = Protect(Context{.fs = PosixFileSystem(), .comm = comm, .options = sample_.options}, set, request);
    });
    ASSERT_OK(reports[0].status);
    captured_ += reports[0].bytes_captured;
    read_back_ += reports[0].bytes_read;
    if (sample_.options.parity > 0 && copies_) {
      from_copies_ += reports[0].bytes_captured;
    } else if (sample_.options.parity > 0) {
      EXPECT_EQ(reports[0].bytes_captured, 0u) << "all of it is read for the parity";
    }
    for (std::size_t r = 0; r < members.size(); ++r) {
      if (members[r].met_another) {
        EXPECT_FALSE(reports[r].captures_count);
      }
    }
    EXPECT_TRUE(reports[0].damage.empty());
    ExpectSame(FingerprintOf(sample_.files), FingerprintOfCopy(sample_, scratch_.path()));
  }

  std::uint64_t captured() const { return captured_; }
  std::uint64_t read_back() const { return read_back_; }
  /// Bytes of sets with parity that were not read.
  std::uint64_t from_copies() const { return from_copies_; }

 private:
  struct Member {
    Intent start;
    IntervalSet touched;
    std::unique_ptr<lzy::Capture> capture;
    bool met_another = false;
  };

  void WriteMember(std::size_t r, Member& member) {
    const std::string& path = sample_.files[r];
    const auto start = BeginEpoch(PosixFileSystem(), sample_.options, path, sample_.path);
    ASSERT_OK(start);
    member.start = start->intent;
    member.met_another = OneIn(rng_, 20);
    Options hashes = sample_.options;
    hashes.parity = 0;
    const bool other_blocks = OneIn(rng_, 8);
    if (other_blocks) hashes.block_size *= 2;
    CaptureSetup setup{.parameters = SharedGeometry(hashes, std::uint64_t{1} << 60), .memory = hashes.memory, .key = hashes.key};
    setup.only_held = copies_ && sample_.options.parity > 0;
    if (setup.only_held) setup.hold = OneIn(rng_, 3) ? Below(rng_, 40 * hashes.block_size) : hashes.memory / 2;
    auto made = lzy::Capture::Create(std::move(setup));
    ASSERT_OK(made);
    if (!OneIn(rng_, 8)) member.capture = std::move(*made);
    if (OneIn(rng_, 6)) return;  // not written in this epoch
    const std::uint64_t block = sample_.options.block_size, before = ReadFile(path).size();
    const std::uint64_t size = 1 + Below(rng_, block * 60);
    if (start->generation == 0) member.touched.AddWhole();
    std::uint64_t turn = 0;
    const bool ordered = OneIn(rng_, 2), all_captured = OneIn(rng_, 2);
    const std::uint64_t behind = OneIn(rng_, 3) ? before : 0;
    for (const Write& write : Pattern(rng_, size, block, 1)) {
      if (OneIn(rng_, 20)) Cut(path, member);
      const Bytes bytes = RandomBytes(rng_, write.length);
      WriteAt(path, behind + write.offset, bytes);
      AddTouched(member.touched, behind + write.offset, write.length);
      if (!member.capture) continue;
      if (all_captured || !OneIn(rng_, 8)) {
        member.capture->Take(behind + write.offset, bytes, ordered ? ++turn : 0);
      } else {
        member.capture->Miss({behind + write.offset, behind + write.offset + write.length});
      }
    }
  }

  void Cut(const std::string& path, Member& member) {
    const std::uint64_t old = ReadFile(path).size(), size = Below(rng_, 2 * old + 1);
    Truncate(path, size);
    const std::uint64_t from = std::min(old, size) - (std::min(old, size) > 0);
    AddTouched(member.touched, from, std::max(old, size) + 1 - from);
    if (member.capture) member.capture->Cut(size);
  }

  Rng rng_;
  Scratch scratch_;
  Sample sample_;
  int ranks_ = 1;
  bool copies_ = false;
  std::uint64_t captured_ = 0, read_back_ = 0, from_copies_ = 0;
};

TEST_P(Capture, OfMembersMakesTheSameAsReadingBack) {
  const std::uint64_t seed = SeedOf(GetParam());
  std::uint64_t captured = 0, read_back = 0, from_copies = 0;
  for (std::uint64_t i = 0; i < RoundsOf(kRounds) / 4 && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("LZY_TEST_SEED={}", seed + i));
    CapturedSet test(seed + i);
    for (int epoch = 0; epoch < 4 && !HasFailure(); ++epoch) test.Epoch();
    captured += test.captured();
    read_back += test.read_back();
    from_copies += test.from_copies();
  }
  EXPECT_GT(captured, read_back / 8);
  EXPECT_GT(read_back, captured / 20);
  EXPECT_GT(from_copies, read_back / 200);
}

/// Two epochs of a set of three members of 8 blocks. In the first, all is written. In the second, all but block 5 of
/// member 1, and everything is captured. `spoil` may change what the storage has then. Returns what was committed.
DatasetReport CommitCaptured(const std::vector<std::string>& files, const std::string& pattern, const Options& options,
                             const std::function<void()>& spoil) {
  constexpr std::uint64_t kBlock = 512, kBlocks = 8;
  Rng rng(7);
  Options hashes = options;
  hashes.parity = 0;
  std::vector<DatasetReport> reports(files.size());
  for (const bool second : {false, true}) {
    std::vector<Intent> starts;
    std::vector<IntervalSet> touched(files.size());
    std::vector<std::unique_ptr<lzy::Capture>> captures(files.size());
    for (std::size_t r = 0; r < files.size(); ++r) {
      if (!second) WriteFile(files[r], {});
      starts.push_back(BeginEpoch(PosixFileSystem(), options, files[r], pattern)->intent);
      auto made = lzy::Capture::Create({.parameters = SharedGeometry(hashes, 1u << 20), .memory = options.memory});
      captures[r] = std::move(*made);
      for (std::uint64_t i = 0; i < kBlocks; ++i) {
        if (second && r == 1 && i == 5) continue;
        const Bytes bytes = RandomBytes(rng, kBlock);
        WriteAt(files[r], i * kBlock, bytes);
        captures[r]->Take(i * kBlock, bytes, i + 1);
        AddTouched(touched[r], i * kBlock, kBlock);
      }
    }
    if (second) spoil();
    RunRanks(static_cast<int>(files.size()), [&](Communicator& comm) {
      const auto r = static_cast<std::size_t>(comm.rank());
      ProtectRequest request;
      request.touched = {{static_cast<std::uint32_t>(r), touched[r]}};
      request.capture = captures[r].get();
      request.departs_from = starts[r].uuid;
      request.departs_from_generation = starts[r].generation;
      const DatasetRef set{.kind = DatasetKind::kSet, .path = pattern, .members = {{comm.rank(), files[r]}}};
      reports[r] = Protect(Context{.fs = PosixFileSystem(), .comm = comm, .options = options}, set, request);
    });
    EXPECT_OK(reports[0].status);
  }
  return reports[0];
}

class CapturedMembers : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  CapturedMembers() {
    options_.block_size = 512;
    options_.parity = GetParam();
    options_.verify_writes = true;
  }
  /// Damaged blocks of data. A row without parity is reported, too.
  std::vector<Damage> DamagedData() {
    const auto self = SelfCommunicator();
    const Context context{.fs = PosixFileSystem(), .comm = *self, .options = options_};
    std::vector<Damage> found = Verify(context, RefOf(*self, pattern_), {}).damage;
    std::erase_if(found, [](const Damage& one) { return one.part != DamagePart::kData; });
    return found;
  }

  Scratch scratch_;
  Options options_;
  const std::string pattern_ = scratch_ / "member.%r";
  const std::vector<std::string> files_{scratch_ / "member.0", scratch_ / "member.1", scratch_ / "member.2"};
};

// What was captured is what should be there. The parity was made of what is there, so it must not repair anything.
TEST_P(CapturedMembers, ABlockThatWasWrittenWronglyIsDamageAndItsRowHasNoParity) {
  Rng rng(1);
  CommitCaptured(files_, pattern_, options_, [&] { WriteAt(files_[1], 2 * 512, RandomBytes(rng, 512)); });
  const std::vector<Damage> found = DamagedData();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].path == files_[1] && found[0].offset == 2 * 512 && found[0].length == 512 && found[0].beyond_repair);
  // Any other block is lost, too. The one in the same row cannot be repaired; the others can, if there is parity.
  int repairable = 0;
  for (const std::string& file : {files_[0], files_[2]}) {
    for (std::uint64_t block = 0; block < 8; ++block) {
      const Bytes before = ReadFile(file);
      const std::int64_t mtime = MtimeOf(file);
      Rot(rng, file, block * 512, 512);
      repairable += std::ranges::count(DamagedData(), true, &Damage::beyond_repair) == 1 ? 1 : 0;
      WriteFile(file, before);
      SetMtime(file, mtime);
    }
  }
  EXPECT_EQ(repairable, options_.parity == 0 ? 0 : 15);
}

TEST_P(CapturedMembers, RotInABlockThatNobodyWroteIsNotBlessed) {
  Rng rng(1);
  const DatasetReport made = CommitCaptured(files_, pattern_, options_, [&] { Rot(rng, files_[1], 5 * 512, 512); });
  EXPECT_FALSE(made.damage.empty());
  const std::vector<Damage> found = DamagedData();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].path == files_[1] && found[0].offset == 5 * 512 && found[0].length == 512);
}

INSTANTIATE_TEST_SUITE_P(Parities, CapturedMembers, ::testing::Values(0, 1));

// Without parity there is no sum that a second write could spoil: of the rows of the written blocks, only the block that
// was written twice is read.
TEST(CaptureWithoutParity, ABlockThatIsWrittenTwiceIsReadAlone) {
  constexpr std::uint64_t kBlock = 512, kSize = 64 * kBlock;
  Options options;
  options.block_size = kBlock;
  options.parity = 0;
  auto capture = lzy::Capture::Create({.parameters = SharedGeometry(options, kSize), .memory = options.memory});
  ASSERT_OK(capture);
  Rng rng(1);
  (*capture)->Take(0, RandomBytes(rng, kSize), 1);
  (*capture)->Take(40 * kBlock, RandomBytes(rng, kBlock), 2);
  const auto layout = Layout::Create((*capture)->parameters(), {kSize});
  ASSERT_OK(layout);
  ASSERT_TRUE((*capture)->Finish(*layout));
  (*capture)->CloseOpen([](std::uint64_t) { return lzy::Capture::Fate::kCaptured; });
  EXPECT_EQ((*capture)->Captured(100), (std::vector<Interval>{{0, 40}, {41, 64}}));
}

}  // namespace
}  // namespace lzy::testing
