#pragma once
// For tests of finding datasets, sidecars and debris: see ResolveTest.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "names/orphans.h"
#include "names/resolve.h"
#include "passing_files.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy {

namespace stdfs = std::filesystem;

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
    const bool committed = sb.state != SidecarState::kNeverCommitted;
    sb.stamp = {committed ? stat->size : 0, committed ? stat->mtime_ns : 0, stat->inode, stat->file_system, stat->birth_ns};
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

  /// What FindSidecar says, without the directory.
  std::string SidecarName(const std::string& path) {
    auto found = FindSidecar(fs_, path);
    return found.ok() ? BaseNameOf(*found) : "";
  }
  /// Paths of what may be removed; in brackets what may be in use.
  std::vector<std::string> Orphans(const std::string& path) {
    auto orphans = FindOrphans(fs_, path);
    if (!orphans.ok()) return {orphans.status().message()};
    std::vector<std::string> out;
    for (const Orphan& orphan : *orphans) out.push_back(!orphan.kept.empty() ? "(" + orphan.path + ")" : orphan.path);
    return out;
  }

  FileSystem& fs_ = PosixFileSystem();
  std::unique_ptr<Communicator> comm_ = SelfCommunicator();
  stdfs::path scratch_;
  int shared_ = 0;
  int sets_ = 0;
};

}  // namespace lzy
