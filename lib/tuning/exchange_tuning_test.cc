#include "tuning/exchange_tuning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine_fixture.h"
#include "fresh_process.h"
#include "tuning/tuning.h"

namespace lzy {
namespace {

using testing::Exists;
using testing::ExpectInFreshProcess;
using testing::Scratch;

const ExchangePlace kPlace{"MPICH 4.0.2", 8, 4, 2};
constexpr ExchangeClass kSmall{ExchangeShape::kEven, 0}, kLarge{ExchangeShape::kEven, 3}, kFew{ExchangeShape::kFew, 1};

ExchangeTimes SomeTimes() {
  ExchangeTimes times;
  EXPECT_TRUE(times.Set(kSmall, {10, 9.8, 30}));
  EXPECT_TRUE(times.Set(kLarge, {5000, 2500.25, 4000}));
  EXPECT_TRUE(times.Set(kFew, {100, 300, 50}));
  return times;
}

TEST(ExchangeStep, IsTheSizeInQuartersOfAnOctaveAndTheShape) {
  const auto of = [](std::vector<std::uint64_t> counts) {
    const ExchangeStep found = ExchangeStepOf(counts);
    return std::pair(found.shape, found.size);
  };
  using enum ExchangeShape;
  EXPECT_EQ(of({1, 1, 1, 1}), std::pair(kEven, std::size_t{0}));
  EXPECT_EQ(of({128, 128, 128, 128}), std::pair(kEven, std::size_t{0})) << "4 KiB";
  EXPECT_EQ(of({128, 128, 255, 128}), std::pair(kEven, std::size_t{0})) << "up to 5 KiB";
  EXPECT_EQ(of({128, 128, 256, 128}), std::pair(kEven, std::size_t{1}));
  EXPECT_EQ(of({2048, 2048, 0, 0}), std::pair(kEven, std::size_t{12})) << "twice the share; 32 KiB";
  EXPECT_EQ(of({0, 4090, 5, 0}), std::pair(kFew, std::size_t{11}));
  EXPECT_EQ(of({1000, 0}), std::pair(kEven, std::size_t{3})) << "two ranks are a pair";
  EXPECT_EQ(of({1u << 30, 0, 0, 0}), std::pair(kFew, std::size_t{44}));
  EXPECT_EQ(of({std::uint64_t{1} << 60, 0, 0, 0}), std::pair(kFew, std::size_t{44}));
  EXPECT_EQ(of({}), std::pair(kEven, std::size_t{0}));
  for (std::size_t i = 0; i < kExchangeSteps; ++i) EXPECT_EQ(ExchangeStep::At(i).index(), i);
  for (std::size_t i = 0; i < kExchangeClasses; ++i) EXPECT_EQ(ExchangeClass::At(i).index(), i);
}

TEST(ExchangeStep, HoldsTheBytesInItsMiddle) {
  EXPECT_EQ((ExchangeStep{ExchangeShape::kEven, 0}.bytes()), 4608u) << "4 to 5 KiB";
  EXPECT_EQ((ExchangeStep{ExchangeShape::kFew, 7}.bytes()), 15360u) << "14 to 16 KiB";
  for (std::size_t size = 0; size < kExchangeSteps / kExchangeShapes; ++size) {
    const std::uint64_t words = ExchangeStep{ExchangeShape::kEven, size}.bytes() / sizeof(std::uint64_t);
    EXPECT_EQ(ExchangeStepOf(std::vector{words}).size, size);
  }
}

TEST(ExchangeTimes, GrowEvenlyWithTheBytesBetweenMeasuredSizes) {
  ExchangeTimes times;
  // As on a simulated network of 200 Gb/s: by MPI, all comes through one link; in a ring, the first piece goes all the way round.
  EXPECT_TRUE(times.Set({ExchangeShape::kFew, 1}, {48.2, 48.2, 65.7}));
  EXPECT_TRUE(times.Set({ExchangeShape::kFew, 2}, {662.6, 662.6, 125.4}));
  EXPECT_EQ(times.Pick(ExchangeShape::kFew, 64u << 10), ExchangeWay::kMpi);
  EXPECT_EQ(times.Pick(ExchangeShape::kFew, 90u << 10), ExchangeWay::kMpi) << "64.9 and 67.3";
  EXPECT_EQ(times.Pick(ExchangeShape::kFew, 110u << 10), ExchangeWay::kRing) << "77.6 and 68.6";
  EXPECT_EQ(times.Pick(ExchangeShape::kFew, 1u << 20), ExchangeWay::kRing);
  EXPECT_EQ(times.Pick(ExchangeShape::kFew, 1u << 30), ExchangeWay::kRing);
  EXPECT_EQ(times.Pick(ExchangeShape::kFew, 63u << 10), ExchangeWay::kMpi) << "nothing as small is measured";
  EXPECT_EQ(times.Pick(ExchangeShape::kEven, 1u << 20), ExchangeWay::kMpi) << "nothing of this shape is measured";
  EXPECT_TRUE(times.Set({ExchangeShape::kFew, 0}, {30, 20, 40}));
  EXPECT_EQ(times.Pick(ExchangeShape::kFew, 8), ExchangeWay::kPairwise) << "as the smallest";
}

TEST(ExchangeTimes, PickMpiUnlessAnotherWayIsClearlyFaster) {
  EXPECT_EQ(ExchangeTimes().Pick(kLarge), ExchangeWay::kMpi) << "nothing is measured";
  const ExchangeTimes times = SomeTimes();
  EXPECT_EQ(times.Pick(kSmall), ExchangeWay::kMpi) << "2 % slower than pairs";
  EXPECT_EQ(times.Pick(kLarge), ExchangeWay::kPairwise);
  EXPECT_EQ(times.Pick(kFew), ExchangeWay::kRing);
}

TEST(ExchangeTimes, PickForAClassThatIsNotMeasuredWhatASmallerOneSays) {
  const ExchangeTimes times = SomeTimes();
  EXPECT_EQ(times.Pick({ExchangeShape::kFew, 3}), ExchangeWay::kRing);
  EXPECT_EQ(times.Pick({ExchangeShape::kFew, 0}), ExchangeWay::kMpi) << "nothing smaller is measured";
  EXPECT_EQ(times.Pick({ExchangeShape::kEven, 2}), ExchangeWay::kPairwise) << "between two that are measured";
}

TEST(ExchangeTimes, RefuseWhatNoClockMeasures) {
  const ExchangeTimes before = SomeTimes();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const ExchangeTimes::Ways& ways : {ExchangeTimes::Ways{0, 1, 1}, ExchangeTimes::Ways{1, -1, 1}, ExchangeTimes::Ways{1, 1, 2e9},
                                          ExchangeTimes::Ways{NAN, 1, 1}, ExchangeTimes::Ways{1, infinity, 1}}) {
    ExchangeTimes times = before;
    EXPECT_FALSE(times.Set(kSmall, ways));
    EXPECT_EQ(times, before);
  }
  ExchangeTimes times;
  EXPECT_FALSE(times.Set({ExchangeShape::kEven, kExchangeBytes.size()}, {1, 1, 1}));
  EXPECT_TRUE(times.empty());
  for (std::size_t i = 0; i < kExchangeClasses; ++i) EXPECT_TRUE(times.Set(ExchangeClass::At(i), {1, 1, 1}));
  EXPECT_TRUE(times.complete());
  EXPECT_FALSE(before.complete());
}

TEST(ExchangeFile, IsReadAsItIsWritten) {
  for (const ExchangeTimes& times : {ExchangeTimes(), SomeTimes()}) {
    const auto read = DecodeExchange(EncodeExchange(kPlace, times));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->place, kPlace);
    EXPECT_EQ(read->times, times);
  }
  const auto read = DecodeExchange(EncodeExchange({"a\nb\xff\"" + std::string(200, 'x'), 1, 1, 1}, {}));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->place.mpi, "a b \"" + std::string(95, 'x'));
}

