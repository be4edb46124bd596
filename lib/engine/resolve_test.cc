#include "engine/resolve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy {
namespace {

namespace stdfs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

/// A scratch directory, which is the working directory, with data files and sidecars that hold no more than resolving
/// needs.
class ResolveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (stdfs::temp_directory_path() / "lzy-resolve-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
    stdfs::current_path(scratch_);
  }
  void TearDown() override {
    stdfs::current_path("/");
    stdfs::remove_all(scratch_);
  }

  static void Write(const std::string& path, const std::string& content = "data") {
    if (stdfs::path(path).has_parent_path()) stdfs::create_directories(stdfs::path(path).parent_path());
    std::ofstream(path) << content;
  }
  static Uuid UuidOf(int set) {
    Uuid uuid{};
    uuid[0] = static_cast<std::uint8_t>(set);
    return uuid;
  }

  /// Gives `path`, which exists, a sidecar of the given superblock, stamped with the file as it is.
  void Protect(const std::string& path, Superblock sb, const std::string& name) {
    auto like = fs_.Open(path, OpenMode::kRead);
    ASSERT_OK(like);
    auto stat = fs_.Stat(path);
    ASSERT_OK(stat);
    sb.block_size = 4096;
    sb.unit = 4096;
    sb.largest_group = 1;
    sb.members = std::max(1u, sb.members);
    sb.stamp = {stat->size, stat->mtime_ns, stat->inode, stat->device};
    SidecarContents contents;
    contents.superblock = sb;
    contents.info.name = name;
    auto sidecar_path = SidecarPath(path);
    ASSERT_OK(sidecar_path);
    auto sidecar = Sidecar::Create(fs_, *sidecar_path, contents, **like);
    ASSERT_OK(sidecar);
    ASSERT_OK((*sidecar)->WriteAll(contents));
  }
  void ProtectShared(const std::string& path) {
    Superblock sb;
    sb.uuid = UuidOf(++shared_);
    sb.generation = 1;
    Protect(path, sb, BaseNameOf(path));
  }
  /// Makes members 0..count-1 of `pattern` and their sidecars; a later call stands for a later time.
  void MakeSet(const std::string& pattern, std::uint32_t count) {
    ++sets_;
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      Superblock sb;
      sb.uuid = UuidOf(100 + sets_);
      sb.generation = 1;
      sb.kind = DatasetKind::kSet;
      sb.placement = ParityPlacement::kPerDevice;
      sb.members = count;
      sb.rank = rank;
      sb.wall_time_ns = 1000 * sets_;
      const std::string path = ExpandPattern(pattern, rank);
      Write(path);
      Protect(path, sb, PatternTail(pattern));
    }
  }

  Result<std::vector<DatasetRef>> Find(const std::string& path, Resolve what = Resolve::kProtected) {
    return ResolvePath(fs_, *comm_, path, what);
  }
  /// "s:path" of shared files, "p:pattern[ranks]" of sets.
  std::vector<std::string> Found(const std::string& path, Resolve what = Resolve::kProtected) {
    auto found = Find(path, what);
    if (!found.ok()) return {found.status().message()};
    std::vector<std::string> out;
    for (const DatasetRef& dataset : *found) {
      std::string ranks;
      for (const auto& [rank, member] : dataset.members) ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", rank);
      out.push_back(dataset.kind == DatasetKind::kShared ? "s:" + dataset.path
                                                         : fmt::format("p:{}[{}]", dataset.path, ranks));
    }
    return out;
  }

  FileSystem& fs_ = PosixFileSystem();
  std::unique_ptr<Communicator> comm_ = SelfCommunicator();
  stdfs::path scratch_;
  int shared_ = 0;
  int sets_ = 0;
};

TEST_F(ResolveTest, FileStandsForItselfAsWritten) {
  Write("d/a");
  EXPECT_THAT(Found("d/a"), ElementsAre("s:d/a"));
  EXPECT_THAT(Found("./d/a"), ElementsAre("s:./d/a"));
  EXPECT_THAT(Found((scratch_ / "d/a").string(), Resolve::kProtectable),
              ElementsAre("s:" + (scratch_ / "d/a").string()));
}

