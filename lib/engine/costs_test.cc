// Counts the operations on names that one file costs, with many other files beside it.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "names/orphans.h"
#include "passing_files.h"
#include "sidecar/names.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

constexpr std::int64_t kLongAgo = 1'000'000'000'000'000'000 + 12'345;  // not whole seconds, as tar leaves them

class CostsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return scratch_ / name; }

  void Write(const std::string& name) {
    WriteFile(Path(name), Bytes(4096, static_cast<std::uint8_t>(++written_)));
    SetMtime(Path(name), kLongAgo);
  }
  /// Adds files up to this number, and protects all of them.
  void Fill(std::size_t files) {
    for (; files_ < files; ++files_) Write(fmt::format("neighbour.{}", files_));
    CountingFileSystem fs(PosixFileSystem());
    const auto all = ResolvePath(fs, alone_, scratch_.path(), Resolve::kProtectable);
    ASSERT_OK(all);
    for (const DatasetRef& file : *all) ASSERT_OK(Protect({fs, alone_, options_}, file, {}).status);
  }
  /// Counts the operations of `work` in a new process, which has not read the directory before.
  template <class Work>
  std::uint64_t Operations(const Work& work) {
    CountingFileSystem fs(PosixFileSystem());
    work(fs);
    return fs.operations();
  }
  /// One number for each path that needs no look around.
  std::vector<std::uint64_t> OfOneFile() {
    const DatasetRef file{DatasetKind::kShared, Path("file"), {}, {}};
    std::vector<std::uint64_t> counts;
    const auto count = [&](const auto& work) {
      counts.push_back(Operations([&](FileSystem& fs) { work(Context{fs, alone_, options_}); }));
    };
    WriteFile(file.path, {});
    count([&](const Context& context) { ASSERT_OK(BeginEpoch(context.fs, options_, file.path, "")); });
    WriteFile(file.path, Bytes(4096, 1));
    ProtectRequest touched;
    touched.touched = std::map<std::uint32_t, IntervalSet>{};
    (*touched.touched)[0].AddWhole();
    count([&](const Context& context) { ASSERT_OK(Protect(context, file, touched).status); });
    count([&](const Context& context) { EXPECT_EQ(ExitCodeOf(Verify(context, file, {})), 0); });
    count([&](const Context& context) { ASSERT_OK(Info(context, file).status); });
    WriteAt(file.path, 100, Bytes(10, 9));
    count([&](const Context& context) { EXPECT_EQ(ExitCodeOf(Verify(context, file, {})), 9); });
    // Before an edit is committed, the files around are compared with the sidecar. This is not counted.
    EXPECT_OK(Protect({PosixFileSystem(), alone_, options_}, file, {}).status);
    count([&](const Context& context) { ASSERT_OK(Protect(context, file, {}).status); });
    const std::int64_t mtime = MtimeOf(file.path);
    WriteAt(file.path, 200, Bytes(10, 7));
    SetMtime(file.path, mtime);
    // Before a repair, the sidecars around are compared with the content. This is not counted.
    EXPECT_EQ(ExitCodeOf(Restore({PosixFileSystem(), alone_, options_}, file, {})), 0);
    count([&](const Context& context) {
      const auto found = ResolvePath(context.fs, alone_, file.path, Resolve::kProtected);
      ASSERT_OK(found);
      EXPECT_EQ(found->size(), 1u);
    });
    count([&](const Context& context) { ASSERT_OK(Unprotect(context, file, {}).status); });
    std::filesystem::remove(file.path);
    return counts;
  }

  Scratch scratch_;
  const std::unique_ptr<Communicator> self_ = SelfCommunicator();
  Communicator& alone_ = *self_;
  Options options_;
  std::size_t files_ = 0;
  int written_ = 0;
};