TEST(ExchangeFile, AcceptsOnlyWhatThisVersionWrites) {
  using Json = nlohmann::json;
  const Json good = Json::parse(EncodeExchange(kPlace, SomeTimes()));
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> edits = {
      {"another schema", [](Json& d) { d["schema"] = "lzy-exchange/2"; }},
      {"another machine", [](Json& d) { d["machine"] = "0123456789abcdef"; }},
      {"no machine", [](Json& d) { d.erase("machine"); }},
      {"an MPI that is no text", [](Json& d) { d["mpi"] = 5; }},
      {"an MPI with control characters", [](Json& d) { d["mpi"] = "\x1b[31m"; }},
      {"a long name of an MPI", [](Json& d) { d["mpi"] = std::string(5000, 'x'); }},
      {"no ranks", [](Json& d) { d.erase("ranks"); }},
      {"ranks below zero", [](Json& d) { d["ranks"] = -8; }},
      {"more nodes than ranks", [](Json& d) { d["nodes"] = 9; }},
      {"half a node", [](Json& d) { d["nodes"] = 0.5; }},
      {"more than is written", [](Json& d) { d["fastest"] = "ring"; }},
      {"classes of another kind", [](Json& d) { d["classes"] = 3; }},
      {"a class twice", [](Json& d) { d["classes"].push_back(d["classes"][0]); }},
      {"classes in another order", [](Json& d) { std::swap(d["classes"][0], d["classes"][1]); }},
      {"a class of another kind", [](Json& d) { d["classes"][0] = nullptr; }},
      {"a size that is not measured", [](Json& d) { d["classes"][0]["bytes"] = 4097; }},
      {"a shape that there is not", [](Json& d) { d["classes"][0]["shape"] = "odd"; }},
      {"a way too many", [](Json& d) { d["classes"][0]["microseconds"]["shared"] = 1.0; }},
      {"a way too few", [](Json& d) { d["classes"][0]["microseconds"].erase("ring"); }},
      {"negative", [](Json& d) { d["classes"][0]["microseconds"]["ring"] = -1; }},
      {"no number", [](Json& d) { d["classes"][0]["microseconds"]["ring"] = "1"; }},
      {"not to be believed", [](Json& d) { d["classes"][0]["microseconds"]["ring"] = 1e300; }},
      {"a pick that does not follow", [](Json& d) { d["classes"][0]["picked"] = "ring"; }},
      {"a pick that is no way", [](Json& d) { d["classes"][0]["picked"] = 7; }},
  };
  for (const auto& [what, edit] : edits) {
    Json document = good;
    edit(document);
    EXPECT_FALSE(DecodeExchange(document.dump()).has_value()) << what;
  }
  ASSERT_TRUE(DecodeExchange(good.dump()).has_value());
  const std::string text = good.dump();
  for (std::size_t cut = 0; cut < text.size(); cut += 7) EXPECT_FALSE(DecodeExchange(text.substr(0, cut)).has_value()) << cut;
  EXPECT_FALSE(DecodeExchange(std::string(60000, '[')).has_value());
  EXPECT_FALSE(DecodeExchange(std::string("\0\xff{", 3)).has_value());
}

