#pragma once
// A directory of its own for each test of real files, and bytes to write to them.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "status_matchers.h"

namespace lzy::testing {

using Bytes = std::vector<std::uint8_t>;

/// A directory of its own, below a parent that decides the file system under test; removed at the end.
class TempDir {
 public:
  explicit TempDir(const std::string& parent = "/tmp") {
    std::string name = parent + "/lzy_file_test.XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline Bytes Pattern(std::size_t size, unsigned seed = 1) {
  Bytes bytes(size);
  std::uint32_t state = seed * 2654435761u + 1;
  for (auto& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

class FileTest : public ::testing::Test {
 protected:
  FileSystem& files_ = PosixFileSystem();
  TempDir dir_;

  std::unique_ptr<File> Make(const std::string& path, const Bytes& content = {}) {
    auto file = files_.Open(path, OpenMode::kCreateNew);
    EXPECT_OK(file);
    if (!file.ok()) return nullptr;
    EXPECT_OK((*file)->WriteAt(0, content));
    return std::move(*file);
  }
};

}  // namespace lzy::testing
