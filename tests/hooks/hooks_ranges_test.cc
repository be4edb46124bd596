// The ranges that views give for writes, against what the standard says of random datatypes, and against the bytes of a
// file that really change. LZY_TEST_SEED chooses other types; failures tell the seed.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "datatypes/type_map.h"
#include "hooks/ranges/mpi_view.h"
#include "hooks_types.h"

namespace lzy::hooks {
using namespace datatypes;
namespace {

using Ranges = std::vector<Interval>;

unsigned Seed() {
  const char* given = std::getenv("LZY_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 20240607u;
}

std::string Text(const Ranges& ranges) {
  std::string text;
  for (const Interval& range : ranges) text += fmt::format("[{},{}) ", range.begin, range.end);
  return text;
}

/// Where `bytes` bytes of data from `first` on go to when `type` is repeated from `displacement` on.
struct Expected {
  Ranges ranges;
  std::size_t pieces = 0;    // that there are before neighbours are joined
  bool overlapping = false;  // some byte is written twice
  bool in_order = true;
};
Expected Reference(const TestType& type, std::int64_t displacement, std::uint64_t first, std::uint64_t bytes) {
  Expected expected;
  Ranges all;
  const auto size = static_cast<std::uint64_t>(type.size);
  std::uint64_t at = first / size * size;
  for (auto tile = static_cast<std::int64_t>(first / size); at < first + bytes; ++tile) {
    for (const Piece& piece : type.pieces) {
      const auto data = static_cast<std::uint64_t>(piece.size);
      const std::uint64_t from = std::max(at, first);
      const std::uint64_t to = std::min(at + data, first + bytes);
      const auto place = static_cast<std::uint64_t>(displacement + tile * type.extent + piece.at);
      if (from < to) all.push_back({place + (from - at), place + (to - at)});
      at += data;
    }
  }
  expected.pieces = all.size();
  for (std::size_t i = 1; i < all.size(); ++i) expected.in_order &= all[i].begin >= all[i - 1].end;
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  for (const Interval& piece : all) {
    if (!expected.ranges.empty() && piece.begin <= expected.ranges.back().end) {
      expected.overlapping |= piece.begin < expected.ranges.back().end;
      expected.ranges.back().end = std::max(expected.ranges.back().end, piece.end);
    } else {
      expected.ranges.push_back(piece);
    }
  }
  return expected;
}

bool Holds(const Ranges& outer, const Ranges& inner) {
  std::size_t i = 0;
  for (const Interval& range : inner) {
    while (i < outer.size() && outer[i].end < range.end) ++i;
    if (i == outer.size() || outer[i].begin > range.begin) return false;
  }
  return true;
}

bool WellFormed(const Ranges& ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].begin >= ranges[i].end || (i > 0 && ranges[i].begin <= ranges[i - 1].end)) return false;
  }
  return true;
}

/// A random part of what is written through a view.
struct Write {
  std::int64_t displacement;
  std::uint64_t offset, bytes;  // in etypes, in bytes
};

Write RandomWrite(TypeMaker& maker, const TestType& filetype, std::int64_t etype_size, std::int64_t most_tiles) {
  const std::int64_t etypes = filetype.size / etype_size;
  const std::int64_t count = maker.Chance(10) ? 1 : maker.Pick(1, std::max<std::int64_t>(1, most_tiles * etypes / 2));
  return {maker.Chance(30) ? 0 : maker.Pick(0, 100), static_cast<std::uint64_t>(maker.Pick(0, 2 * etypes)),
          static_cast<std::uint64_t>(count * etype_size)};
}

/// `ranges` gives those for a limit.
void CheckAgainst(const Expected& expected, const std::function<Ranges(std::size_t)>& ranges,
                  const std::string& trace) {
  ASSERT_LE(expected.pieces, 16384u) << trace;  // or the next would not have to hold
  EXPECT_EQ(Text(ranges(16384)), Text(expected.ranges)) << trace;
  for (const std::size_t limit : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{64}}) {
    const Ranges some = ranges(limit);
    EXPECT_LE(some.size(), limit) << trace;
    EXPECT_TRUE(WellFormed(some)) << trace << "limit " << limit << ": " << Text(some);
    EXPECT_TRUE(Holds(some, expected.ranges))
        << trace << "limit " << limit << ": " << Text(some) << " does not hold " << Text(expected.ranges);
    if (expected.pieces <= limit) {
      EXPECT_EQ(Text(some), Text(expected.ranges)) << trace << "limit " << limit;
    }
  }
}