// A commit of a small protected file builds a new sidecar. That needs one more operation on names than a commit in place.
TEST_F(CostsTest, ACommitOfASmallFileCostsLittleMoreThanOneInPlace) {
  struct Costs {
    std::uint64_t first = 0, epoch = 0, commit = 0;
  };
  const auto of_form = [&](bool compact) {
    Costs costs;
    options_.compact = compact;
    const Scratch alone;
    const DatasetRef file{DatasetKind::kShared, alone / "file", {}, {}};
    WriteFile(file.path, Bytes(20'000, 1));
    SetMtime(file.path, kLongAgo);
    const auto count = [&](const auto& work) {
      return Operations([&](FileSystem& fs) { work(Context{fs, alone_, options_}); });
    };
    ProtectRequest touched;
    touched.touched = std::map<std::uint32_t, IntervalSet>{};
    costs.first = count([&](const Context& context) { ASSERT_OK(Protect(context, file, touched).status); });
    costs.epoch = count([&](const Context& context) { ASSERT_OK(BeginEpoch(context.fs, options_, file.path, "")); });
    WriteAt(file.path, 100, Bytes(10, 9));
    (*touched.touched)[0].Add({100, 110});
    costs.commit = count([&](const Context& context) { ASSERT_OK(Protect(context, file, touched).status); });
    EXPECT_EQ(ExitCodeOf(Verify({PosixFileSystem(), alone_, options_}, file, {})), 0);
    return costs;
  };
  const Costs ordinary = of_form(false), compact = of_form(true);
  EXPECT_EQ(compact.first, ordinary.first);
  EXPECT_EQ(compact.epoch, ordinary.epoch);
  EXPECT_LE(compact.commit, ordinary.commit + 1);
  std::printf("first %lu, epoch %lu, commit in place %lu, anew %lu\n", static_cast<unsigned long>(compact.first),
              static_cast<unsigned long>(compact.epoch), static_cast<unsigned long>(ordinary.commit),
              static_cast<unsigned long>(compact.commit));
}

TEST_F(CostsTest, OneFileCostsTheSameWhateverIsBesideIt) {
  Fill(10);
  const auto few = OfOneFile();
  Fill(1000);
  EXPECT_EQ(OfOneFile(), few);
  if (kSanitized) return;
  Fill(10000);
  EXPECT_EQ(OfOneFile(), few);
}

// For each orphan, the files around are compared once, and not again for other orphans of its set.
TEST_F(CostsTest, OrphansOfADeletedSetDoNotAskForEachOther) {
  const auto of_members = [&](std::uint32_t count) {
    const Scratch alone;
    DatasetRef set{DatasetKind::kSet, alone / "s.%r", {}, {}};
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      set.members[rank] = ExpandPattern(set.path, rank);
      WriteFile(set.members[rank], Bytes(100, static_cast<std::uint8_t>(rank)));
      SetMtime(set.members[rank], kLongAgo);
    }
    EXPECT_OK(Protect({PosixFileSystem(), alone_, options_}, set, {}).status);
    for (const auto& [rank, path] : set.members) std::filesystem::remove(path);
    std::size_t orphans = 0;
    const std::uint64_t operations = Operations([&](FileSystem& fs) {
      const auto found = FindOrphans(fs, alone.path());
      ASSERT_OK(found);
      orphans = found->size();
    });
    EXPECT_EQ(orphans, count);
    return operations;
  };
  const std::uint64_t few = of_members(20), many = of_members(40);
  EXPECT_LT(many, 6 * few) << few;  // with the third power of the number it would be eight times as many
}

// Such file systems also list no inodes. No sidecar can be recognised as that of a file of another name, so a program that
// fills a directory, and writes its files again, never looks around.
TEST_F(CostsTest, WithoutBirthsAFileOfAProgramCostsTheSameWhateverIsBesideIt) {
  MemoryFileSystem memory;
  memory.without_births = true;
  std::size_t files = 0;
  ProtectRequest touched;
  touched.touched = std::map<std::uint32_t, IntervalSet>{};
  (*touched.touched)[0].AddWhole();
  const auto write = [&](FileSystem& fs, bool is_new) {
    const DatasetRef file{DatasetKind::kShared, fmt::format("d/f{}", is_new ? ++files : files), {}, {}};
    for (const std::size_t bytes : {5000, 6000}) {
      if (is_new && bytes == 5000) memory.Put(file.path, {});
      EXPECT_OK(BeginEpoch(fs, options_, file.path, ""));
      const auto now = fs.Open(file.path, OpenMode::kReadWrite);
      ASSERT_OK(now);
      ASSERT_OK((*now)->WriteAt(0, Bytes(bytes, static_cast<std::uint8_t>(files))));
      ASSERT_OK(Protect({fs, alone_, options_}, file, touched).status);
    }
  };
  const auto count = [&](std::size_t beside) {
    while (files < beside) write(memory, true);
    std::vector<std::uint64_t> counts;
    for (const bool is_new : {true, false}) {
      CountingFileSystem fs(memory);
      write(fs, is_new);
      counts.push_back(fs.operations());
      EXPECT_EQ(fs.lists(), 0U);
    }
    return counts;
  };
  const auto few = count(5);
  EXPECT_EQ(count(100), few);
}

// A file that is gone may have been renamed. The list shows that no file has its inode, so no file is examined.
TEST_F(CostsTest, AMissingFileWithItsSidecarCostsAListOfTheDirectory) {
  Write("probe");
  const auto here = PosixFileSystem().ListEntries(scratch_.path());
  ASSERT_OK(here);
  if (here->front().inode == 0) GTEST_SKIP() << "lists of this file system do not tell inodes for sure";
  std::filesystem::remove(Path("probe"));
  const auto beside = [&](std::size_t files) {
    Fill(files);
    Write("file");
    EXPECT_OK(Protect({PosixFileSystem(), alone_, options_}, {DatasetKind::kShared, Path("file"), {}, {}}, {}).status);
    std::filesystem::remove(Path("file"));
    std::vector<std::uint64_t> counts;
    const auto count = [&](int code, const auto& work) {
      CountingFileSystem fs(PosixFileSystem());
      const auto found = ResolvePath(fs, alone_, Path("file"), Resolve::kProtected);
      ASSERT_OK(found);
      ASSERT_EQ(found->size(), 1u);
      EXPECT_EQ(ExitCodeOf(work(Context{fs, alone_, options_}, found->front())), code);
      EXPECT_EQ(fs.lists(), 1u);
      counts.push_back(fs.operations() - fs.listed());
    };
    count(1, [](const Context& context, const DatasetRef& file) { return Verify(context, file, {}); });
    count(0, [](const Context& context, const DatasetRef& file) { return Restore(context, file, {}); });
    EXPECT_TRUE(std::filesystem::exists(Path("file")));
    EXPECT_OK(Unprotect({PosixFileSystem(), alone_, options_}, {DatasetKind::kShared, Path("file"), {}, {}}, {}).status);
    std::filesystem::remove(Path("file"));
    return counts;
  };
  const auto few = beside(10);
  EXPECT_EQ(beside(1000), few);
}

// A look around examines each neighbour once: one stat for each file, and one open for each sidecar. A relative and an
// absolute path mean the same directory.
TEST_F(CostsTest, ALookSeesEachNeighbourOnce) {
  constexpr std::size_t kFew = 10, kMany = 1000;
  std::map<std::size_t, std::vector<std::uint64_t>> counts;
  const std::filesystem::path before = std::filesystem::current_path();
  for (const std::size_t files : {kFew, kMany}) {
    Fill(files);
    std::filesystem::current_path(scratch_.path());
    const auto count = [&](const std::string& name, Resolve what, std::uint64_t lists, const auto& work) {
      CountingFileSystem fs(PosixFileSystem());
      const auto found = ResolvePath(fs, alone_, name, what);
      EXPECT_OK(found);
      if (found.ok()) work(Context{fs, alone_, options_}, found->front());
      EXPECT_LE(fs.lists(), lists) << name;
      counts[files].push_back(fs.operations() - fs.listed());
    };
    const auto verify = [&](int code) {
      return [code](const Context& context, const DatasetRef& file) {
        EXPECT_EQ(ExitCodeOf(Verify(context, file, {})), code);
      };
    };
    Write("old");
    count("old", Resolve::kProtected, 2, verify(4));
    // If a directory has not changed for a while, a second list would show the same.
    if (files == kMany) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2100));
      count("old", Resolve::kProtected, 1, verify(4));
      counts[files].pop_back();
    }
    count("old", Resolve::kProtectable, 2, [](const Context& context, const DatasetRef& file) {
      EXPECT_OK(Protect(context, file, {}).status);
    });
    std::filesystem::rename("old", "renamed");
    count("renamed", Resolve::kProtected, 2, verify(0));
    std::filesystem::remove("renamed");
    std::filesystem::remove(".LZY.old");
    std::filesystem::current_path(before);
  }
  for (std::size_t i = 0; i < counts[kFew].size(); ++i) {
    // The first file has no sidecar, so sidecars of files of its size are compared with its content.
    EXPECT_LE(counts[kMany][i] - counts[kFew][i], (i == 0 ? 4 : 2) * (kMany - kFew)) << "path " << i;
  }
}

