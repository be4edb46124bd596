// A region in several files, held against the same bytes in one.
#include "storage/parted_file.h"

#include <gtest/gtest.h>

#include <random>

#include "memory_files.h"
#include "status_matchers.h"

namespace lzy {
namespace {

using testing::MemoryFileSystem;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kUnit = 64, kBase = 100;

class PartedFileTest : public ::testing::Test {
 protected:
  std::unique_ptr<PartedFile> Open(std::size_t parts, std::size_t missing = SIZE_MAX) {
    std::vector<std::unique_ptr<File>> files;
    for (std::size_t d = 0; d < parts; ++d) {
      files.push_back(d == missing ? nullptr : fs_.Open(Name(d), OpenMode::kCreate).value());
    }
    return std::make_unique<PartedFile>("region", std::move(files), kBase, kUnit);
  }
  static std::string Name(std::size_t d) { return "p" + std::to_string(d); }
  Bytes Some(std::size_t size) {
    Bytes bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(1 + rng_() % 255);
    return bytes;
  }

  MemoryFileSystem fs_;
  std::mt19937_64 rng_{7};
};

TEST_F(PartedFileTest, IsLikeOneFile) {
  for (std::size_t parts : {1u, 2u, 5u}) {
    const auto file = Open(parts);
    Bytes model(kUnit * 13);
    ASSERT_OK(file->WriteAt(0, model));
    for (int i = 0; i < 300; ++i) {
      const std::size_t at = rng_() % model.size(), length = 1 + rng_() % (model.size() - at);
      const Bytes piece = Some(length);
      ASSERT_OK(file->WriteAt(at, piece));
      std::copy(piece.begin(), piece.end(), model.begin() + static_cast<std::ptrdiff_t>(at));
      Bytes got(model.size());
      ASSERT_EQ(i % 2 == 0 ? *file->ReadAt(0, got) : *file->ReadAtUncached(0, got), model.size());
      ASSERT_EQ(got, model);
    }
  }
}

TEST_F(PartedFileTest, UnitsAreWhereTheFormatSays) {
  const auto file = Open(3);
  Bytes region(kUnit * 8);
  for (std::size_t i = 0; i < region.size(); ++i) region[i] = static_cast<std::uint8_t>(i / kUnit);
  ASSERT_OK(file->WriteAt(0, region));
  for (std::size_t x = 0; x < 8; ++x) {
    const Bytes& part = fs_.At(Name(x % 3)).bytes;
    for (std::size_t y = 0; y < kUnit; ++y) ASSERT_EQ(part.at(kBase + x / 3 * kUnit + y), x);
  }
}

TEST_F(PartedFileTest, PartThatIsNotThereEndsTheFileOrIsUnreadable) {
  ASSERT_OK(Open(3)->WriteAt(0, Some(kUnit * 9)));
  const auto file = Open(3, 1);
  Bytes to(kUnit);
  EXPECT_EQ(*file->ReadAt(0, to), kUnit);
  EXPECT_EQ(*file->ReadAt(kUnit, to), 0u);
  EXPECT_EQ(*file->ReadAt(kUnit / 2, to), kUnit / 2) << "with nothing behind it";
  to.resize(3 * kUnit);
  EXPECT_CODE(file->ReadAt(0, to), Code::kUnreadable) << "or what is behind it would be taken for missing";
  EXPECT_CODE(file->ReadAtUncached(kUnit, to), Code::kUnreadable);
  EXPECT_CODE(file->WriteAt(kUnit, to), Code::kNotFound);
  EXPECT_OK(file->Sync());
}

TEST_F(PartedFileTest, PartThatWasCutIsTheSame) {
  ASSERT_OK(Open(3)->WriteAt(0, Some(kUnit * 9)));
  fs_.At(Name(1)).bytes.resize(kBase + kUnit + 10);
  const auto file = Open(3);
  Bytes to(kUnit);
  EXPECT_EQ(*file->ReadAt(4 * kUnit, to), 10u);
  to.resize(2 * kUnit);
  EXPECT_CODE(file->ReadAt(4 * kUnit, to), Code::kUnreadable);
}

}  // namespace
}  // namespace lzy