void Print(const char* what, const std::map<std::string, int>& counts) {
  std::printf("%s:", what);
  for (const auto& [name, count] : counts) std::printf(" %s %d,", name.c_str(), count);
  std::printf("\n");
}

/// Of the data of `type`, from byte `displacement` on. A layout that is not of all parts must hold all the same.
/// (Doubtful ones are not followed; Open MPI tells too narrow bounds of some that overlap themselves.)
void CheckCoarse(const TestType& type, bool legal, const Write& write, const Expected& expected,
                 const std::string& trace) {
  for (const std::size_t parts : {std::size_t{1}, std::size_t{2}, std::size_t{5}, std::size_t{20}}) {
    const TypeMap map = MapOf(type.get(), parts);
    if (map.doubtful && !legal) continue;
    ASSERT_EQ(map.layout.size, static_cast<std::uint64_t>(type.size)) << trace << "parts " << parts;
    const std::uint64_t end = write.offset + write.bytes;
    const Ranges ranges = BytesOf(map.layout, (end - 1) / map.layout.size + 1, type.extent,
                                  static_cast<std::uint64_t>(write.displacement), write.offset, end, 16384);
    EXPECT_TRUE(WellFormed(ranges) && Holds(ranges, expected.ranges)) << trace << "parts " << parts << Text(ranges);
  }
}

TEST(RangesOfTypes, AreWhatTheStandardSays) {
  std::map<std::string, int> total;
  for (const bool legal : {true, false}) {
    TypeOptions options;
    options.legal = legal;
    options.large_counts = true;
    TypeMaker maker(Seed(), options);
    for (int i = 0; i < 10000 && !HasFailure(); ++i) {
      TestType type = maker.Make(static_cast<int>(maker.Pick(1, 4)), nullptr);
      const std::string trace =
          fmt::format("seed {}, type {} ({}): {}\n", Seed(), i, legal ? "legal" : "any", type.text);
      Write write = RandomWrite(maker, type, 1, 6);
      if (type.lowest() < 0 || type.extent <= 0) {  // no filetype
        type.extent = 1;
        write = {100000, 0, static_cast<std::uint64_t>(type.size)};
      }
      const Expected expected = Reference(type, write.displacement, write.offset, write.bytes);
      const TypeMap map = MapOf(type.get());
      CheckCoarse(type, legal, write, expected, trace);
      if (!legal && map.layout.size > 0 && !map.layout.inner && !map.layout.exact) {
        ++total["MPI tells bounds that are too narrow"];  // Open MPI, of some that overlap themselves
        continue;
      }
      const auto ranges = [&](std::size_t limit) {
        const std::uint64_t end = write.offset + write.bytes;
        return BytesOf(map.layout, (end - 1) / map.layout.size + 1, type.extent,
                       static_cast<std::uint64_t>(write.displacement), write.offset, end, limit);
      };
      CheckAgainst(expected, ranges, trace);
      ++total[legal ? "legal types" : "types of any kind"];
    }
    Print("constructors", maker.counts());
  }
  Print("types", total);
  EXPECT_GT(total["types of any kind"], 9000);
}

/// A file whose bytes are known, in memory where there is room for that.
class KnownFile {
 public:
  static constexpr std::size_t kBytes = 1 << 17;

  KnownFile() {
    const std::string folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : testing::TempDir();
    path = folder + "lzy-ranges-" + std::to_string(getpid());
    descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (descriptor_ < 0 || ftruncate(descriptor_, kBytes) != 0) std::abort();
    for (std::size_t i = 0; i < kBytes; ++i) known_.push_back(static_cast<char>(i * 31 % 127));  // below 128
    now_.resize(kBytes);
    Restore();
  }
  ~KnownFile() {
    close(descriptor_);
    unlink(path.c_str());
  }
  KnownFile(const KnownFile&) = delete;
  KnownFile& operator=(const KnownFile&) = delete;

  /// What is not as it was. Makes it so again.
  Ranges Changes() {
    const ssize_t got = pread(descriptor_, now_.data(), kBytes, 0);
    if (got != static_cast<ssize_t>(kBytes) || ftruncate(descriptor_, kBytes) != 0) std::abort();
    Ranges changes;
    if (std::memcmp(now_.data(), known_.data(), kBytes) == 0) return changes;
    for (std::size_t i = 0; i < kBytes; ++i) {
      if (now_[i] == known_[i]) continue;
      if (!changes.empty() && changes.back().end == i) {
        ++changes.back().end;
      } else {
        changes.push_back({i, i + 1});
      }
    }
    Restore();
    return changes;
  }

