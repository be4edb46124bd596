// Ranges that views give for writes, held against MPI_File_get_byte_offset of every element.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "view.h"

namespace lzy::hooks {
namespace {

class Views : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "lzy-view-" + std::to_string(getpid());
    ASSERT_EQ(MPI_File_open(MPI_COMM_SELF, path_.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file_), 0);
  }
  void TearDown() override {
    MPI_File_close(&file_);
    MPI_File_delete(path_.c_str(), MPI_INFO_NULL);
  }
  void SetView(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype) {
    MPI_Type_commit(&filetype);
    ASSERT_EQ(MPI_File_set_view(file_, displacement, etype, filetype, "native", MPI_INFO_NULL), MPI_SUCCESS);
    view_.Set(displacement, etype, filetype, "native");
  }
  MPI_Offset ByteOf(MPI_Offset etype) {
    MPI_Offset at = -1;
    MPI_File_get_byte_offset(file_, etype, &at);
    return at;
  }
  /// The range of `count` etypes of `size` bytes holds each of them; if `tight`, nothing before the first and after the
  /// last.
  void Check(MPI_Offset first, MPI_Offset count, std::uint64_t size, bool tight) {
    const auto range = view_.RangeOf(file_, first, static_cast<std::uint64_t>(count) * size);
    ASSERT_TRUE(range);
    std::uint64_t least = ~std::uint64_t{0};
    std::uint64_t most = 0;
    for (MPI_Offset i = first; i < first + count; ++i) {
      least = std::min(least, static_cast<std::uint64_t>(ByteOf(i)));
      most = std::max(most, static_cast<std::uint64_t>(ByteOf(i)) + size);
    }
    if (count == 0) {
      EXPECT_EQ(range->begin, range->end);
      return;
    }
    EXPECT_LE(range->begin, least) << first << " " << count;
    EXPECT_GE(range->end, most) << first << " " << count;
    EXPECT_TRUE(!tight || *range == (Interval{least, most})) << first << " " << count;
  }
  void CheckMany(std::uint64_t size, bool tight) {
    for (MPI_Offset first = 0; first < 20; ++first) {
      for (MPI_Offset count = 0; count < 30; ++count) Check(first, count, size, tight);
    }
  }

  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
  View view_;
};

TEST_F(Views, OfAFileJustOpened) {
  EXPECT_EQ(view_.RangeOf(file_, 100, 50), (Interval{100, 150}));
  EXPECT_EQ(view_.RangeOf(file_, 100, 0), Interval{});
  EXPECT_FALSE(view_.RangeOf(file_, -1, 50));
  EXPECT_FALSE(view_.RangeOf(file_, 1, ~std::uint64_t{0}));
}

TEST_F(Views, WithoutHoles) {
  SetView(16, MPI_INT, MPI_INT);
  EXPECT_EQ(view_.RangeOf(file_, 3, 8), (Interval{28, 36}));
  MPI_Datatype row;
  MPI_Type_contiguous(5, MPI_INT, &row);
  SetView(8, MPI_INT, row);
  CheckMany(sizeof(int), true);
  MPI_Type_free(&row);
}

TEST_F(Views, Vector) {
  MPI_Datatype vector;
  MPI_Type_vector(4, 2, 5, MPI_INT, &vector);
  SetView(8, MPI_INT, vector);
  CheckMany(sizeof(int), true);
  MPI_Type_free(&vector);
}

TEST_F(Views, Subarray) {
  const int sizes[] = {6, 7};
  const int part[] = {3, 2};
  const int start[] = {2, 4};
  MPI_Datatype type;
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
  SetView(24, MPI_DOUBLE, type);
  CheckMany(sizeof(double), true);
  MPI_Type_free(&type);
}

TEST_F(Views, TilesThatLieWithinEachOther) {
  MPI_Datatype vector;
  MPI_Datatype resized;
  MPI_Type_vector(2, 1, 100, MPI_INT, &vector);
  MPI_Type_create_resized(vector, 0, 4 * sizeof(int), &resized);
  SetView(0, MPI_INT, resized);
  CheckMany(sizeof(int), false);
  MPI_Type_free(&vector);
  MPI_Type_free(&resized);
}

TEST_F(Views, OtherRepresentationsAreNotFollowed) {
  view_.Set(0, MPI_INT, MPI_INT, "external32");
  EXPECT_FALSE(view_.RangeOf(file_, 0, 4));
}

TEST(DataBytes, OfCallsThatMakeSense) {
  EXPECT_EQ(DataBytes(10, MPI_INT), 10 * sizeof(int));
  EXPECT_EQ(DataBytes(0, MPI_INT), 0u);
  EXPECT_FALSE(DataBytes(-1, MPI_INT));
  EXPECT_FALSE(DataBytes(1, MPI_DATATYPE_NULL));
  EXPECT_FALSE(DataBytes(std::numeric_limits<std::int64_t>::max(), MPI_DOUBLE_COMPLEX));
}

}  // namespace
}  // namespace lzy::hooks