TEST_F(ResolveTest, NothingIsAnErrorThatNamesThePath) {
  for (const char* path : {"absent", "absent/file", "absent*", "absent.%r", "absent/%r/x", "d%r"}) {
    for (Resolve what : {Resolve::kProtected, Resolve::kProtectable}) {
      auto found = Find(path, what);
      EXPECT_CODE(found, Code::kInvalidArgument);
      EXPECT_THAT(found.status().message(), HasSubstr(path));
    }
  }
  EXPECT_CODE(Find(""), Code::kInvalidArgument);
  EXPECT_CODE(Find("a.%d.%r"), Code::kInvalidArgument);
  Write("file");
  EXPECT_CODE(Find("file/below"), Code::kInvalidArgument);
}

TEST_F(ResolveTest, DirectoryWithNothingInIt) {
  stdfs::create_directory("empty");
  EXPECT_CODE(Find("empty"), Code::kUnprotected);
  EXPECT_CODE(Find("empty", Resolve::kProtectable), Code::kInvalidArgument);
}

TEST_F(ResolveTest, MissingDataWithSidecarIsADataset) {
  Write("d/a");
  ProtectShared("d/a");
  stdfs::remove("d/a");
  EXPECT_THAT(Found("d/a"), ElementsAre("s:d/a"));
  EXPECT_THAT(Found("d"), ElementsAre("s:d/a"));
}

TEST_F(ResolveTest, SidecarsNameStandsForItsFile) {
  Write("a");
  ProtectShared("a");
  EXPECT_THAT(Found(".LZY.a"), ElementsAre("s:a"));
  EXPECT_CODE(Find(".LZY.a", Resolve::kProtectable), Code::kInvalidArgument);
}

TEST_F(ResolveTest, DirectoryMeansEverySidecarBelow) {
  for (const char* path : {"d/a", "d/e/b", "d/.hidden/c", "d/unprotected"}) Write(path);
  for (const char* path : {"d/a", "d/e/b", "d/.hidden/c"}) ProtectShared(path);
  EXPECT_THAT(Found("d"), ElementsAre("s:d/.hidden/c", "s:d/a", "s:d/e/b"));
  EXPECT_THAT(Found("d/"), ElementsAre("s:d/.hidden/c", "s:d/a", "s:d/e/b"));
  stdfs::current_path("d");
  EXPECT_THAT(Found("."), ElementsAre("s:.hidden/c", "s:a", "s:e/b"));
}

TEST_F(ResolveTest, DirectoryToProtectMeansEveryRegularFileThatIsNotHidden) {
  for (const char* path : {"d/a", "d/e/b", "d/.hidden/c", "d/.h", "x/y"}) Write(path);
  ProtectShared("d/a");
  stdfs::create_symlink("a", "d/link");
  stdfs::create_directory_symlink("../x", "d/linked");
  stdfs::create_directory_symlink("..", "d/e/up");
  EXPECT_THAT(Found("d", Resolve::kProtectable), ElementsAre("s:d/a", "s:d/e/b"));
}

/// Passes everything on, but lists no directory called "locked": root, too, shall be refused something.
class Locked final : public FileSystem {
 public:
  explicit Locked(FileSystem& fs) : fs_(fs) {}
  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow,
                                     std::uint32_t create_mode) override {
    return fs_.Open(path, mode, follow, create_mode);
  }
  Result<FileStat> Stat(const std::string& path, bool follow) override { return fs_.Stat(path, follow); }
  Status Rename(const std::string& from, const std::string& to) override { return fs_.Rename(from, to); }
  Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) override {
    return fs_.RenameIfAbsent(from, to);
  }
  Status Remove(const std::string& path) override { return fs_.Remove(path); }
  Status SyncDirectory(const std::string& path) override { return fs_.SyncDirectory(path); }
  Result<std::vector<std::string>> List(const std::string& path) override {
    if (BaseNameOf(path) == "locked") return Status(Code::kIo, path + ": list: Permission denied");
    return fs_.List(path);
  }
  Status MakeDirectories(const std::string& path) override { return fs_.MakeDirectories(path); }
  Result<std::string> RealPath(const std::string& path) override { return fs_.RealPath(path); }

 private:
  FileSystem& fs_;
};

TEST_F(ResolveTest, UnreadableDirectoryIsToldAndTheRestFound) {
  Locked fs(fs_);
  Write("d/a");
  Write("d/locked/b");
  std::vector<Status> troubles;
  auto found = ResolvePath(fs, *comm_, "d", Resolve::kProtectable, &troubles);
  ASSERT_OK(found);
  EXPECT_EQ(found->size(), 1u);
  ASSERT_EQ(troubles.size(), 1u);
  EXPECT_CODE(troubles[0], Code::kIo);
  EXPECT_CODE(ResolvePath(fs, *comm_, "d", Resolve::kProtectable), Code::kIo);
  EXPECT_CODE(ResolvePath(fs, *comm_, "d/locked", Resolve::kProtectable, &troubles), Code::kIo);
  EXPECT_CODE(ResolvePath(fs, *comm_, "d/locked/*", Resolve::kProtectable, &troubles), Code::kIo);
}