  std::string path;

 private:
  void Restore() {
    if (pwrite(descriptor_, known_.data(), kBytes, 0) != static_cast<ssize_t>(kBytes)) std::abort();
  }

  int descriptor_ = -1;
  std::vector<char> known_;
  std::vector<char> now_;
};

/// Ways through an MPI library: with and without data sieving and two-phase I/O. Others than ROMIO ignore the hints.
struct Way {
  const char* name;
  const char* sieving;
  const char* two_phase;
  MPI_File file = MPI_FILE_NULL;
};

/// The write that is being done, for what is said when it does not end.
std::string now_writing;

extern "C" void SayWhatDoesNotEnd(int) {
  const char text[] = "this write does not end: ";
  if (write(2, text, sizeof text - 1) < 0 || write(2, now_writing.data(), now_writing.size()) < 0) _exit(2);
  _exit(1);
}

/// What is known to be wrong with writes through such views in some MPI library.
std::string KnownTrouble(const TestType& filetype, const Expected& expected) {
  if (filetype.padded_pair) return "a pair with a hole or padding";
  if (filetype.fortran) return "a type of MPI_Type_create_f90_*";
  if (filetype.moved_lower) return "a lower bound that is not 0";
  if (filetype.empty_blocks) return "empty blocks of a composed element";
  if (filetype.bounded_blocks) return "blocks of an element with bounds";
  if (filetype.cut_blocks) return "a cyclic distribution whose last block is cut short";
  if (filetype.low_arrays) return "arrays of elements with a lower bound";
  if (filetype.overlapping_bounds) return "bounds that other data lie within";
  if (!expected.in_order) return "filetypes that lie within each other";
  if (IsIntelMpi()) return "Intel MPI, and other than vectors and subarrays";
  return "";
}

class RangesOfWrites : public testing::Test {
 protected:
  struct Case {
    TestType etype, filetype;
    Write write;
    Expected expected;
    std::size_t way;
    int how;
    std::string text;
  };

  void SetUp() override {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (Way& way : ways_) {
      MPI_Info info;
      MPI_Info_create(&info);
      MPI_Info_set(info, "romio_ds_write", way.sieving);
      MPI_Info_set(info, "romio_cb_write", way.two_phase);
      ASSERT_EQ(MPI_File_open(MPI_COMM_SELF, known_.path.c_str(), MPI_MODE_RDWR, info, &way.file), MPI_SUCCESS);
      MPI_Info_free(&info);
    }
    data_.assign(KnownFile::kBytes, '\xee');  // differs from the file in every byte
  }
  void TearDown() override {
    for (Way& way : ways_) MPI_File_close(&way.file);
  }

  /// False when what came out can be no view, or not of this file.
  bool MakeCase(TypeMaker& maker, Case& made) {
    if (maker.Chance(50)) {
      made.etype = maker.Make(static_cast<int>(maker.Pick(0, 2)), nullptr);
      made.filetype = maker.Make(static_cast<int>(maker.Pick(0, 3)), &made.etype);
    } else {
      made.etype.handle = std::make_shared<MPI_Datatype>(MPI_BYTE);
      made.etype.size = 1;
      made.etype.text = "BYTE";
      made.filetype = maker.Make(static_cast<int>(maker.Pick(1, 4)), nullptr);
    }
    made.write = RandomWrite(maker, made.filetype, made.etype.size, 5);
    made.way = static_cast<std::size_t>(maker.Pick(0, 2));
    made.how = static_cast<int>(maker.Pick(0, 2));
    made.expected = Reference(made.filetype, made.write.displacement,
                              made.write.offset * static_cast<std::uint64_t>(made.etype.size), made.write.bytes);
    made.text = fmt::format("{} bytes at etype {}, displacement {}, {} {}, etype {}, filetype {}\n", made.write.bytes,
                            made.write.offset, made.write.displacement, ways_[made.way].name, made.how, made.etype.text,
                            made.filetype.text);
    return made.filetype.lowest() >= 0 && made.filetype.extent > 0 && !made.expected.overlapping &&
           made.expected.ranges.back().end <= KnownFile::kBytes;
  }

