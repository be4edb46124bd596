// Ranges that views give for writes, by hand. Random ones are in hooks_ranges_test.cc.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "datatypes/type_map.h"
#include "hooks/ranges/mpi_view.h"

namespace lzy::hooks {
using namespace datatypes;
namespace {

using Ranges = std::vector<Interval>;
constexpr std::size_t kMany = 4096;
constexpr const char* kOfIntel = "Intel MPI writes such types elsewhere, so they are not followed";

/// Frees `filetype` before the view is used: programs do.
MpiView ViewOf(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype) {
  MpiView view;
  view.Set(displacement, etype, filetype, "native");
  MPI_Type_free(&filetype);
  return view;
}

TEST(MpiView, DefaultViewOfAnOpenedFile) {
  const MpiView view;
  EXPECT_EQ(view.Ranges(100, 50, kMany), (Ranges{{100, 150}}));
  EXPECT_EQ(view.Ranges(100, 0, kMany), Ranges());
  EXPECT_FALSE(view.Ranges(-1, 50, kMany));
  EXPECT_FALSE(view.Ranges(1, ~std::uint64_t{0}, kMany));
  EXPECT_FALSE(view.Ranges(std::numeric_limits<MPI_Offset>::max(), 1, kMany));
}

TEST(MpiView, WithoutHoles) {
  MpiView view;
  view.Set(16, MPI_INT, MPI_INT, "native");
  EXPECT_EQ(view.Ranges(3, 8, kMany), (Ranges{{28, 36}}));
  EXPECT_EQ(view.Ranges(3, 8, 1), (Ranges{{28, 36}}));
  view.Set(5, MPI_BYTE, MPI_BYTE, "native");
  EXPECT_EQ(view.Ranges(10, 7, kMany), (Ranges{{15, 22}}));
  MPI_Datatype row;
  MPI_Type_contiguous(5, MPI_INT, &row);
  EXPECT_EQ(ViewOf(8, MPI_INT, row).Ranges(2, 1000000, kMany), (Ranges{{16, 1000016}}));
}

TEST(MpiView, Vector) {
  MPI_Datatype vector;
  MPI_Type_vector(4, 2, 5, MPI_INT, &vector);
  const MpiView view = ViewOf(8, MPI_INT, vector);
  EXPECT_EQ(view.Ranges(0, 32, kMany), (Ranges{{8, 16}, {28, 36}, {48, 56}, {68, 76}}));
  // The next filetype follows at once.
  EXPECT_EQ(view.Ranges(5, 20, kMany), (Ranges{{52, 56}, {68, 84}}));
  // Data that are no multiple of the etype.
  EXPECT_EQ(view.Ranges(1, 6, kMany), (Ranges{{12, 16}, {28, 30}}));
}

TEST(MpiView, Subarray) {
  const int sizes[] = {6, 7};
  const int part[] = {3, 2};
  const int start[] = {2, 4};
  MPI_Datatype type;
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
  EXPECT_EQ(ViewOf(24, MPI_DOUBLE, type).Ranges(1, 40, kMany),
            (Ranges{{24 + 19 * 8, 24 + 20 * 8}, {24 + 25 * 8, 24 + 27 * 8}, {24 + 32 * 8, 24 + 34 * 8}}));
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_FORTRAN, MPI_DOUBLE, &type);
  EXPECT_EQ(ViewOf(0, MPI_DOUBLE, type).Ranges(0, 48, kMany), (Ranges{{26 * 8, 29 * 8}, {32 * 8, 35 * 8}}));
}

TEST(MpiView, BlocksAndStructs) {
  if (IsIntelMpi()) GTEST_SKIP() << kOfIntel;
  const int lengths[] = {2, 0, 1};
  const int offsets[] = {1, 5, 9};
  MPI_Datatype indexed;
  MPI_Type_indexed(3, lengths, offsets, MPI_INT, &indexed);
  EXPECT_EQ(ViewOf(0, MPI_INT, indexed).Ranges(0, 12, kMany), (Ranges{{4, 12}, {36, 40}}));
  const MPI_Aint bytes[] = {3, 20, 31};
  const MPI_Datatype types[] = {MPI_SHORT, MPI_DOUBLE, MPI_BYTE};
  MPI_Datatype record;
  MPI_Type_create_struct(3, lengths, bytes, types, &record);
  EXPECT_EQ(ViewOf(100, MPI_BYTE, record).Ranges(0, 5, kMany), (Ranges{{103, 107}, {131, 132}}));
}

MPI_Datatype SecondOfTwo(int size, int block) {
  const int kind = MPI_DISTRIBUTE_CYCLIC;
  const int processes = 2;
  MPI_Datatype type;
  MPI_Type_create_darray(2, 1, 1, &size, &kind, &block, &processes, MPI_ORDER_C, MPI_INT, &type);
  return type;
}

TEST(MpiView, CyclicDarray) {
  if (IsIntelMpi()) GTEST_SKIP() << kOfIntel;
  // Elements 2, 3, 6 and 7 of 8.
  EXPECT_EQ(ViewOf(0, MPI_INT, SecondOfTwo(8, 2)).Ranges(0, 16, kMany), (Ranges{{8, 16}, {24, 32}}));
  // Elements 2, 3 and 6 of 7.
  MPI_Datatype cut = SecondOfTwo(7, 2);
  EXPECT_EQ(BytesOf(MapOf(cut).layout, 1, 28, 0, 0, 12, kMany), (Ranges{{8, 16}, {24, 28}}));
  EXPECT_FALSE(ViewOf(0, MPI_INT, cut).Ranges(0, 12, kMany));
}

// As HDF5 makes them of a regular hyperslab: 2 x 3 blocks of 2 bytes, moved by 5.
TEST(MpiView, HyperslabOfHdf5) {
  if (IsIntelMpi()) GTEST_SKIP() << kOfIntel;
  const auto resized = [](MPI_Datatype type, MPI_Aint extent) {
    MPI_Datatype made;
    MPI_Type_create_resized(type, 0, extent, &made);
    MPI_Type_free(&type);
    return made;
  };
  MPI_Datatype row;
  MPI_Type_create_hvector(3, 2, 4, MPI_BYTE, &row);
  row = resized(row, 20);
  MPI_Datatype rows;
  MPI_Type_create_hvector(2, 1, 40, row, &rows);
  MPI_Type_free(&row);
  const int length = 1;
  const MPI_Aint offset = 5;
  MPI_Datatype moved;
  MPI_Type_create_hindexed(1, &length, &offset, rows, &moved);
  MPI_Type_free(&rows);
  moved = resized(moved, 100);
  EXPECT_EQ(ViewOf(0, MPI_BYTE, moved).Ranges(2, 12, kMany),
            (Ranges{{9, 11}, {13, 15}, {45, 47}, {49, 51}, {53, 55}, {105, 107}}));
}

// A write with the file pointer from its second filetype on: ROMIO without data sieving goes to the int of the first.
TEST(MpiView, BoundsThatOtherDataLieWithinAreNotFollowed) {
  if (IsIntelMpi()) GTEST_SKIP() << kOfIntel;
  MPI_Datatype element;
  MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &element);
  const int offsets[] = {1, 5};
  MPI_Datatype blocks;
  MPI_Type_create_indexed_block(2, 3, offsets, element, &blocks);
  const int lengths[] = {4, 1};
  const MPI_Datatype types[] = {blocks, MPI_INT};
  const auto record = [&](MPI_Aint at) {
    const MPI_Aint both[] = {-9, at};
    MPI_Datatype made;
    MPI_Datatype resized;
    MPI_Type_create_struct(2, lengths, both, types, &made);
    MPI_Type_create_resized(made, 0, 480, &resized);  // (MPI libraries differ in the extent of the struct.)
    MPI_Type_free(&made);
    return resized;
  };
  EXPECT_FALSE(ViewOf(0, MPI_BYTE, record(447)).Ranges(0, 4, kMany));
  EXPECT_TRUE(ViewOf(0, MPI_BYTE, record(455)).Ranges(0, 4, kMany));
  MPI_Type_free(&element);
  MPI_Type_free(&blocks);
}

