#include "catalog/catalog.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catalog/event_objects.h"
#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr std::int64_t kDay = 86'400'000'000'000;

DatasetReport Report(const std::string& path, DatasetState state = DatasetState::kIntact, const std::string& uuid = "u-1") {
  DatasetReport report(path, DatasetKind::kShared);
  report.state = state;
  report.uuid = uuid;
  report.generation = 5;
  report.bytes = 1000;
  report.commit_time_ns = kDay;
  return report;
}

Damage Bad(const std::string& path, std::uint64_t offset, std::uint64_t length) {
  return {.path = path, .device = 3, .offset = offset, .length = length};
}

class CatalogTest : public ::testing::Test {
 protected:
  CatalogTest() {
    std::string name = (std::filesystem::temp_directory_path() / "lzy-catalog-XXXXXX").string();
    scratch_ = mkdtemp(name.data());
    file_ = scratch_ + "/state/lzy/catalog.sqlite";
  }
  ~CatalogTest() override { std::filesystem::remove_all(scratch_); }

  Catalog Open() {
    auto catalog = Catalog::Open(file_, DatabaseMode::kWrite);
    EXPECT_OK(catalog.status());
    return std::move(*catalog);
  }
  std::vector<Damage> Note(Catalog& catalog, const DatasetReport& report, std::int64_t now,
                           CatalogNote::Read read = CatalogNote::Read::kWhole) {
    auto fresh = catalog.Note({{CatalogNote{.tool = "lzy-test", .path = report.path, .now = now, .read = read}, report}});
    EXPECT_OK(fresh.status());
    return fresh.ok() ? fresh->front().damage : std::vector<Damage>();
  }
  CatalogDataset Get(Catalog& catalog, const std::string& path) {
    auto found = catalog.Find(path);
    EXPECT_OK(found.status());
    return found.ok() && *found ? **found : CatalogDataset();
  }
  std::vector<std::string> Happened(Catalog& catalog) {
    std::vector<std::string> out;
    const auto events = catalog.Events();
    EXPECT_OK(events.status());
    for (const CatalogEvent& event : *events) out.push_back(event.what + (event.ended != 0 ? ":" + event.outcome : ""));
    return out;
  }

  std::string scratch_, file_;
};

TEST_F(CatalogTest, KeepsWhatWasNotedForTheUserAlone) {
  {
    Catalog catalog = Open();
    EXPECT_THAT(Note(catalog, Report("/d/a"), 7 * kDay), IsEmpty());
  }
  struct stat about {};
  ASSERT_EQ(stat(file_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0077, 0u);
  Catalog catalog = Open();
  const CatalogDataset a = Get(catalog, "/d/a");
  EXPECT_EQ(a.state, "intact");
  EXPECT_EQ(a.bytes, 1000u);
  EXPECT_EQ(a.first_seen, 7 * kDay);
  EXPECT_EQ(a.last_verified, 7 * kDay);
  EXPECT_EQ(a.last_commit, kDay);
}

// In the order of bytes, some of these paths are just before or behind those that begin with the prefix.
TEST_F(CatalogTest, FindsFilesThatBeginWithAPrefix) {
  Catalog catalog = Open();
  for (const char* path : {"/d/ck", "/d/ck.0", "/d/ck.1", "/d/ck.\xff\xff", "/d/ck/0", "/d/cl"}) {
    DatasetReport file = Report(path);
    file.uuid = path;
    EXPECT_THAT(Note(catalog, file, kDay), IsEmpty());
  }
  DatasetReport set = Report("/d/ck.%r");
  set.kind = DatasetKind::kSet;
  set.uuid = "of the set";
  EXPECT_THAT(Note(catalog, set, kDay), IsEmpty());
  ASSERT_OK(catalog.NoteLosses("lzy-test", 2 * kDay, {{Get(catalog, "/d/ck.1").id, CatalogLoss::Kind::kWanted, "deleted on purpose"}}));
  const auto found = catalog.FilesBeginningWith("/d/ck.");
  ASSERT_OK(found.status());
  EXPECT_THAT(*found, ElementsAre(Pair("/d/ck.0", Get(catalog, "/d/ck.0").id), Pair("/d/ck.\xff\xff", Get(catalog, "/d/ck.\xff\xff").id)));
  EXPECT_FALSE(catalog.FilesBeginningWith("").ok());
}

// Of a set that is seen in part, only what is seen is noted.
TEST_F(CatalogTest, WhatIsNotVisibleChangesNothing) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/s.%r", DatasetState::kDamaged);
  report.damage = {Bad("/d/s.2", 4096, 4096)};
  EXPECT_THAT(Note(catalog, report, kDay), SizeIs(1));
  report.damage[0] = {.path = "/d/s.2", .length = 1000, .cause = DamageCause::kNotVisible};
  report.not_visible = {{2, "/d/s.2", "n2"}};
  report.state = DatasetState::kUnprotected;
  EXPECT_THAT(Note(catalog, report, 2 * kDay), IsEmpty());
  EXPECT_EQ(Get(catalog, "/d/s.%r").state, "damaged");
  EXPECT_EQ(Get(catalog, "/d/s.%r").last_verified, kDay);
  EXPECT_THAT(Happened(catalog), ElementsAre("damage"));
  report.damage.push_back(Bad("/d/s.0", 0, 4096));
  report.state = DatasetState::kDamaged;
  EXPECT_THAT(Note(catalog, report, 3 * kDay), SizeIs(1));
  EXPECT_EQ(Get(catalog, "/d/s.%r").last_verified, kDay);
  EXPECT_THAT(Happened(catalog), ElementsAre("damage", "damage"));
}