bool Put(const ExchangePlace& place, const std::string& text) {
  const std::string path = ExchangeCachePath(place);
  return PosixFileSystem().MakeDirectories(DirectoryOf(path)).ok() && ReplaceFile(PosixFileSystem(), path, text, 0600).ok();
}

TEST(KnownExchange, IsWhatWasKept) {
  ExpectInFreshProcess([](const std::string& cache) {
    if (!RecallExchange(kPlace).times.empty() || RecallExchange(kPlace).done || Exists(cache)) return false;
    KeepExchange(kPlace, SomeTimes());
    const KnownExchange known = RecallExchange(kPlace);
    const auto listed = ListExchange(PosixFileSystem(), cache + "/lzy");
    return known.done && known.times == SomeTimes() && listed.size() == 1 && listed[0].place == kPlace &&
           listed[0].times == SomeTimes() && PosixFileSystem().Stat(ExchangeCachePath(kPlace))->mode == 0600;
  });
}

TEST(KnownExchange, IsReadFromTheFileAndMeasuredFurther) {
  ExpectInFreshProcess([](const std::string&) {
    if (!Put(kPlace, EncodeExchange(kPlace, SomeTimes()))) return false;
    const KnownExchange known = RecallExchange(kPlace);
    return known.times == SomeTimes() && !known.done;
  });
}

// A damaged file, that of another place, a directory: nothing is known, and the next measurement replaces it if it can.
TEST(KnownExchange, IgnoresFilesThatDoNotFit) {
  ExchangePlace other = kPlace;
  other.nodes = 2;
  const std::string right = EncodeExchange(kPlace, SomeTimes());
  for (const std::string& text : {std::string(), std::string("{}"), right.substr(0, 100), EncodeExchange(other, SomeTimes()),
                                  std::string(1 << 20, '['), right + right}) {
    ExpectInFreshProcess([text](const std::string& cache) {
      if (!Put(kPlace, text) || !RecallExchange(kPlace).times.empty()) return false;
      if (!ListExchange(PosixFileSystem(), cache + "/lzy").empty()) return false;
      KeepExchange(kPlace, SomeTimes());
      return ListExchange(PosixFileSystem(), cache + "/lzy").size() == 1;
    });
  }
  ExpectInFreshProcess([](const std::string&) {
    if (!PosixFileSystem().MakeDirectories(ExchangeCachePath(kPlace)).ok()) return false;
    if (!RecallExchange(kPlace).times.empty()) return false;
    KeepExchange(kPlace, SomeTimes());
    return RecallExchange(kPlace).times == SomeTimes();
  });
}

TEST(KnownExchange, IsRememberedWithoutACache) {
  ExpectInFreshProcess([](const std::string&) {
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    KeepExchange(kPlace, SomeTimes());
    return ExchangeCachePath(kPlace).empty() && RecallExchange(kPlace).times == SomeTimes() && RecallExchange(kPlace).done;
  });
}

// A longer commit may have the time.
TEST(KnownExchange, IsNotDoneIfNothingWasMeasured) {
  ExpectInFreshProcess([](const std::string& cache) {
    KeepExchange(kPlace, {});
    return !RecallExchange(kPlace).done && !Exists(cache);
  });
}

}  // namespace
}  // namespace lzy
