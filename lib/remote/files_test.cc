// Files of other ranks: what is read there is what is here, and nothing can be changed.
#include "remote/files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine_fixture.h"
#include "memory_files.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

class RemoteFilesTest : public ::testing::Test {
 protected:
  /// `work` on rank 0, with the files that rank 1 sees.
  void AsRank0(FileSystem& there, const std::function<void(FileSystem& theirs)>& work) {
    MemoryFileSystem nothing;
    RunRanks(2, [&](Communicator& comm) {
      FileSystem& mine = comm.rank() == 0 ? nothing : there;
      EXPECT_OK(WithRemoteFiles({mine, comm, options_}, [&](Caller& caller) {
        if (comm.rank() == 0) work(*FilesOf(caller, 1));
      }));
    }, {}, nullptr, &traffic_);
  }

  Rng rng_{1};
  Options options_;
  CallTraffic traffic_;
};

TEST_F(RemoteFilesTest, ReadsWhatIsThere) {
  Scratch scratch;
  const Bytes bytes = RandomBytes(rng_, 3'000'000);
  WriteFile(scratch / "f", bytes);
  std::filesystem::create_symlink("f", scratch / "link");
  FileSystem& local = PosixFileSystem();
  AsRank0(local, [&](FileSystem& theirs) {
    const FileStat here = local.Stat(scratch / "f", true).value(), there = theirs.Stat(scratch / "f", true).value();
    EXPECT_EQ(std::tuple(there.size, there.inode, there.mtime_ns, there.mode), std::tuple(here.size, here.inode, here.mtime_ns, here.mode));
    EXPECT_NE(there.file_system, here.file_system) << "a file of another rank must not look like one of this rank";
    EXPECT_EQ(theirs.Stat(scratch / "link", false)->type, FileStat::Type::kOther);
    EXPECT_EQ(theirs.ReadLink(scratch / "link").value(), "f");
    EXPECT_EQ(theirs.RealPath(scratch / "link").value(), local.RealPath(scratch / "link").value());
    EXPECT_EQ(theirs.List(scratch.path()).value(), (std::vector<std::string>{"f", "link"}));
    EXPECT_CODE(theirs.Stat(scratch / "none", true).status(), Code::kNotFound);
    EXPECT_CODE(theirs.Open(scratch / "none", OpenMode::kRead, true, 0).status(), Code::kNotFound);
    EXPECT_CODE(theirs.List(scratch / "none").status(), local.List(scratch / "none").status().code());
    const auto file = theirs.Open(scratch / "f", OpenMode::kRead, true, 0).value();
    EXPECT_EQ(file->Stat()->size, bytes.size());
    Bytes all(bytes.size() + 10);
    EXPECT_EQ(file->ReadAt(0, all).value(), bytes.size()) << "as many as there are";
    all.resize(bytes.size());
    EXPECT_EQ(all, bytes);
    Bytes part(1000);
    EXPECT_EQ(file->ReadAtUncached(1'234'567, part).value(), part.size());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + 1'234'567));
    EXPECT_EQ(file->ReadAt(bytes.size() + 5, part).value(), 0U);
  });
}

TEST_F(RemoteFilesTest, ChangesNothing) {
  MemoryFileSystem there;
  there.Put("d/f", RandomBytes(rng_, 100));
  std::uint64_t changes = 0;
  there.fault = [&](MemoryFileSystem::Op op, const std::string&, std::uint64_t, std::uint64_t) {
    if (op != MemoryFileSystem::Op::kRead) ++changes;
    return Status::Ok();
  };
  AsRank0(there, [&](FileSystem& theirs) {
    for (const OpenMode mode : {OpenMode::kReadWrite, OpenMode::kCreate, OpenMode::kCreateNew}) {
      EXPECT_FALSE(theirs.Open("d/f", mode, true, 0600).ok());
    }
    EXPECT_FALSE(theirs.Remove("d/f").ok());
    EXPECT_FALSE(theirs.Rename("d/f", "d/g").ok());
    EXPECT_FALSE(theirs.RenameIfAbsent("d/f", "d/g").ok());
    EXPECT_FALSE(theirs.MakeDirectories("d/e").ok());
    const auto file = theirs.Open("d/f", OpenMode::kRead, true, 0).value();
    EXPECT_FALSE(file->WriteAt(0, Bytes{1}).ok());
    EXPECT_FALSE(file->Truncate(0).ok());
    EXPECT_FALSE(file->SetTimes(1, 1).ok());
    EXPECT_FALSE(file->Lock().ok());
  });
  EXPECT_EQ(changes, 0U);
}

TEST_F(RemoteFilesTest, ManyNamesComeInPieces) {
  MemoryFileSystem there;
  std::vector<std::string> names;
  for (int i = 0; i < 12'000; ++i) {
    names.push_back(std::string(200, 'n') + std::to_string(100'000 + i));
    there.Put("d/" + names.back(), {});
  }
  AsRank0(there, [&](FileSystem& theirs) { EXPECT_EQ(theirs.List("d").value(), names); });
  EXPECT_GT(traffic_.calls, 1U);
}

// Hashes that are made there are those that are made here; and only hashes travel.
TEST_F(RemoteFilesTest, HashesWhereTheFileIs) {
  MemoryFileSystem there;
  const Bytes bytes = RandomBytes(rng_, 20'000'000);
  there.Put("f", bytes).unreadable = {{5 * 4096, 1}};
  const auto here = there.Open("f", OpenMode::kRead).value();
  AsRank0(there, [&](FileSystem& theirs) {
    const auto file = theirs.Open("f", OpenMode::kRead, true, 0).value();
    for (const std::uint64_t size : {bytes.size(), bytes.size() - 5000, bytes.size() + 5000}) {
      const BlockHashing how{.block_size = 4096, .size = size};
      const std::uint64_t count = (size + 4095) / 4096;
      const auto hashes = HashBlocks(*file, how, nullptr, 0, count, 2, {}).value();
      EXPECT_EQ(hashes, HashBlocks(*here, how, nullptr, 0, count, 2, {}).value());
      EXPECT_TRUE(hashes[5].IsZero()) << "it cannot be read";
      EXPECT_EQ(hashes[6], HashBytes(HashTag::kDataLeaf, 6, ByteSpan(bytes).subspan(6 * 4096, 4096)));
      EXPECT_EQ(hashes.back().IsZero(), size > bytes.size()) << "it is not there as a whole";
    }
    EXPECT_CODE(HashBlocks(*file, {.block_size = 4096, .size = bytes.size()}, nullptr, 0, 1, 1, [] { return true; }).status(), Code::kInterrupted);
  });
  EXPECT_LT(traffic_.answer_bytes, 3 * 5000 * 16 + 10'000U);
}

TEST_F(RemoteFilesTest, LeavesAreKeyed) {
  MemoryFileSystem there;
  there.Put("f", RandomBytes(rng_, 5000));
  options_.key = LeafKey::Make(Bytes(32, 7)).value();
  AsRank0(there, [&](FileSystem& theirs) {
    const auto file = theirs.Open("f", OpenMode::kRead, true, 0).value();
    const auto leaves = HashBlocks(*file, {.block_size = 4096, .size = 5000, .keyed = true}, options_.key.get(), 0, 2, 1, {}).value();
    EXPECT_EQ(leaves[0], options_.key->Leaf(HashTag::kDataLeaf, 0, ByteSpan(there.At("f").bytes).first(4096)));
    EXPECT_NE(HashBlocks(*file, {.block_size = 4096, .size = 5000}, nullptr, 0, 1, 1, {}).value()[0], leaves[0]);
  });
}

}  // namespace
}  // namespace lzy::testing