TEST_F(CatalogTest, DamageIsNewOnceAndEndsWhenItIsRepaired) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/a", DatasetState::kDamaged);
  report.damage = {Bad("/d/a", 4096, 4096)};
  EXPECT_THAT(Note(catalog, report, kDay), SizeIs(1));
  EXPECT_THAT(Note(catalog, report, 2 * kDay), IsEmpty());
  // The damage grew. Only the new part is reported.
  report.damage = {Bad("/d/a", 0, 12288)};
  const auto fresh = Note(catalog, report, 3 * kDay);
  ASSERT_THAT(fresh, SizeIs(2));
  EXPECT_EQ(fresh[0].offset, 0u);
  EXPECT_EQ(fresh[0].length, 4096u);
  EXPECT_EQ(fresh[1].offset, 8192u);
  EXPECT_EQ(Get(catalog, "/d/a").exit_code, 1);
  report.state = DatasetState::kRestored;
  report.damage[0].repaired = true;
  EXPECT_THAT(Note(catalog, report, 4 * kDay), IsEmpty());
  EXPECT_THAT(Happened(catalog), ElementsAre("damage:repaired", "damage:repaired", "damage:repaired"));
  EXPECT_EQ(Get(catalog, "/d/a").state, "intact");
}

TEST_F(CatalogTest, DamageThatIsNotFoundAgainEndsOnlyIfAllWasRead) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/a", DatasetState::kDamaged);
  report.damage = {Bad("/d/a", 4096, 4096)};
  EXPECT_THAT(Note(catalog, report, kDay), SizeIs(1));
  DatasetReport part = Report("/d/a");
  part.portion = {10, 20, 40};
  EXPECT_THAT(Note(catalog, part, 2 * kDay, CatalogNote::Read::kPart), IsEmpty());
  EXPECT_EQ(Get(catalog, "/d/a").state, "damaged");
  EXPECT_EQ(Get(catalog, "/d/a").exit_code, 1);
  EXPECT_THAT(Note(catalog, Report("/d/a"), 3 * kDay), IsEmpty());
  EXPECT_THAT(Happened(catalog), ElementsAre("damage:not found again"));
  EXPECT_EQ(Get(catalog, "/d/a").state, "intact");
}

TEST_F(CatalogTest, EditsAndTransientReadingsAreNoDamage) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/a", DatasetState::kStale);
  report.damage = {Bad("/d/a", 0, 10), Bad("/d/a", 20, 10)};
  report.damage[0].cause = DamageCause::kStale;
  report.damage[1].transient = report.damage[1].repaired = true;
  EXPECT_THAT(Note(catalog, report, kDay), IsEmpty());
  EXPECT_THAT(Happened(catalog), ElementsAre("transient:read right again"));
  EXPECT_EQ(Get(catalog, "/d/a").state, "stale");
}

TEST_F(CatalogTest, APassThatIsCompleteCountsFromItsBeginning) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/a");
  report.portion = {0, 10, 30};
  Note(catalog, report, kDay, CatalogNote::Read::kPart);
  report.portion = {10, 25, 30};
  Note(catalog, report, 2 * kDay, CatalogNote::Read::kPart);
  CatalogDataset a = Get(catalog, "/d/a");
  EXPECT_EQ(a.last_verified, 0);
  EXPECT_EQ(a.pass_rows, 25u);
  EXPECT_EQ(a.rows, 30u);
  report.portion = {25, 30, 30};
  Note(catalog, report, 3 * kDay, CatalogNote::Read::kPart);
  a = Get(catalog, "/d/a");
  EXPECT_EQ(a.last_verified, kDay);
  EXPECT_EQ(a.pass_rows, 0u);
  // The end of a pass with unknown beginning does not count.
  Note(catalog, report, 9 * kDay, CatalogNote::Read::kPart);
  EXPECT_EQ(Get(catalog, "/d/a").last_verified, kDay);
}