// What MPI libraries write elsewhere, or may.
TEST(MpiView, DoubtfulTypesAreNotFollowed) {
  MpiView view;
  for (const MPI_Datatype pair : {MPI_SHORT_INT, MPI_DOUBLE_INT, MPI_LONG_DOUBLE_INT}) {
    view.Set(0, pair, pair, "native");
    EXPECT_FALSE(view.Ranges(0, 4, kMany));
  }
  MPI_Datatype resized;
  MPI_Type_create_resized(MPI_INT, -4, 12, &resized);
  EXPECT_FALSE(ViewOf(0, MPI_INT, resized).Ranges(0, 4, kMany));
  MPI_Datatype vector;
  MPI_Type_vector(2, 1, 100, MPI_INT, &vector);
  MPI_Type_create_resized(vector, 0, 4, &resized);
  EXPECT_FALSE(ViewOf(0, MPI_INT, resized).Ranges(0, 4, kMany));
  MPI_Type_free(&vector);
  MPI_Datatype nothing;
  MPI_Datatype record;
  MPI_Type_contiguous(0, MPI_INT, &nothing);
  const int lengths[] = {1, 1};
  const MPI_Aint at[] = {0, 4};
  const MPI_Datatype types[] = {MPI_INT, nothing};
  MPI_Type_create_struct(2, lengths, at, types, &record);
  MPI_Type_free(&nothing);
  EXPECT_FALSE(ViewOf(0, MPI_INT, record).Ranges(0, 4, kMany));
  MPI_Type_vector(2, 1, -3, MPI_INT, &vector);
  const MPI_Aint offset = 100;
  MPI_Datatype backwards;
  MPI_Type_create_hindexed_block(1, 1, &offset, vector, &backwards);
  EXPECT_FALSE(ViewOf(0, MPI_INT, backwards).Ranges(0, 4, kMany));
  MPI_Type_free(&vector);
}