TEST_F(ResolveTest, LinkToAFileIsTheFileBesideItsTarget) {
  Write("d/a");
  ProtectShared("d/a");
  stdfs::create_symlink("d/a", "link");
  EXPECT_THAT(Found("link"), ElementsAre("s:link"));
  auto sidecar = FindSidecar(fs_, "link");
  ASSERT_OK(sidecar);
  EXPECT_EQ(stdfs::canonical(*sidecar), stdfs::canonical("d/.LZY.a"));
  EXPECT_EQ(DatasetKey(fs_, {DatasetKind::kShared, "link", {}}), DatasetKey(fs_, {DatasetKind::kShared, "d/a", {}}));
  stdfs::remove("d/a");
  EXPECT_THAT(Found("link"), ElementsAre("s:link"));
}

TEST_F(ResolveTest, FileAndItsLinkInOneGlobAreOneDataset) {
  Write("a1");
  stdfs::create_symlink("a1", "a2");
  EXPECT_THAT(Found("a*"), ElementsAre("s:a1"));
}

TEST_F(ResolveTest, GlobMatchesWithinOneComponent) {
  for (const char* path : {"run1/x.h5", "run2/x.h5", "run2/.x.h5", "run2/deep/x.h5", "run2/x.nc", "50%/x.h5"})
    Write(path);
  Write("run3/x.h5");
  ProtectShared("run3/x.h5");
  stdfs::remove("run3/x.h5");
  EXPECT_THAT(Found("run*/*.h5"), ElementsAre("s:run1/x.h5", "s:run2/x.h5", "s:run3/x.h5"));
  EXPECT_THAT(Found("run2/.*"), ElementsAre("s:run2/.x.h5"));
  EXPECT_THAT(Found("50%/*"), ElementsAre("s:50%/x.h5"));
  EXPECT_THAT(Found((scratch_ / "run*/x.nc").string()), ElementsAre("s:" + (scratch_ / "run2/x.nc").string()));
}

TEST_F(ResolveTest, NameWithAStarInItIsTakenAsItIs) {
  Write("a*");
  Write("ab");
  EXPECT_THAT(Found("a*"), ElementsAre("s:a*"));
}

TEST_F(ResolveTest, PatternFindsDataAndSidecars) {
  MakeSet("d/state.%r", 4);
  stdfs::remove("d/state.2");
  stdfs::remove("d/.LZY.state.3");
  EXPECT_THAT(Found("d/state.%r"), ElementsAre("p:d/state.%r[0,1,2,3]"));
  auto found = Find("d/state.%r");
  ASSERT_OK(found);
  EXPECT_THAT(found->front().members,
              ElementsAre(Pair(0, "d/state.0"), Pair(1, "d/state.1"), Pair(2, "d/state.2"), Pair(3, "d/state.3")));
}

TEST_F(ResolveTest, PatternOfPlainFilesIsASetToBe) {
  for (const char* path : {"s.0", "s.1", "s.10", "s.x", "s.01"}) Write(path);
  EXPECT_THAT(Found("s.%r", Resolve::kProtectable), ElementsAre("p:s.%r[0,1,10]"));
  EXPECT_THAT(Found("s.%02r", Resolve::kProtectable), ElementsAre("p:s.%02r[1,10]"));
}

TEST_F(ResolveTest, RankInTheDirectoryPart) {
  MakeSet("l/%r/ckpt/state", 3);
  EXPECT_THAT(Found("l/%r/ckpt/state"), ElementsAre("p:l/%r/ckpt/state[0,1,2]"));
  EXPECT_THAT(Found("l"), ElementsAre("p:l/%r/ckpt/state[0,1,2]"));
  EXPECT_THAT(Found("l/1/ckpt/state"), ElementsAre("p:l/%r/ckpt/state[0,1,2]"));
  stdfs::current_path("l/2/ckpt");
  EXPECT_THAT(Found("state"),
              ElementsAre(fmt::format("p:{}/l/%r/ckpt/state[0,1,2]", stdfs::canonical(scratch_).string())));
}