// Files without a sidecar may have been renamed. One look around is enough for all of them. The same if another directory
// has hard links to them, as "cp -al" makes.
TEST_F(CostsTest, AFileOfADirectoryCostsTheSameInASmallAndALargeOne) {
  const auto of_each = [&](std::size_t files, bool linked) {
    const Scratch other, links;
    for (std::size_t i = 0; i < files; ++i) {
      WriteFile(other / fmt::format("f{}", i), Bytes(4096, 1));
      SetMtime(other / fmt::format("f{}", i), kLongAgo);
      if (linked) std::filesystem::create_hard_link(other / fmt::format("f{}", i), links / fmt::format("f{}", i));
    }
    if (linked) std::this_thread::sleep_for(std::chrono::milliseconds(2100));  // what changed just now is looked at again
    std::vector<double> counts;
    const auto count = [&](Resolve what, const auto& work) {
      const std::uint64_t operations = Operations([&](FileSystem& fs) {
        const auto found = ResolvePath(fs, alone_, other.path(), what);
        ASSERT_OK(found);
        ASSERT_EQ(found->size(), files);
        for (const DatasetRef& file : *found) ASSERT_EQ(ExitCodeOf(work(Context{fs, alone_, options_}, file)), 0);
      });
      counts.push_back(static_cast<double>(operations) / static_cast<double>(files));
    };
    const auto protect = [](const Context& context, const DatasetRef& file) { return Protect(context, file, {}); };
    count(Resolve::kProtectable, protect);
    count(Resolve::kProtectable, protect);
    count(Resolve::kProtected, [](const Context& context, const DatasetRef& file) { return Verify(context, file, {}); });
    count(Resolve::kProtected, [](const Context& context, const DatasetRef& file) { return Restore(context, file, {}); });
    count(Resolve::kProtected, [](const Context& context, const DatasetRef& file) { return Info(context, file); });
    return counts;
  };
  for (const bool linked : {false, true}) {
    const auto few = of_each(10, linked);
    const auto many = of_each(1000, linked);
    for (std::size_t i = 0; i < few.size(); ++i) EXPECT_LE(many[i], few[i] * 1.05) << "path " << i << (linked ? ", linked" : "");
  }
}