TEST_F(CatalogTest, ANewEncodingAndABackupHaveNotBeenRead) {
  Catalog catalog = Open();
  Note(catalog, Report("/d/a"), kDay);
  DatasetReport backup = Report("/d/a");
  backup.generation = 4;
  Note(catalog, backup, 2 * kDay, CatalogNote::Read::kNothing);
  EXPECT_EQ(Get(catalog, "/d/a").last_verified, 0);
  Note(catalog, backup, 3 * kDay);
  Note(catalog, Report("/d/a", DatasetState::kIntact, "u-2"), 4 * kDay, CatalogNote::Read::kNothing);
  EXPECT_EQ(Get(catalog, "/d/a").last_verified, 0);
  EXPECT_THAT(Happened(catalog), ElementsAre("replaced", "replaced"));
}

TEST_F(CatalogTest, ARenamedFileKeepsItsHistoryAndACopyGetsItsOwn) {
  Catalog catalog = Open();
  const std::string here = scratch_ + "/here", there = scratch_ + "/there", copy = scratch_ + "/copy";
  std::ofstream(here) << "x";
  Note(catalog, Report(here), kDay);
  std::ofstream(copy) << "x";
  Note(catalog, Report(copy), 2 * kDay, CatalogNote::Read::kNothing);
  EXPECT_EQ(Get(catalog, copy).last_verified, 0);
  std::filesystem::rename(here, there);
  Note(catalog, Report(there), 3 * kDay, CatalogNote::Read::kNothing);
  EXPECT_EQ(Get(catalog, there).last_verified, kDay);
  EXPECT_EQ(Get(catalog, here).id, 0);
}

TEST_F(CatalogTest, ADirectoryIsNotItsNeighboursOfTheSameBeginning) {
  Catalog catalog = Open();
  for (const char* path : {"/d/a", "/d/b", "/d0", "/dd/a"}) Note(catalog, Report(path, DatasetState::kIntact, path), kDay);
  const auto below = catalog.Datasets("/d");
  ASSERT_OK(below.status());
  ASSERT_THAT(*below, SizeIs(2));
}

class CatalogLosses : public CatalogTest {
 protected:
  CatalogLosses() : catalog_(Open()) {
    for (const char* path : {"/d/a", "/d/b", "/e/a"}) Note(catalog_, Report(path, DatasetState::kIntact, path), kDay);
  }
  void Lose(const std::string& path, CatalogLoss::Kind kind, std::int64_t now, const std::string& why = "") {
    EXPECT_OK(catalog_.NoteLosses("lzy-test", now, {{Get(catalog_, path).id, kind, why}}));
  }
  std::vector<std::string> Open(const std::string& directory) {
    const auto open = catalog_.OpenLosses(directory);
    EXPECT_OK(open.status());
    std::vector<std::string> out;
    for (const CatalogEvent& event : *open) out.push_back(event.dataset_path + ":" + event.what);
    return out;
  }
  using CatalogTest::Open;
  Catalog catalog_;
};

TEST_F(CatalogLosses, LastUntilSomebodyAcknowledgesThem) {
  Lose("/d/a", CatalogLoss::Kind::kVanished, 2 * kDay);
  Lose("/e/a", CatalogLoss::Kind::kUnprotected, 2 * kDay);
  EXPECT_EQ(Get(catalog_, "/d/a").state, "vanished");
  EXPECT_EQ(Get(catalog_, "/d/a").exit_code, 4);
  EXPECT_THAT(Open(""), ElementsAre("/d/a:vanished", "/e/a:unprotected"));
  EXPECT_THAT(Open("/d"), ElementsAre("/d/a:vanished"));
  const auto ended = catalog_.Acknowledge("lzy-test", 3 * kDay, [](const CatalogEvent& event) { return event.dataset_path == "/d/a"; });
  ASSERT_OK(ended.status());
  EXPECT_EQ(*ended, 1u);
  EXPECT_THAT(Open(""), ElementsAre("/e/a:unprotected"));
  EXPECT_EQ(Get(catalog_, "/d/a").state, "gone");
  EXPECT_EQ(Get(catalog_, "/d/a").exit_code, 0);
}

TEST_F(CatalogLosses, EndWhenTheDatasetIsProtectedAgain) {
  Lose("/d/a", CatalogLoss::Kind::kVanished, 2 * kDay);
  Lose("/d/b", CatalogLoss::Kind::kUnprotected, 2 * kDay);
  Note(catalog_, Report("/d/a", DatasetState::kIntact, "/d/a"), 3 * kDay);
  EXPECT_THAT(Open(""), ElementsAre("/d/b:unprotected"));
  EXPECT_EQ(Get(catalog_, "/d/a").state, "intact");
  // Seen, but not read: the present content may be anything.
  Lose("/d/b", CatalogLoss::Kind::kBack, 4 * kDay);
  EXPECT_THAT(Open(""), IsEmpty());
  EXPECT_EQ(Get(catalog_, "/d/b").state, "intact");
  EXPECT_EQ(Get(catalog_, "/d/b").last_verified, 0);
}