TEST_F(ResolveTest, RankTwiceMustBeTheSame) {
  for (const char* path : {"n0/s.0", "n0/s.1", "n1/s.1"}) Write(path);
  EXPECT_THAT(Found("n%r/s.%r"), ElementsAre("p:n%r/s.%r[0,1]"));
}

TEST_F(ResolveTest, StarInAPatternMakesADatasetOfEachStep) {
  for (const char* path : {"c/ckpt.10.0", "c/ckpt.10.1", "c/ckpt.20.0", "c/ckpt.x.y"}) Write(path);
  EXPECT_THAT(Found("c/ckpt.*.%r"), ElementsAre("p:c/ckpt.10.%r[0,1]", "p:c/ckpt.20.%r[0]"));
  Write("r1%/0/s");
  EXPECT_THAT(Found("r*/%r/s"), ElementsAre("p:r1%%/%r/s[0]"));
}

TEST_F(ResolveTest, MemberStandsForItsSet) {
  MakeSet("d/state.%r", 3);
  EXPECT_THAT(Found("d/state.1"), ElementsAre("p:d/state.%r[0,1,2]"));
  EXPECT_THAT(Found("d/state.1", Resolve::kProtectable), ElementsAre("p:d/state.%r[0,1,2]"));
  stdfs::remove("d/state.1");
  EXPECT_THAT(Found("d/state.1"), ElementsAre("p:d/state.%r[0,1,2]"));
  stdfs::remove("d/.LZY.state.1");
  EXPECT_THAT(Found("d/state.1"), ElementsAre("p:d/state.%r[0,2]"));
  EXPECT_CODE(Find("d/state.3"), Code::kInvalidArgument);
}

TEST_F(ResolveTest, DirectoryHasEachSetOnce) {
  MakeSet("d/state.%r", 3);
  Write("d/other");
  ProtectShared("d/other");
  Write("d/free");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/other", "p:d/state.%r[0,1,2]"));
  EXPECT_THAT(Found("d", Resolve::kProtectable), ElementsAre("s:d/free", "s:d/other", "p:d/state.%r[0,1,2]"));
  // A member that lost its sidecar still belongs.
  stdfs::remove("d/.LZY.state.0");
  EXPECT_THAT(Found("d", Resolve::kProtectable), ElementsAre("s:d/free", "s:d/other", "p:d/state.%r[0,1,2]"));
}

TEST_F(ResolveTest, PercentInTheDirectoryIsEscapedInThePattern) {
  MakeSet("50%%/s.%r", 2);
  EXPECT_THAT(Found("50%"), ElementsAre("p:50%%/s.%r[0,1]"));
}

TEST_F(ResolveTest, DestroyedSidecarOfAMemberIsStillOfTheSet) {
  MakeSet("d/state.%r", 3);
  Write("d/.LZY.state.1", std::string(30000, 'x'));
  EXPECT_THAT(Found("d"), ElementsAre("p:d/state.%r[0,1,2]"));
}

TEST_F(ResolveTest, DestroyedSidecarOfAFileIsADataset) {
  Write("d/a");
  Write("d/.LZY.a", "rubbish");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/a"));
  EXPECT_THAT(Found("d/a"), ElementsAre("s:d/a"));
}

TEST_F(ResolveTest, MembersOfAnOlderSetAreNotMixedIn) {
  MakeSet("d/state.%r", 6);
  MakeSet("d/state.%r", 4);
  EXPECT_THAT(Found("d/state.%r"), ElementsAre("p:d/state.%r[0,1,2,3]"));
  EXPECT_THAT(Found("d"), ElementsAre("p:d/state.%r[0,1,2,3]"));
  EXPECT_THAT(Found("d/state.5"), ElementsAre("p:d/state.%r[0,1,2,3]"));
  EXPECT_THAT(Found("d/state.%r", Resolve::kProtectable), ElementsAre("p:d/state.%r[0,1,2,3]"));
  // A new file may join a set, but only lzy-protect makes it do so.
  Write("d/state.6");
  EXPECT_THAT(Found("d/state.%r", Resolve::kProtectable), ElementsAre("p:d/state.%r[0,1,2,3,6]"));
  EXPECT_THAT(Found("d/state.%r"), ElementsAre("p:d/state.%r[0,1,2,3]"));
}

TEST_F(ResolveTest, RenamedFileIsFoundUnderItsNewName) {
  Write("d/a.tmp");
  ProtectShared("d/a.tmp");
  stdfs::rename("d/a.tmp", "d/a");
  auto sidecar = FindSidecar(fs_, "d/a");
  ASSERT_OK(sidecar);
  EXPECT_EQ(*sidecar, "d/.LZY.a.tmp");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/a"));
}