// All files have other inodes than their sidecars record, so each may be another file that was renamed.
TEST_F(CostsTest, ACopiedTreeIsLookedAtOnce) {
  const auto of_each = [&](std::size_t files) {
    const Scratch from, to;
    for (std::size_t i = 0; i < files; ++i) {
      const std::string path = from / fmt::format("f{}", i);
      WriteFile(path, Bytes(4096, 1));
      SetMtime(path, kLongAgo);
      EXPECT_OK(Protect({PosixFileSystem(), alone_, options_}, {DatasetKind::kShared, path, {}, {}}, {}).status);
    }
    for (const auto& [path, image] : ImageOf(from.path())) {
      WriteFile(to / std::filesystem::path(path).filename().string(), image.bytes);
    }
    return static_cast<double>(Operations([&](FileSystem& fs) {
             const auto found = ResolvePath(fs, alone_, to.path(), Resolve::kProtected);
             ASSERT_OK(found);
             ASSERT_EQ(found->size(), files);
             for (const DatasetRef& file : *found) ASSERT_EQ(ExitCodeOf(Verify({fs, alone_, options_}, file, {})), 0);
           })) /
           static_cast<double>(files);
  };
  const double few = of_each(10);
  EXPECT_LE(of_each(500), few * 1.05);
}