TEST_F(CatalogLosses, AWantedOneIsNoneAndTakesItsDamageAlong) {
  DatasetReport report = Report("/d/a", DatasetState::kDamaged, "/d/a");
  report.damage = {Bad("/d/a", 0, 10)};
  Note(catalog_, report, 2 * kDay);
  Lose("/d/a", CatalogLoss::Kind::kWanted, 3 * kDay, "deleted on purpose");
  EXPECT_THAT(Open(""), IsEmpty());
  EXPECT_EQ(Get(catalog_, "/d/a").state, "gone");
  EXPECT_THAT(Happened(catalog_), ElementsAre("damage:dataset is gone", "gone:deleted on purpose"));
}

TEST_F(CatalogLosses, WhatIsFoundUnderAnotherNameIsNoneAnyMore) {
  Lose("/d/a", CatalogLoss::Kind::kVanished, 2 * kDay);
  Note(catalog_, Report("/d/moved", DatasetState::kIntact, "/d/a"), 3 * kDay);
  EXPECT_THAT(Open(""), IsEmpty());
  EXPECT_EQ(Get(catalog_, "/d/moved").state, "intact");
}

TEST(IsOfCatalog, TheFileAndWhatLiesBesideIt) {
  for (const char* name : {"c.sqlite", "c.sqlite-wal", "c.sqlite-shm", "c.sqlite-journal", "c.sqlite.deleted", "c.sqlite.deleted.old"}) {
    EXPECT_TRUE(IsOfCatalog(std::string("/tmp/../tmp/") + name, "/tmp/c.sqlite")) << name;
  }
  EXPECT_FALSE(IsOfCatalog("/tmp/c.sqlite-data", "/tmp/c.sqlite"));
  EXPECT_FALSE(IsOfCatalog("/usr/c.sqlite", "/tmp/c.sqlite"));
  EXPECT_FALSE(IsOfCatalog("/tmp/c.sqlite", ""));
}

TEST_F(CatalogTest, WorseIsToldOnce) {
  Catalog catalog = Open();
  const auto worse = [&](DatasetReport report, std::int64_t now) {
    const auto news = catalog.Note({{CatalogNote{.tool = "lzy-test", .path = "/d/a", .now = now}, report}});
    EXPECT_OK(news.status());
    return news->front().worse;
  };
  EXPECT_FALSE(worse(Report("/d/a"), 1));
  EXPECT_FALSE(worse(Report("/d/a", DatasetState::kDamaged), 2));
  EXPECT_TRUE(worse(Report("/d/a", DatasetState::kUnrepairable), 3));
  EXPECT_FALSE(worse(Report("/d/a", DatasetState::kUnrepairable), 4));
  DatasetReport lost = Report("/d/a", DatasetState::kUnprotected, "");
  lost.status = Status(Code::kUnprotected, "its metadata are destroyed");
  EXPECT_TRUE(worse(lost, 5));
  EXPECT_FALSE(worse(lost, 6));
}

TEST_F(CatalogTest, DamageLastsIfNothingCouldBeCompared) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/a", DatasetState::kDamaged);
  report.damage = {Bad("/d/a", 4096, 4096)};
  EXPECT_THAT(Note(catalog, report, kDay), SizeIs(1));
  DatasetReport ruined = Report("/d/a", DatasetState::kUnprotected, "");
  ruined.status = Status(Code::kUnprotected, "its metadata are destroyed");
  EXPECT_THAT(Note(catalog, ruined, 2 * kDay), IsEmpty());
  EXPECT_THAT(Happened(catalog), ElementsAre("damage"));
}

TEST_F(CatalogTest, FailuresThatSayNothingChangeNothing) {
  Catalog catalog = Open();
  Note(catalog, Report("/d/a"), kDay);
  DatasetReport failed = Report("/d/a", DatasetState::kUnprotected, "");
  failed.status = Status(Code::kIo, "no permission");
  Note(catalog, failed, 2 * kDay);
  EXPECT_EQ(Get(catalog, "/d/a").state, "intact");
  DatasetReport stranger = Report("/d/b", DatasetState::kUnprotected, "");
  stranger.status = Status(Code::kUnprotected, "no sidecar");
  Note(catalog, stranger, 2 * kDay);
  EXPECT_EQ(Get(catalog, "/d/b").id, 0);
}

TEST_F(CatalogTest, RemovalOfWhatIsNotKnownKeepsTheOtherNotes) {
  Catalog catalog = Open();
  const CatalogNote removed{.tool = "lzy-test", .path = "/d/b", .now = kDay, .removed = true};
  const CatalogNote verified{.tool = "lzy-test", .path = "/d/a", .now = kDay};
  EXPECT_OK(catalog.Note({{verified, Report("/d/a")}, {removed, Report("/d/b", DatasetState::kIntact, "other")}}).status());
  EXPECT_EQ(Get(catalog, "/d/a").state, "intact");
  EXPECT_EQ(Get(catalog, "/d/b").id, 0);
}

TEST_F(CatalogTest, NamesWithAnyBytesComeBack) {
  Catalog catalog = Open();
  const std::string odd = "/d/\xff\x01'\"%_\n<b>";
  Note(catalog, Report(odd), kDay);
  EXPECT_EQ(Get(catalog, odd).path, odd);
}