TEST(MpiView, ViewsWithoutMeaningAreNotFollowed) {
  MpiView view;
  view.Set(0, MPI_INT, MPI_INT, "external32");
  EXPECT_FALSE(view.Ranges(0, 4, kMany));
  view.Set(0, MPI_DOUBLE, MPI_INT, "native");  // a filetype that is no multiple of the etype
  EXPECT_FALSE(view.Ranges(0, 4, kMany));
  view.Set(-1, MPI_INT, MPI_INT, "native");
  EXPECT_FALSE(view.Ranges(0, 4, kMany));
  view.Set(0, MPI_INT, MPI_DATATYPE_NULL, "native");
  EXPECT_FALSE(view.Ranges(0, 4, kMany));
  MPI_Datatype nothing;
  MPI_Type_contiguous(0, MPI_INT, &nothing);
  EXPECT_FALSE(ViewOf(0, MPI_BYTE, nothing).Ranges(0, 4, kMany));
}

TEST(MpiView, OffsetsThatOverflow) {
  if (IsIntelMpi()) GTEST_SKIP() << kOfIntel;
  MPI_Datatype wide;
  MPI_Type_create_resized(MPI_INT, 0, std::numeric_limits<MPI_Aint>::max() / 2, &wide);
  const MpiView view = ViewOf(0, MPI_INT, wide);
  const auto extent = static_cast<std::uint64_t>(std::numeric_limits<MPI_Aint>::max() / 2);
  EXPECT_EQ(view.Ranges(1, 4, kMany), (Ranges{{extent, extent + 4}}));
  EXPECT_FALSE(view.Ranges(3, 4, kMany));
}

TEST(MapOf, PairsWithHoles) {
  const TypeMap map = MapOf(MPI_SHORT_INT);
  EXPECT_TRUE(map.doubtful);
  EXPECT_EQ(BytesOf(map.layout, 3, 8, 0, 1, 14, kMany), (Ranges{{1, 2}, {4, 10}, {12, 18}}));
}

TEST(MapOf, TypesThatNestTooDeeplyAreHulls) {
  MPI_Datatype type;
  MPI_Type_vector(2, 1, 3, MPI_BYTE, &type);
  for (int i = 0; i < 100; ++i) {
    MPI_Datatype outer;
    MPI_Type_dup(type, &outer);
    MPI_Type_free(&type);
    type = outer;
  }
  EXPECT_EQ(BytesOf(MapOf(type).layout, 1, 4, 10, 0, 2, kMany), (Ranges{{10, 14}}));
  EXPECT_TRUE(MapOf(type).doubtful);
  MPI_Type_free(&type);
}