// File systems use inodes again. A program that replaces its files one after the other gives each new file the inode of the
// previous old one. The sidecar of that one has been committed for its new file by then, and needs no other look.
TEST_F(CostsTest, ReplacedFilesWithTheInodesOfOthersAreLookedAtOnce) {
  const auto of_each = [&](std::size_t files) {
    MemoryFileSystem memory;
    memory.now = [now = kLongAgo]() mutable { return now += 1'000'001; };
    const auto put = [&](std::size_t i, std::uint8_t version) -> FileStat& {
      std::vector<std::uint8_t> bytes = Bytes(4096, version);
      bytes[0] = static_cast<std::uint8_t>(i);
      bytes[1] = static_cast<std::uint8_t>(i >> 8U);
      return memory.Put(fmt::format("d/f{}", i), std::move(bytes)).stat;
    };
    const auto protect = [&](FileSystem& fs) {
      for (std::size_t i = 0; i < files; ++i) {
        ASSERT_OK(Protect({fs, alone_, options_}, {DatasetKind::kShared, fmt::format("d/f{}", i), {}, {}}, {}).status);
      }
    };
    for (std::size_t i = 0; i < files; ++i) put(i, 1);
    protect(memory);
    std::uint64_t free = 1'000'000;  // an inode
    for (std::size_t i = 0; i < files; ++i) {
      const std::uint64_t old = memory.At(fmt::format("d/f{}", i)).stat.inode;
      EXPECT_OK(memory.Remove(fmt::format("d/f{}", i)));
      put(i, 2).inode = std::exchange(free, old);
    }
    CountingFileSystem fs(memory);
    protect(fs);
    EXPECT_LE(fs.lists(), 4U);
    return static_cast<double>(fs.operations()) / static_cast<double>(files);
  };
  const double few = of_each(20);
  EXPECT_LE(of_each(200), few * 1.05);
}

TEST_F(CostsTest, AMemberCostsTheSameInASmallAndALargeSet) {
  const auto of_each = [&](int members) {
    const Scratch directory;
    const std::string pattern = directory / "state.%r";
    for (int i = 0; i < members; ++i) {
      WriteFile(directory / fmt::format("state.{}", i), Bytes(5000, static_cast<std::uint8_t>(i)));
      SetMtime(directory / fmt::format("state.{}", i), kLongAgo);
    }
    Options options;
    options.group = 8;
    std::vector<double> counts;
    const auto count = [&](Resolve what, const auto& work) {
      const std::uint64_t operations = Operations([&](FileSystem& fs) {
        RunRanks(std::min(members, 64), [&](Communicator& comm) {
          const auto found = ResolvePath(fs, comm, pattern, what);
          ASSERT_OK(found);
          ASSERT_EQ(found->size(), 1u);
          EXPECT_EQ(ExitCodeOf(work(Context{fs, comm, options}, found->front())), 0);
        });
      });
      counts.push_back(static_cast<double>(operations) / members);
    };
    const auto protect = [](const Context& context, const DatasetRef& set) { return Protect(context, set, {}); };
    count(Resolve::kProtectable, protect);
    count(Resolve::kProtectable, protect);
    count(Resolve::kProtected, [](const Context& context, const DatasetRef& set) { return Verify(context, set, {}); });
    count(Resolve::kProtected, [](const Context& context, const DatasetRef& set) { return Info(context, set); });
    std::filesystem::remove(directory / "state.1");
    count(Resolve::kProtected, [](const Context& context, const DatasetRef& set) { return Restore(context, set, {}); });
    return counts;
  };
  const auto two = of_each(2), many = of_each(64), most = of_each(kSanitized ? 128 : 512);
  for (std::size_t i = 0; i < two.size(); ++i) {
    // A process that makes parity opens the files of its group: up to eight, and two in a set of two.
    EXPECT_LE(many[i], two[i] + 2 * 6) << "path " << i;
    EXPECT_LE(most[i], many[i] * 1.05) << "path " << i;
  }
}

}  // namespace
}  // namespace lzy::testing