TEST_F(CatalogTest, FilesThatAreNoCatalogueAreRefusedAndLeftAlone) {
  std::filesystem::create_directories(scratch_ + "/state/lzy");
  std::ofstream(file_) << "this is no SQLite file, and it is longer than a header of one would be, which has 100 bytes ......";
  auto opened = Catalog::Open(file_, DatabaseMode::kWrite);
  EXPECT_EQ(opened.status().code(), Code::kCorrupt);
  EXPECT_THAT(opened.status().message(), HasSubstr("lzy-status --rescan"));
  EXPECT_EQ(std::filesystem::file_size(file_), 98u);

  std::filesystem::remove(file_);
  {
    auto other = Database::Open(file_, DatabaseMode::kWrite);
    ASSERT_OK(other.status());
    ASSERT_OK(other->Execute("CREATE TABLE recipes (name TEXT)"));
  }
  EXPECT_EQ(Catalog::Open(file_, DatabaseMode::kWrite).status().code(), Code::kCorrupt);
}

DamagedObject Chunk(const std::string& name, std::uint64_t number) {
  return {.format = "hdf5", .name = name, .kind = "raw", .chunk = {{number, 0}}, .elements = {{{number, 0}, {number, 9}}}, .chunks = 1};
}

TEST_F(CatalogTest, ObjectsOfDamageAreKept) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/a", DatasetState::kDamaged);
  report.damage = {Bad("/d/a", 0, 4096), Bad("/d/a", 8192, 4096)};
  report.damage[0].objects = {Chunk("/fields/\"T'\n", 3), {.format = "hdf5", .name = "/", .kind = "metadata"}};
  report.damage[0].objects_left_off = 2;
  Note(catalog, report, kDay);
  auto events = catalog.OpenDamage();
  ASSERT_OK(events.status());
  ASSERT_THAT(*events, SizeIs(2));
  EXPECT_EQ((*events)[0].objects, report.damage[0].objects);
  EXPECT_EQ((*events)[0].objects_left_off, 2u);
  EXPECT_THAT((*events)[1].objects, IsEmpty());
  // Objects that were not known at first are added; none is replaced.
  const auto first = report.damage[0].objects;
  report.damage[0].objects = {Chunk("/other", 1)};
  report.damage[1].objects = {Chunk("/late", 2)};
  EXPECT_THAT(Note(catalog, report, 2 * kDay), IsEmpty());
  events = catalog.OpenDamage();
  EXPECT_EQ((*events)[0].objects, first);
  EXPECT_EQ((*events)[1].objects, report.damage[1].objects);
}

TEST_F(CatalogTest, OfVeryManyObjectsAFewAreKept) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/a", DatasetState::kDamaged);
  report.damage = {Bad("/d/a", 0, 4096)};
  for (std::uint64_t i = 0; i < 64; ++i) report.damage[0].objects.push_back(Chunk("/x" + std::to_string(i), i));
  report.damage[0].objects[1].name = std::string(100'000, 'n');
  report.damage[0].objects[2].name = "/\xff\xfe";
  report.damage[0].objects_left_off = 1000;
  Note(catalog, report, kDay);
  const auto events = catalog.Events();
  ASSERT_OK(events.status());
  const CatalogEvent& event = events->front();
  ASSERT_THAT(event.objects, SizeIs(kMostEventObjects));
  EXPECT_EQ(event.objects_left_off, 1000 + 64 - kMostEventObjects);
  EXPECT_EQ(event.objects[0], report.damage[0].objects[0]);
  EXPECT_EQ(event.objects[1].name, "/\xef\xbf\xbd\xef\xbf\xbd");  // bytes that are not UTF-8 are replaced
  EXPECT_EQ(event.objects[2], report.damage[0].objects[3]);
  auto raw = Database::Open(file_, DatabaseMode::kRead);
  ASSERT_OK(raw.status());
  EXPECT_LE(*raw->Integer("SELECT max(length(objects)) FROM events"), static_cast<std::int64_t>(kMostEventObjectBytes));
}