  static std::optional<Ranges> RangesFor(const Case& made, std::size_t limit) {
    MpiView view;
    view.Set(made.write.displacement, made.etype.get(), made.filetype.get(), "native");
    return view.Ranges(static_cast<MPI_Offset>(made.write.offset), made.write.bytes, limit);
  }

  bool SetView(const Case& made) {
    return MPI_File_set_view(ways_[made.way].file, made.write.displacement, made.etype.get(), made.filetype.get(),
                             "native", MPI_INFO_NULL) == MPI_SUCCESS;
  }

  /// Whether MPI wrote.
  bool Do(const Case& made) {
    const MPI_File file = ways_[made.way].file;
    const auto offset = static_cast<MPI_Offset>(made.write.offset);
    const auto count = static_cast<int>(made.write.bytes);
    MPI_Status status;
    if (made.how == 0) return MPI_File_write_at(file, offset, data_.data(), count, MPI_BYTE, &status) == MPI_SUCCESS;
    if (made.how == 1) {
      return MPI_File_write_at_all(file, offset, data_.data(), count, MPI_BYTE, &status) == MPI_SUCCESS;
    }
    return MPI_File_seek(file, offset, MPI_SEEK_SET) == MPI_SUCCESS &&
           MPI_File_write(file, data_.data(), count, MPI_BYTE, &status) == MPI_SUCCESS;
  }