TEST_F(ResolveTest, RenamedOntoAProtectedFileItsOwnSidecarCounts) {
  Write("d/a", "old");
  ProtectShared("d/a");
  Write("d/a.tmp", "newer");
  ProtectShared("d/a.tmp");
  stdfs::rename("d/a.tmp", "d/a");
  auto sidecar = FindSidecar(fs_, "d/a");
  ASSERT_OK(sidecar);
  EXPECT_EQ(*sidecar, "d/.LZY.a.tmp");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/a"));
}

TEST_F(ResolveTest, RenamedSetIsFoundUnderItsNewPattern) {
  MakeSet("d/tmp.%r", 12);
  for (int rank = 0; rank < 12; ++rank) {
    stdfs::rename(fmt::format("d/tmp.{}", rank), fmt::format("d/step7.{:03}.dat", rank));
  }
  EXPECT_THAT(Found("d"), ElementsAre("p:d/step7.%03r.dat[0,1,2,3,4,5,6,7,8,9,10,11]"));
  EXPECT_THAT(Found("d/step7.007.dat"), ElementsAre("p:d/step7.%03r.dat[0,1,2,3,4,5,6,7,8,9,10,11]"));
  EXPECT_THAT(Found("d/step7.%03r.dat"), ElementsAre("p:d/step7.%03r.dat[0,1,2,3,4,5,6,7,8,9,10,11]"));
}

TEST_F(ResolveTest, EditedFileKeepsItsSidecar) {
  Write("a");
  ProtectShared("a");
  Write("a", "something else");
  auto sidecar = FindSidecar(fs_, "a");
  ASSERT_OK(sidecar);
  EXPECT_EQ(*sidecar, ".LZY.a");
  Write("b");
  EXPECT_CODE(FindSidecar(fs_, "b"), Code::kNotFound);
  EXPECT_CODE(FindSidecar(fs_, "absent"), Code::kNotFound);
}

TEST_F(ResolveTest, HardLinkDoesNotTakeTheSidecarAway) {
  Write("a");
  ProtectShared("a");
  stdfs::create_hard_link("a", "b");
  EXPECT_CODE(FindSidecar(fs_, "b"), Code::kNotFound);
}

std::vector<std::string> Orphans(FileSystem& fs, const std::string& path) {
  auto orphans = FindOrphans(fs, path);
  return orphans.ok() ? *orphans : std::vector<std::string>{orphans.status().message()};
}

TEST_F(ResolveTest, OrphansAreSidecarsWithoutAFile) {
  for (const char* path : {"d/kept", "d/gone", "d/e/gone", "d/moved"}) {
    Write(path);
    ProtectShared(path);
  }
  stdfs::remove("d/gone");
  stdfs::remove("d/e/gone");
  stdfs::rename("d/moved", "d/new name");
  Write("d/.LZY.rubbish", "rubbish");
  EXPECT_THAT(Orphans(fs_, "d"), ElementsAre("d/.LZY.gone", "d/.LZY.rubbish", "d/e/.LZY.gone"));
  EXPECT_CODE(FindOrphans(fs_, "absent"), Code::kNotFound);
}

TEST_F(ResolveTest, SetWithSurvivorsHasNoOrphans) {
  MakeSet("d/s.%r", 3);
  stdfs::remove("d/s.0");
  stdfs::remove("d/s.1");
  EXPECT_THAT(Orphans(fs_, "d"), IsEmpty());
  stdfs::remove("d/s.2");
  EXPECT_THAT(Orphans(fs_, "d"), ElementsAre("d/.LZY.s.0", "d/.LZY.s.1", "d/.LZY.s.2"));
  // The rest may be on other nodes.
  stdfs::remove("d/.LZY.s.1");
  EXPECT_THAT(Orphans(fs_, "d"), IsEmpty());
}

TEST_F(ResolveTest, RemnantsOfAnOlderSetAreOrphansOnceTheirDataAreGone) {
  MakeSet("d/s.%r", 4);
  MakeSet("d/s.%r", 2);
  EXPECT_THAT(Orphans(fs_, "d"), IsEmpty());
  stdfs::remove("d/s.2");
  stdfs::remove("d/s.3");
  EXPECT_THAT(Orphans(fs_, "d"), ElementsAre("d/.LZY.s.2", "d/.LZY.s.3"));
}

}  // namespace
}  // namespace lzy