TEST_F(CatalogTest, ObjectsThatLzyDoesNotWriteAreLeftOut) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/a", DatasetState::kDamaged);
  report.damage = {Bad("/d/a", 0, 4096)};
  Note(catalog, report, kDay);
  const std::string one = R"({"format":"hdf5","name":"/T","kind":"raw","chunk":null,"elements":null})";
  std::string many;
  for (int i = 0; i < 100; ++i) many += (i == 0 ? "" : ",") + one;
  const std::pair<std::string, std::size_t> texts[] = {
      {"", 0}, {"{", 0}, {"[]", 0}, {"7", 0}, {"{\"objects\":7}", 0}, {"{\"objects\":[7,[],{}],\"left_off\":-1}", 0},
      {std::string(8000, '['), 0}, {std::string(1'000'000, '['), 0}, {"{\"objects\":" + std::string(8000, '[') + "}", 0},
      {"{\"objects\":[" + one + ",{\"name\":7}," + one + "],\"left_off\":1e400}", 0},  // no number
      {"{\"objects\":[" + one + ",{\"name\":7}," + one + "],\"left_off\":\"x\"}", 2},
      {"{\"objects\":[" + many + "]}", kMostEventObjects}, {"{\"objects\":[" + many + "," + many + "]}", 0},
  };
  for (const auto& [text, expected] : texts) {
    {
      auto raw = Database::Open(file_, DatabaseMode::kWrite);
      ASSERT_OK(raw.status());
      auto update = raw->Prepare("UPDATE events SET objects = ?");
      ASSERT_OK(update.status());
      ASSERT_OK(update->Bind(text).Run());
    }
    const auto events = catalog.OpenDamage();
    ASSERT_OK(events.status());
    EXPECT_THAT(events->front().objects, SizeIs(expected)) << text.substr(0, 200);
    EXPECT_EQ(events->front().objects_left_off, 0u) << text.substr(0, 200);
  }
  auto raw = Database::Open(file_, DatabaseMode::kWrite);
  ASSERT_OK(raw.status());
  ASSERT_OK(raw->Execute("UPDATE events SET objects = x'00ff7b22'"));
  EXPECT_THAT(catalog.OpenDamage()->front().objects, IsEmpty());
}

TEST_F(CatalogTest, AFormWithoutObjectsIsReadAndUpdated) {
  {
    Catalog catalog = Open();
    DatasetReport report = Report("/d/a", DatasetState::kDamaged);
    report.damage = {Bad("/d/a", 0, 4096)};
    Note(catalog, report, kDay);
  }
  {
    auto raw = Database::Open(file_, DatabaseMode::kWrite);
    ASSERT_OK(raw.status());
    ASSERT_OK(raw->Execute("ALTER TABLE datasets DROP COLUMN next; ALTER TABLE datasets DROP COLUMN waits; "
                           "ALTER TABLE events DROP COLUMN objects; PRAGMA user_version = 1"));
  }
  {
    auto old = Catalog::Open(file_, DatabaseMode::kRead);
    ASSERT_OK(old.status());
    const auto events = old->Events();
    ASSERT_OK(events.status());
    ASSERT_THAT(*events, SizeIs(1));
    EXPECT_THAT(events->front().objects, IsEmpty());
    ASSERT_OK(old->OpenDamage().status());
    ASSERT_OK(old->LastRun("lzy-scrub").status());
  }
  Catalog catalog = Open();
  auto raw = Database::Open(file_, DatabaseMode::kRead);
  ASSERT_OK(raw.status());
  EXPECT_EQ(*raw->Integer("PRAGMA user_version"), Catalog::Version());
  DatasetReport report = Report("/d/a", DatasetState::kDamaged);
  report.damage = {Bad("/d/a", 0, 4096)};
  report.damage[0].objects = {Chunk("/T", 3)};
  EXPECT_THAT(Note(catalog, report, 2 * kDay), IsEmpty());
  EXPECT_EQ(catalog.OpenDamage()->front().objects, report.damage[0].objects);
  EXPECT_EQ(Get(catalog, "/d/a").first_seen, kDay);
}

TEST_F(CatalogTest, AnOlderFormIsConverted) {
  {
    Catalog catalog = Open();
    Note(catalog, Report("/d/a", DatasetState::kIntact, "1"), kDay);
  }
  {
    auto raw = Database::Open(file_, DatabaseMode::kWrite);
    ASSERT_OK(raw.status());
    ASSERT_OK(raw->Execute("ALTER TABLE datasets DROP COLUMN next; ALTER TABLE datasets DROP COLUMN waits; PRAGMA user_version = 2"));
  }
  Catalog catalog = Open();
  EXPECT_EQ(Get(catalog, "/d/a").state, "intact");
  EXPECT_FALSE(Get(catalog, "/d/a").waits);
  EXPECT_EQ(Get(catalog, "/d/a").next, "");
}

TEST_F(CatalogTest, CommandsAreThoseOfTheLastLookAtAllOfIt) {
  Catalog catalog = Open();
  const auto note = [&](const DatasetReport& report, CatalogNote::Read read, const std::string& next) {
    CatalogNote one{.tool = "lzy-test", .path = report.path, .now = kDay, .read = read};
    one.next = next;
    EXPECT_OK(catalog.Note({{one, report}}).status());
    return Get(catalog, report.path).next;
  };
  DatasetReport damaged = Report("/d/a", DatasetState::kDamaged);
  damaged.damage = {Bad("/d/a", 0, 100)};
  EXPECT_EQ(note(damaged, CatalogNote::Read::kWhole, "repair it\n"), "repair it\n");
  EXPECT_EQ(note(damaged, CatalogNote::Read::kPart, "repair a part\n"), "");
  EXPECT_EQ(note(Report("/d/a"), CatalogNote::Read::kNothing, "record it\n"), "") << "the damage lasts";
  EXPECT_EQ(note(Report("/d/a"), CatalogNote::Read::kWhole, "record it\n"), "record it\n");
  EXPECT_EQ(note(Report("/d/a"), CatalogNote::Read::kWhole, ""), "");
}