  /// The same in a process of its own, which may crash or never end. What became of it.
  std::string DoApart(const Case& made) {
    const pid_t child = fork();
    if (child < 0) return "no process for it";
    if (child == 0) {
      std::signal(SIGALRM, SIG_DFL);
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
      if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(3);
      const rlimit memory = {rlim_t{1} << 32, rlim_t{1} << 32};
      setrlimit(RLIMIT_AS, &memory);
      const itimerval patience = {{0, 0}, {0, 200000}};
      setitimer(ITIMER_REAL, &patience, nullptr);
      if (!SetView(made)) _exit(2);
      _exit(Do(made) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "does not end" : "crashes";
    if (WEXITSTATUS(status) != 0) return WEXITSTATUS(status) == 2 ? "refuses the view" : "fails";
    return "";
  }

  KnownFile known_;
  std::vector<Way> ways_ = {
      {"sieving", "enable", "disable"}, {"neither", "disable", "disable"}, {"two-phase", "disable", "enable"}};
  std::vector<char> data_;
};

TEST_F(RangesOfWrites, AreTheBytesThatChange) {
  TypeOptions options;
  options.odd_leaves = false;  // they are never followed
  TypeMaker maker(Seed() + 1, options);
  std::signal(SIGALRM, SayWhatDoesNotEnd);
  std::map<std::string, int> total;
  for (int i = 0; total["exact"] < 10000 && !HasFailure(); ++i) {
    Case made;
    if (!MakeCase(maker, made)) {
      ++total["no view of this file"];
      continue;
    }
    const auto ranges = RangesFor(made, 16384);
    if (!IsListedWhole(made.filetype.get())) {
      ++total["left out, since MPI would abort"];
      continue;
    }
    if (!ranges) {
      ++total["not followed"];
      continue;
    }
    now_writing = fmt::format("seed {}, write {}: {}", Seed(), i, made.text);
    alarm(10);
    ASSERT_TRUE(SetView(made) && Do(made)) << now_writing;
    alarm(0);
    ASSERT_EQ(Text(known_.Changes()), Text(made.expected.ranges))
        << "not written as the standard says: " << now_writing;
    CheckAgainst(
        made.expected, [&](std::size_t limit) { return *RangesFor(made, limit); }, now_writing);
    ++total["exact"];
    total["exact, several ranges"] += made.expected.ranges.size() > 1;
  }
  // What is not followed costs much, and has to have a reason.
  EXPECT_LT(total["left out, since MPI would abort"], total["exact"] / 10);
  EXPECT_LT(total["not followed"], (IsIntelMpi() ? 5 : 2) * total["exact"]);
  Print("constructors", maker.counts());
  Print("writes", total);
}

// All that is not followed is the whole file, which holds whatever MPI does. This tells what MPI does, and that each
// reason not to follow is one.
TEST_F(RangesOfWrites, AreTheWholeFileWhereMpiMayWriteElsewhere) {
  TypeMaker maker(Seed() + 2, TypeOptions());
  std::map<std::string, int> total;
  for (int i = 0, done = 0; done < 300 && !HasFailure(); ++i) {
    Case made;
    if (!MakeCase(maker, made) || RangesFor(made, 16384)) continue;
    ++done;
    const std::string trouble = KnownTrouble(made.filetype, made.expected);
    const bool within = made.filetype.extent < made.filetype.span();
    EXPECT_TRUE(!trouble.empty() || within) << "seed " << Seed() << ", write " << i << ": " << made.text;
    std::string result = DoApart(made);
    const Ranges changed = known_.Changes();
    if (result.empty()) result = changed == made.expected.ranges ? "writes as the standard says" : "writes elsewhere";
    ++total[fmt::format("{}: {}", trouble.empty() ? "filetypes that may lie within each other" : trouble, result)];
  }
  Print("not followed", total);
}

// Time and space must not depend on how much is written.
TEST(RangesOfViews, TakeMicrosecondsForManyRuns) {
  MPI_Datatype element;
  MPI_Datatype many;
  MPI_Datatype plane;
  MPI_Type_vector(1000000000, 1, 3, MPI_INT, &many);
  const int sizes[] = {2000, 2000, 2000};
  const int part[] = {1000, 1000, 1000};
  const int start[] = {500, 500, 500};
  MPI_Type_create_subarray(3, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &plane);
  const int sixteen = 16, one = 1, zero = 0;
  MPI_Type_create_subarray(1, &sixteen, &one, &zero, MPI_ORDER_C, MPI_BYTE, &element);
  for (const MPI_Datatype type : {many, plane, element}) {
    MpiView view;
    view.Set(8, MPI_BYTE, type, "native");
    for (const std::size_t limit : {std::size_t{1}, std::size_t{5}, std::size_t{4096}, std::size_t{16384}}) {
      const auto begin = std::chrono::steady_clock::now();
      const auto ranges = view.Ranges(3, 3000000001u, limit);
      const auto took = std::chrono::steady_clock::now() - begin;
      ASSERT_TRUE(ranges);
      EXPECT_LE(ranges->size(), limit);
      EXPECT_GT(ranges->size(), limit / 2);
      EXPECT_TRUE(WellFormed(*ranges));
      EXPECT_LT(took, std::chrono::milliseconds(100));  // some 0.2 ms; a walk through all runs would take seconds
      std::printf("at most %zu: %.1f us\n", limit, std::chrono::duration<double, std::micro>(took).count());
    }
  }
  for (MPI_Datatype type : {many, plane, element}) MPI_Type_free(&type);
}

double MicrosecondsToSet(MPI_Datatype filetype) {
  constexpr int kTimes = 200;
  MpiView view;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) view.Set(8, MPI_BYTE, filetype, "native");
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / kTimes;
}

// PnetCDF sets a view for each write.
TEST(RangesOfViews, AreSetInMicroseconds) {
  MPI_Datatype dense;
  MPI_Datatype vector;
  MPI_Datatype cube;
  MPI_Datatype scattered;
  MPI_Type_contiguous(1000, MPI_BYTE, &dense);
  MPI_Type_vector(1000, 2, 3, MPI_INT, &vector);
  const int sizes[] = {200, 200, 200};
  const int part[] = {100, 100, 100};
  const int start[] = {50, 50, 50};
  MPI_Type_create_subarray(3, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &cube);
  std::vector<int> lengths;
  std::vector<MPI_Aint> offsets;
  for (int i = 0; i < 1000; ++i) {
    lengths.push_back(1 + i % 3);
    offsets.push_back(i * 50 + i % 7);
  }
  MPI_Type_create_hindexed(1000, lengths.data(), offsets.data(), MPI_INT, &scattered);
  std::printf("MPI_BYTE %.2f us\n", MicrosecondsToSet(MPI_BYTE));
  for (const auto& [name, type] : {std::pair("contiguous", dense), std::pair("vector", vector),
                                   std::pair("3-d subarray", cube), std::pair("hindexed of 1000", scattered)}) {
    const double took = MicrosecondsToSet(type);
    std::printf("%s %.2f us\n", name, took);
    EXPECT_LT(took, 2000) << name;
  }
  for (MPI_Datatype type : {dense, vector, cube, scattered}) MPI_Type_free(&type);
}

}  // namespace
}  // namespace lzy::hooks
