#include "tuning/tuning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "engine_fixture.h"
#include "fresh_process.h"
#include "memory_files.h"

namespace lzy {
namespace {

using testing::Exists;
using testing::ExpectInFreshProcess;
using testing::MemoryFileSystem;
using testing::Scratch;

// Each choice's last candidate twice as fast as all others.
Tuning LastIsBest() {
  Tuning tuning;
  for (std::size_t c = 0; c < kTunedCount; ++c) {
    std::vector<double> speeds(TuningChoices()[c].candidates.size(), 10.25);
    speeds.back() = 20.5;
    EXPECT_TRUE(tuning.Pick(static_cast<Tuned>(c), speeds));
  }
  return tuning;
}

TEST(Tuning, HasDefaultsThatAreGoodEverywhere) {
  const Tuning tuning;
  EXPECT_EQ(tuning.gb_per_s(Tuned::kEncode, 0), 0);
  EXPECT_EQ(tuning.encode_piece_bytes(), 64u << 10);
  EXPECT_EQ(tuning.check_buffer_bytes(), 1u << 20);
}

TEST(Tuning, CandidatesAreKnownByTheirSizes) {
  std::set<std::string> choices;
  for (const TuningChoice& choice : TuningChoices()) {
    EXPECT_TRUE(choices.insert(choice.name).second) << choice.name;
    std::set<std::uint32_t> sizes;
    for (const std::uint32_t candidate : choice.candidates) {
      EXPECT_TRUE(sizes.insert(candidate).second) << choice.name << " " << candidate;
      EXPECT_GT(candidate, 0u);
    }
  }
}

TEST(Tuning, PicksTheFastestButKeepsTheDefaultForLittle) {
  Tuning tuning;
  EXPECT_TRUE(tuning.Pick(Tuned::kEncode, std::vector<double>{10, 9, 10.9, 8}));
  EXPECT_EQ(tuning.encode_piece_bytes(), 64u << 10);
  EXPECT_NE(tuning, Tuning());
  EXPECT_TRUE(tuning.Pick(Tuned::kEncode, std::vector<double>{10, 9, 11.1, 11.2}));
  EXPECT_EQ(tuning.encode_piece_bytes(), 256u << 10);
  EXPECT_EQ(tuning.gb_per_s(Tuned::kEncode, 2), 11.1);
  EXPECT_TRUE(tuning.Pick(Tuned::kEncode, std::vector<double>{10, 9.126, 11.1, 11.2}));
  EXPECT_EQ(tuning.gb_per_s(Tuned::kEncode, 1), 9.13);
  EXPECT_TRUE(tuning.Pick(Tuned::kEncode, std::vector<double>{0, 9, 11.1, 11.2}));  // the default was not measured
  EXPECT_EQ(tuning.encode_piece_bytes(), 64u << 10);
}

TEST(Tuning, RefusesSpeedsThatAreNone) {
  const Tuning before = LastIsBest();
  for (const std::vector<double>& speeds : std::vector<std::vector<double>>{
           {}, {1, 2, 3}, {1, 2, 3, 4, 5}, {1, 2, 3, -1}, {1, 2, 3, 1e5}, {1, 2, NAN, 4}, {INFINITY, 2, 3, 4}}) {
    Tuning tuning = before;
    EXPECT_FALSE(tuning.Pick(Tuned::kEncode, speeds));
    EXPECT_EQ(tuning, before);
  }
}

TEST(Tuning, CalibrationMeasuresEveryCandidate) {
  const Tuning tuning = Calibrate(0);
  Tuning again;
  for (std::size_t c = 0; c < kTunedCount; ++c) {
    const auto what = static_cast<Tuned>(c);
    std::vector<double> speeds;
    for (std::size_t i = 0; i < TuningChoices()[c].candidates.size(); ++i) speeds.push_back(tuning.gb_per_s(what, i));
    for (const double speed : speeds) EXPECT_GT(speed, 0) << TuningChoices()[c].name;
    EXPECT_TRUE(again.Pick(what, speeds));
  }
  EXPECT_EQ(again, tuning);
}

TEST(TuningCache, KeepsSpeedsAndPicks) {
  const Tuning tuning = LastIsBest();
  const auto read = DecodeTuning(EncodeTuning(tuning));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, tuning);
}

TEST(TuningCache, AcceptsOnlySpeedsOfKnownCandidates) {
  using Json = nlohmann::json;
  const Json good = Json::parse(EncodeTuning(LastIsBest()));
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> edits = {
      {"another schema", [](Json& d) { d["schema"] = "lzy-tuning/1"; }},
      {"another machine", [](Json& d) { d["machine"] = "0123456789abcdef"; }},
      {"no machine", [](Json& d) { d.erase("machine"); }},
      {"no choices", [](Json& d) { d.erase("choices"); }},
      {"choices of another kind", [](Json& d) { d["choices"] = "many"; }},
      {"a choice less", [](Json& d) { d["choices"].erase(0); }},
      {"a choice more", [](Json& d) { d["choices"].push_back(d["choices"][0]); }},
      {"choices in another order", [](Json& d) { std::swap(d["choices"][0], d["choices"][1]); }},
      {"a choice of another kind", [](Json& d) { d["choices"][0] = 5; }},
      {"a candidate less", [](Json& d) { d["choices"][0]["candidates"].erase(0); }},
      {"a candidate of another kind", [](Json& d) { d["choices"][0]["candidates"][0] = nullptr; }},
      {"unknown bytes", [](Json& d) { d["choices"][1]["candidates"][0]["bytes"] = 1u << 31; }},
      {"no bytes", [](Json& d) { d["choices"][1]["candidates"][0]["bytes"] = 0; }},
      {"more than is written", [](Json& d) { d["choices"][0]["candidates"][0]["past_cache"] = true; }},
      {"a pick that does not follow", [](Json& d) { d["choices"][0]["candidates"][0]["picked"] = true; }},
      {"negative", [](Json& d) { d["choices"][0]["candidates"][0]["gb_per_s"] = -1; }},
      {"not to be believed", [](Json& d) { d["choices"][0]["candidates"][0]["gb_per_s"] = 1e300; }},
      {"no number", [](Json& d) { d["choices"][0]["candidates"][0]["gb_per_s"] = "10"; }},
      {"no speed", [](Json& d) { d["choices"][0]["candidates"][0].erase("gb_per_s"); }},
  };
  for (const auto& [what, edit] : edits) {
    Json document = good;
    edit(document);
    EXPECT_FALSE(DecodeTuning(document.dump()).has_value()) << what;
  }
  EXPECT_FALSE(DecodeTuning("").has_value());
  EXPECT_FALSE(DecodeTuning("[]").has_value());
  EXPECT_FALSE(DecodeTuning(good.dump().substr(0, 300)).has_value());
  EXPECT_FALSE(DecodeTuning(std::string(60000, '[')).has_value());
  EXPECT_FALSE(DecodeTuning(std::string("\0\xff{", 3)).has_value());
}

// What libFuzzer found: the parser needs time quadratic in the depth.
TEST(TuningCache, DeepNestingIsRefusedInLittleTime) {
  for (const char* bracket : {"[", "{\"a\":"}) {
    std::string text = "{\"schema\":";
    while (text.size() < 65'000) text += bracket;
    for (int again = 0; again < 20; ++again) EXPECT_FALSE(DecodeTuning(text));
  }
}

TEST(TuningCache, IsInTheCacheDirectoryOfTheUser) {
  const auto path = [](std::map<std::string, const char*> variables) {
    return TuningCachePath([&](const char* name) { return variables.contains(name) ? variables[name] : nullptr; });
  };
  const std::string home = path({{"HOME", "/h/u"}});
  EXPECT_TRUE(home.starts_with("/h/u/.cache/lzy/tuning-")) << home;
  EXPECT_TRUE(home.ends_with(".json")) << home;
  EXPECT_EQ(path({{"HOME", "/h/u"}, {"XDG_CACHE_HOME", "/x"}}), "/x/lzy/" + home.substr(home.rfind('/') + 1));
  EXPECT_EQ(path({{"HOME", "/h/u"}, {"XDG_CACHE_HOME", "relative"}}), home);
  EXPECT_EQ(path({{"HOME", ""}, {"XDG_CACHE_HOME", ""}}), "");
  EXPECT_EQ(path({}), "");
}

TEST(TuningCache, IsReplacedAsAWholeAndReadableOnlyByTheUser) {
  const Scratch scratch;
  const std::string path = scratch / "not/yet/there.json";
  FileSystem& fs = PosixFileSystem();
  EXPECT_FALSE(LoadTuning(fs, path).has_value());
  for (const Tuning& tuning : {Tuning(), LastIsBest()}) {
    const Status stored = StoreTuning(fs, path, tuning);
    ASSERT_TRUE(stored.ok()) << stored.message();
    EXPECT_EQ(LoadTuning(fs, path), tuning);
    EXPECT_EQ(fs.Stat(path)->mode, 0600u);
    EXPECT_EQ(fs.List(scratch / "not/yet")->size(), 1u);
  }
}

TEST(TuningCache, FailsWithoutLeavingAnything) {
  const Scratch scratch;
  FileSystem& fs = PosixFileSystem();
  EXPECT_FALSE(StoreTuning(fs, "", Tuning()).ok());
  EXPECT_FALSE(LoadTuning(fs, "").has_value());
  ASSERT_TRUE(StoreTuning(fs, scratch / "file", Tuning()).ok());
  EXPECT_FALSE(StoreTuning(fs, scratch / "file/below", Tuning()).ok());
  EXPECT_FALSE(LoadTuning(fs, scratch.path()).has_value());  // a directory

  for (const auto op : {MemoryFileSystem::Op::kWrite, MemoryFileSystem::Op::kRename}) {
    MemoryFileSystem memory;
    memory.fault = [&](MemoryFileSystem::Op now, const std::string&, std::uint64_t, std::uint64_t) {
      return now == op ? Status(Code::kIo, "full") : Status::Ok();
    };
    EXPECT_FALSE(StoreTuning(memory, "cache/tuning.json", Tuning()).ok());
    EXPECT_TRUE(memory.nodes().empty());
  }
}

TEST(CurrentTuning, IsTheDefaultsAndMeasuresNothingByItself) {
  ExpectInFreshProcess([](const std::string& cache) {
    std::vector<const Tuning*> seen(8);
    std::vector<std::thread> threads;
    for (const Tuning*& one : seen) threads.emplace_back([&one] { one = &CurrentTuning(); });
    for (std::thread& thread : threads) thread.join();
    for (const Tuning* one : seen) {
      if (one != &CurrentTuning()) return false;
    }
    TuneForWork(1 << 20);  // little work
    return CurrentTuning() == Tuning() && !Exists(cache);
  });
}

TEST(CurrentTuning, IsMeasuredAndKeptForLargeWork) {
  ExpectInFreshProcess([](const std::string&) {
    const Tuning& before = CurrentTuning();
    TuneForWork(std::uint64_t{1} << 30);
    const Tuning& measured = CurrentTuning();
    TuneForWork(std::uint64_t{1} << 30);
    const auto kept = LoadTuning(PosixFileSystem(), TuningCachePath());
    return before == Tuning() && measured != Tuning() && &CurrentTuning() == &measured && kept.has_value() &&
           *kept != Tuning();
  });
}

TEST(CurrentTuning, IsLoadedFromTheCache) {
  ExpectInFreshProcess([](const std::string&) {
    const bool stored = StoreTuning(PosixFileSystem(), TuningCachePath(), LastIsBest()).ok();
    TuneForWork(std::uint64_t{1} << 30);  // nothing is left to measure
    return stored && CurrentTuning() == LastIsBest();
  });
}

TEST(CurrentTuning, WorksWithoutACache) {
  ExpectInFreshProcess([](const std::string& cache) {
    const bool in_the_way = StoreTuning(PosixFileSystem(), cache, Tuning()).ok();  // a file, not a directory
    TuneForWork(std::uint64_t{1} << 30);
    return in_the_way && CurrentTuning() != Tuning();
  });
}

}  // namespace
}  // namespace lzy