TEST_F(CatalogTest, ALookThatFailsLastsUntilOneSucceeds) {
  Catalog catalog = Open();
  Note(catalog, Report("/d/a"), kDay);
  for (const char* path : {"/d/a", "/d/b"}) {
    DatasetReport failed = Report(path, DatasetState::kUnprotected, "");
    failed.status = Status(Code::kUnreadable, "the device failed");
    CatalogNote note{.tool = "lzy-test", .path = path, .now = 2 * kDay};
    note.unreadable = true;
    ASSERT_OK(catalog.Note({{note, failed}}).status());
  }
  EXPECT_EQ(Get(catalog, "/d/a").state, "unreadable");
  EXPECT_EQ(Get(catalog, "/d/a").exit_code, 6);
  EXPECT_EQ(Get(catalog, "/d/a").last_verified, Get(catalog, "/d/a").first_seen);
  EXPECT_EQ(Get(catalog, "/d/b").id, 0) << "it was never protected";
  Note(catalog, Report("/d/a"), 3 * kDay);
  EXPECT_EQ(Get(catalog, "/d/a").state, "intact");
  EXPECT_EQ(Get(catalog, "/d/a").exit_code, 0);
}

TEST_F(CatalogTest, ACopyIsAsOldAsTheLastLookAtTheFirstFile) {
  Catalog catalog = Open();
  const std::string first = scratch_ + "/first", copy = scratch_ + "/copy", moved = scratch_ + "/moved";
  std::ofstream(first) << "x";
  Note(catalog, Report(first), kDay);
  Note(catalog, Report(copy), 3 * kDay);
  EXPECT_EQ(Get(catalog, copy).first_seen, kDay);
  // A path that was given up, and is used again.
  Note(catalog, Report(moved, DatasetState::kIntact, "u-2"), kDay);
  ASSERT_OK(catalog.NoteLosses("lzy-test", 2 * kDay, {{Get(catalog, moved).id, CatalogLoss::Kind::kWanted, "moved"}}));
  std::filesystem::remove(first);
  Note(catalog, Report(moved), 4 * kDay);
  EXPECT_EQ(Get(catalog, moved).first_seen, 4 * kDay);
}

TEST_F(CatalogTest, EditsWaitForACommit) {
  Catalog catalog = Open();
  DatasetReport report = Report("/d/a", DatasetState::kDamaged, "1");
  report.damage = {{.path = "/d/.LZY.a", .part = DamagePart::kMetadata, .cause = DamageCause::kMissing},
                   {.path = "/d/a", .length = 100, .cause = DamageCause::kStale}};
  Note(catalog, report, kDay);
  EXPECT_TRUE(Get(catalog, "/d/a").waits);
  report.damage.push_back({.path = "/d/a", .offset = 200, .length = 100, .cause = DamageCause::kHash});
  Note(catalog, report, kDay);
  EXPECT_FALSE(Get(catalog, "/d/a").waits);
}

TEST_F(CatalogTest, ANewerFormIsCalledNewer) {
  { Catalog catalog = Open(); }
  {
    auto raw = Database::Open(file_, DatabaseMode::kWrite);
    ASSERT_OK(raw.status());
    ASSERT_OK(raw->Execute("PRAGMA user_version = 1000"));
  }
  for (const DatabaseMode mode : {DatabaseMode::kRead, DatabaseMode::kWrite}) {
    const Status refused = Catalog::Open(file_, mode).status();
    EXPECT_EQ(refused.code(), Code::kNewerFormat);
    EXPECT_THAT(refused.message(), HasSubstr("newer version of lzy"));
  }
}

TEST_F(CatalogTest, DamagedPagesAreAnErrorAndNoCrash) {
  {
    Catalog catalog = Open();
    for (int i = 0; i < 500; ++i) Note(catalog, Report("/d/" + std::to_string(i), DatasetState::kIntact, std::to_string(i)), kDay);
  }
  const auto size = std::filesystem::file_size(file_);
  for (std::uint64_t at = 100; at < size; at += 1021) {
    const std::string copy = scratch_ + "/copy.sqlite";
    std::filesystem::copy_file(file_, copy, std::filesystem::copy_options::overwrite_existing);
    std::fstream(copy, std::ios::in | std::ios::out).seekp(static_cast<std::streamoff>(at)).write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    auto opened = Catalog::Open(copy, DatabaseMode::kRead);
    if (opened.ok()) {
      (void)opened->Datasets();  // either answer is right, a crash is not
      (void)opened->Events();
    }
  }
}