// Small types made of small types: without a limit, 4^20 parts.
TEST(MapOf, WorkIsBounded) {
#ifdef OPEN_MPI
  constexpr int kLevels = 9;  // it writes all of a type down at once, and runs out of memory with more
#else
  constexpr int kLevels = 20;
#endif
  MPI_Datatype type;
  MPI_Type_vector(2, 1, 3, MPI_BYTE, &type);
  for (int i = 0; i < kLevels; ++i) {
    MPI_Datatype copy;
    MPI_Type_dup(type, &copy);
    const int lengths[] = {1, 1, 1, 1};
    const MPI_Datatype types[] = {type, copy, type, copy};
    MPI_Aint lower;
    MPI_Aint extent;
    MPI_Type_get_extent(type, &lower, &extent);
    const MPI_Aint offsets[] = {0, extent + 1, 2 * (extent + 1), 3 * (extent + 1)};
    MPI_Datatype outer;
    MPI_Type_create_struct(4, lengths, offsets, types, &outer);
    MPI_Type_free(&type);
    MPI_Type_free(&copy);
    type = outer;
  }
  const TypeMap map = MapOf(type);
  MPI_Count size;
  MPI_Count lower;
  MPI_Count extent;
  MPI_Type_size_x(type, &size);
  MPI_Type_get_true_extent_x(type, &lower, &extent);
  EXPECT_TRUE(map.doubtful);
  EXPECT_EQ(map.layout.size, static_cast<std::uint64_t>(size));
  const auto ranges = BytesOf(map.layout, 1, extent, 0, 0, map.layout.size, kMany);
  EXPECT_EQ(ranges.back().end, static_cast<std::uint64_t>(extent));
  EXPECT_LE(ranges.size(), kMany);
  MPI_Type_free(&type);
}

// What is joined keeps in mind whether it was in order: filetypes that are not must not be followed.
TEST(LayoutList, HullsRememberIfRunsWereInOrder) {
  for (const bool swapped : {false, true}) {
    LayoutList list(4, 100);
    for (int i = 0; i < 100; ++i) list.Add(DataLayout::Run(10 * (swapped && i < 2 ? 1 - i : i), 5));
    const DataLayout layout = list.Take();
    EXPECT_EQ(layout.size, 500u);
    EXPECT_EQ(layout.InOrder(), !swapped);
    EXPECT_EQ(Moved(layout, 7).InOrder(), !swapped);
    EXPECT_EQ(Repeated(3, 1000, layout).InOrder(), !swapped);
  }
}

// More blocks than are kept apart: as many in each hull.
TEST(MapOf, ManyBlocksAreJoined) {
  if (IsIntelMpi()) GTEST_SKIP() << kOfIntel;
  std::vector<int> lengths(100, 2);
  std::vector<MPI_Aint> offsets;
  for (int i = 0; i < 100; ++i) offsets.push_back(10 * i);
  MPI_Datatype type;
  MPI_Type_create_hindexed(100, lengths.data(), offsets.data(), MPI_BYTE, &type);
  const Ranges ranges = BytesOf(MapOf(type, 16).layout, 1, 992, 0, 0, 200, kMany);
  EXPECT_EQ(ranges.size(), 13u);
  EXPECT_EQ(ranges[0], (Interval{0, 72}));
  EXPECT_EQ(ranges[12], (Interval{960, 992}));
  EXPECT_EQ(BytesOf(MapOf(type, 1).layout, 1, 992, 0, 0, 200, kMany), (Ranges{{0, 992}}));
  EXPECT_EQ(BytesOf(MapOf(type).layout, 1, 992, 0, 0, 200, kMany).size(), 100u);
  EXPECT_FALSE(MapOf(type, 1).doubtful);
  MPI_Type_free(&type);
}

TEST(DataBytes, CountsBytesAndRefusesWrongArguments) {
  EXPECT_EQ(DataBytes(10, MPI_INT), 10 * sizeof(int));
  EXPECT_EQ(DataBytes(0, MPI_INT), 0u);
  EXPECT_FALSE(DataBytes(-1, MPI_INT));
  EXPECT_FALSE(DataBytes(1, MPI_DATATYPE_NULL));
  EXPECT_FALSE(DataBytes(std::numeric_limits<std::int64_t>::max(), MPI_DOUBLE_COMPLEX));
}

}  // namespace
}  // namespace lzy::hooks