TEST_F(CatalogTest, NoTimeIsBefore1970) {
  Catalog catalog = Open();
  Note(catalog, Report("/d/a"), kDay);
  {
    auto raw = Database::Open(file_, DatabaseMode::kWrite);
    ASSERT_OK(raw.status());
    ASSERT_OK(raw->Execute("UPDATE datasets SET last_verified = -9223372036854775807, first_seen = -1"));
    ASSERT_OK(raw->Execute("UPDATE events SET time = -9223372036854775807 - 1"));
  }
  EXPECT_EQ(Get(catalog, "/d/a").last_verified, 0);
  EXPECT_EQ(Get(catalog, "/d/a").first_seen, 0);
  const auto events = catalog.Events();
  ASSERT_OK(events.status());
  for (const CatalogEvent& event : *events) EXPECT_EQ(event.time, 0);
}

TEST_F(CatalogTest, ReadsWhereNothingMayBeWritten) {
  {
    Catalog catalog = Open();
    Note(catalog, Report("/d/a"), kDay);
  }
  EXPECT_FALSE(std::filesystem::exists(file_ + "-wal"));
  const auto read = [&] {
    auto opened = Catalog::Open(file_, DatabaseMode::kRead);
    return opened.ok() && opened->Datasets().ok() && opened->Datasets()->size() == 1;
  };
  EXPECT_TRUE(read());  // leaves an empty WAL
  EXPECT_EQ(Catalog::Open(scratch_ + "/absent", DatabaseMode::kRead).status().code(), Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(scratch_ + "/absent"));
  // The superuser may write everywhere, so another user looks.
  std::filesystem::permissions(scratch_, std::filesystem::perms(0555));
  std::filesystem::permissions(scratch_ + "/state", std::filesystem::perms(0555));
  std::filesystem::permissions(scratch_ + "/state/lzy", std::filesystem::perms(0555));
  std::filesystem::permissions(file_, std::filesystem::perms(0444));
  const pid_t child = fork();
  if (child == 0) {
    const bool stranger = geteuid() != 0 || setuid(65534) == 0;
    const bool refused = !Catalog::Open(file_, DatabaseMode::kWrite).ok();
    _exit(!stranger ? 1 : !refused ? 2 : !read() ? 3 : 0);
  }
  int how = 0;
  waitpid(child, &how, 0);
  EXPECT_EQ(WEXITSTATUS(how), 0) << "1: who am I, 2: it may write, 3: it cannot read";
  std::filesystem::permissions(scratch_ + "/state/lzy", std::filesystem::perms(0755));
  std::filesystem::permissions(scratch_ + "/state", std::filesystem::perms(0755));
  std::filesystem::permissions(scratch_, std::filesystem::perms(0755));
}

// Four processes open a file that does not exist yet, and note a hundred datasets each; one is killed in the middle.
TEST_F(CatalogTest, SeveralProcessesAtOnceAndOneOfThemKilled) {
  constexpr int kProcesses = 4, kEach = 100;
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    auto catalog = Catalog::Open(file_, DatabaseMode::kWrite);
    bool fine = catalog.ok();
    for (int i = 0; fine && i < kEach; ++i) {
      const std::string path = "/p" + std::to_string(p) + "/" + std::to_string(i);
      fine = catalog->Note({{CatalogNote{.tool = "lzy-test", .path = path, .now = kDay}, Report(path, DatasetState::kIntact, path)}}).ok();
      if (p == 0 && i == kEach / 2) (void)!write(pipes[1], "x", 1);
    }
    _exit(fine ? 0 : 1);
  }
  close(pipes[1]);  // so the read below ends if no process is left
  char half = 0;
  EXPECT_EQ(read(pipes[0], &half, 1), 1);
  kill(children[0], SIGKILL);
  for (int p = 0; p < kProcesses; ++p) {
    int how = 0;
    waitpid(children[static_cast<std::size_t>(p)], &how, 0);
    EXPECT_TRUE(p == 0 || how == 0) << p;
  }
  close(pipes[0]);
  Catalog catalog = Open();
  for (int p = 0; p < kProcesses; ++p) {
    const auto its = catalog.Datasets("/p" + std::to_string(p));
    ASSERT_OK(its.status());
    if (p == 0) {
      EXPECT_GT(its->size(), static_cast<std::size_t>(kEach / 2));
    } else {
      EXPECT_EQ(its->size(), static_cast<std::size_t>(kEach));
    }
  }
}

TEST(DefaultPath, IsInTheStateDirectory) {
  const auto with = [](const char* state, const char* home) {
    return Catalog::DefaultPath([=](const char* name) { return std::string(name) == "HOME" ? home : state; });
  };
  EXPECT_EQ(with("/s", "/h"), "/s/lzy/catalog.sqlite");
  EXPECT_EQ(with("relative", "/h"), "/h/.local/state/lzy/catalog.sqlite");
  EXPECT_EQ(with(nullptr, nullptr), "");
}

}  // namespace
}  // namespace lzy
