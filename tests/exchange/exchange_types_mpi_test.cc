// Payloads against MPI_Pack, an independent witness: datatypes of every making, and any range of their bytes.
#include <algorithm>
#include <cstddef>
#include <limits>

#include "transport/packed_type.h"
#include "validated/transfer.h"
#include "exchange_fixture.h"

namespace lzy::validated {
namespace {

struct NamedType {
  std::string name;
  MPI_Datatype type;
};

/// Frees what it made.
class Types {
 public:
  ~Types() {
    for (NamedType& t : all_) MPI_Type_free(&t.type);
  }
  template <class Make>
  MPI_Datatype Add(const std::string& name, const Make& make) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    EXPECT_EQ(make(&type), MPI_SUCCESS) << name;
    MPI_Type_commit(&type);
    all_.push_back({name, type});
    return type;
  }
  const std::vector<NamedType>& all() const { return all_; }

 private:
  std::vector<NamedType> all_;
};

void AddArrays(Types& types) {
  for (const int order : {MPI_ORDER_C, MPI_ORDER_FORTRAN}) {
    const std::string suffix = order == MPI_ORDER_C ? " in C's order" : " in Fortran's order";
    const int sizes[] = {5, 7, 4}, parts[] = {2, 3, 4}, starts[] = {1, 2, 0};
    types.Add("subarray" + suffix, [&](MPI_Datatype* t) { return MPI_Type_create_subarray(3, sizes, parts, starts, order, MPI_SHORT, t); });
    const int grid[] = {2, 1, 2}, arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG, 1};
    const int ways[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC};
    for (int place = 0; place < 4; ++place) {
      types.Add("darray " + std::to_string(place) + suffix,
                [&](MPI_Datatype* t) { return MPI_Type_create_darray(4, place, 3, sizes, ways, arguments, grid, order, MPI_INT, t); });
    }
    const int cycles[] = {2, MPI_DISTRIBUTE_DFLT_DARG, 3};
    const int others[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK};
    types.Add("darray of cycles" + suffix, [&](MPI_Datatype* t) {
      return MPI_Type_create_darray(4, 1, 3, sizes, others, cycles, grid, order, MPI_CHAR, t);
    });
  }
}

void AddAll(Types& types) {
  const MPI_Datatype vector = types.Add("vector", [](MPI_Datatype* t) { return MPI_Type_vector(4, 2, 5, MPI_INT, t); });
  types.Add("dense vector", [](MPI_Datatype* t) { return MPI_Type_vector(4, 5, 5, MPI_INT, t); });
  types.Add("hvector", [](MPI_Datatype* t) { return MPI_Type_create_hvector(3, 1, 13, MPI_DOUBLE, t); });
  types.Add("contiguous of vectors", [&](MPI_Datatype* t) { return MPI_Type_contiguous(3, vector, t); });
  const MPI_Datatype resized = types.Add("resized", [&](MPI_Datatype* t) { return MPI_Type_create_resized(vector, -8, 96, t); });
  types.Add("dup", [&](MPI_Datatype* t) { return MPI_Type_dup(resized, t); });
  const int lengths[] = {1, 0, 3, 2}, places[] = {6, 1, 0, 9};
  const MPI_Aint addresses[] = {70, 3, 0, 130};
  types.Add("indexed", [&](MPI_Datatype* t) { return MPI_Type_indexed(4, lengths, places, MPI_INT, t); });
  types.Add("hindexed", [&](MPI_Datatype* t) { return MPI_Type_create_hindexed(4, lengths, addresses, MPI_SHORT, t); });
  types.Add("indexed block", [&](MPI_Datatype* t) { return MPI_Type_create_indexed_block(4, 1, places, MPI_INT, t); });
  types.Add("hindexed block", [&](MPI_Datatype* t) { return MPI_Type_create_hindexed_block(4, 2, addresses, MPI_SHORT, t); });
  const MPI_Datatype members[] = {MPI_CHAR, MPI_INT, MPI_DOUBLE, vector};
  const MPI_Aint offsets[] = {1, 8, 16, 64};
  const int counts[] = {3, 2, 4, 1};
  types.Add("struct", [&](MPI_Datatype* t) { return MPI_Type_create_struct(4, counts, offsets, members, t); });
  types.Add("pair with a gap", [](MPI_Datatype* t) { return MPI_Type_contiguous(3, MPI_SHORT_INT, t); });
  types.Add("pair of double and int", [](MPI_Datatype* t) { return MPI_Type_contiguous(2, MPI_DOUBLE_INT, t); });
  types.Add("pair of long double and int", [](MPI_Datatype* t) { return MPI_Type_contiguous(2, MPI_LONG_DOUBLE_INT, t); });
  types.Add("nothing", [](MPI_Datatype* t) { return MPI_Type_contiguous(0, MPI_INT, t); });
  types.Add("one byte further on", [](MPI_Datatype* t) {
    const int one = 24;
    const MPI_Aint at = 40;
    return MPI_Type_create_hindexed(1, &one, &at, MPI_BYTE, t);
  });
  AddArrays(types);
}

struct Room {
  explicit Room(MPI_Datatype type, int count) {
    MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &true_lower, &true_extent);
    ahead = static_cast<std::size_t>(std::max<MPI_Aint>(0, -true_lower)) + 64;
    bytes.assign(ahead + static_cast<std::size_t>(std::max<MPI_Aint>(0, true_lower) + true_extent + extent * count) + 64, 0x5a);
  }
  std::uint8_t* origin() { return bytes.data() + ahead; }
  std::size_t ahead = 0;
  std::vector<std::uint8_t> bytes;
};

std::vector<std::uint8_t> Packed(std::uint8_t* origin, int count, MPI_Datatype type) {
  int size = 0, at = 0;
  MPI_Type_size(type, &size);
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(size) * static_cast<std::size_t>(count));
  std::vector<std::uint8_t> room(packed.size() + 64);
  EXPECT_EQ(MPI_Pack(origin, count, type, room.data(), static_cast<int>(room.size()), &at, MPI_COMM_SELF), MPI_SUCCESS);
  EXPECT_EQ(static_cast<std::size_t>(at), packed.size());
  std::copy_n(room.begin(), packed.size(), packed.begin());
  return packed;
}

TEST(PackedType, IsWhatMpiPacks) {
  Types types;
  AddAll(types);
  for (const auto& [name, type] : types.all()) {
    for (const int count : {0, 1, 3}) {
      Room room(type, count);
      room.bytes = BytesOf(room.bytes.size(), 4);
      const auto payload = Payload::Of(room.origin(), count, type);
      ASSERT_OK(payload);
      const auto expected = Packed(room.origin(), count, type);
      ASSERT_EQ(payload->bytes(), expected.size()) << name;
      for (std::size_t from = 0; from <= expected.size(); from += 1 + from / 3) {
        for (std::size_t to = from; to <= expected.size(); to += 1 + (to - from) / 2) {
          std::vector<std::uint8_t> out(to - from);
          payload->CopyOut(from, out);
          ASSERT_TRUE(std::equal(out.begin(), out.end(), expected.begin() + static_cast<std::ptrdiff_t>(from))) << name << " " << from << " " << to;
        }
      }
    }
  }
}

TEST(PackedType, GoesWhereMpiUnpacks) {
  Types types;
  AddAll(types);
  for (const auto& [name, type] : types.all()) {
    constexpr int kCount = 3;
    Room mine(type, kCount), mpis(type, kCount);
    const auto payload = Payload::Of(mine.origin(), kCount, type);
    ASSERT_OK(payload);
    const auto stream = BytesOf(payload->bytes(), 9);
    int at = 0;
    // Open MPI refuses a null buffer even where there is nothing in it.
    if (!stream.empty()) {
      MPI_Unpack(stream.data(), static_cast<int>(stream.size()), &at, mpis.origin(), kCount, type, MPI_COMM_SELF);
    }
    for (std::size_t from = 0; from < stream.size(); from += 7) {
      payload->CopyIn(from, ByteSpan(stream).subspan(from, std::min<std::size_t>(7, stream.size() - from)));
    }
    EXPECT_EQ(mine.bytes, mpis.bytes) << name;
  }
}

TEST(PackedType, WithoutGapsNothingIsCopied) {
  std::vector<std::uint8_t> bytes(1000);
  EXPECT_EQ(Payload::Of(bytes.data(), 100, MPI_DOUBLE)->contiguous(), bytes.data());
  EXPECT_EQ(Payload::Of(bytes.data(), 100, MPI_LONG)->contiguous(), bytes.data());
  Types types;
  const auto dense = types.Add("dense", [](MPI_Datatype* t) { return MPI_Type_vector(4, 5, 5, MPI_INT, t); });
  EXPECT_EQ(Payload::Of(bytes.data(), 3, dense)->contiguous(), bytes.data());
  const auto gaps = types.Add("gaps", [](MPI_Datatype* t) { return MPI_Type_vector(4, 5, 6, MPI_INT, t); });
  EXPECT_EQ(Payload::Of(bytes.data(), 3, gaps)->contiguous(), nullptr);
}

TEST(PackedType, RefusesWhatCannotBe) {
  std::uint8_t byte = 0;
  EXPECT_CODE(Payload::Of(&byte, -1, MPI_BYTE), Code::kInvalidArgument);
  EXPECT_CODE(Payload::Of(&byte, 1, MPI_DATATYPE_NULL), Code::kInvalidArgument);
  EXPECT_CODE(Payload::Of(&byte, std::numeric_limits<MPI_Count>::max() / 2, MPI_DOUBLE), Code::kInvalidArgument);
}

// Both sides have the same bytes in different places.
TEST(PackedType, TypesTravelWithFaultsInTheirWay) {
  auto link = Link::Make(MPI_COMM_WORLD, kTiny);
  ASSERT_OK(link);
  Types types;
  AddAll(types);
  Faults faults(5);
  faults.share = 0.1;  // request and reply may be struck: eight times in a row is one in a million, with 0.2 one in four thousand
  const int next = (WorldRank() + 1) % WorldSize(), before = (WorldRank() + WorldSize() - 1) % WorldSize();
  for (const auto& [name, type] : types.all()) {
    constexpr int kCount = 40;
    Room from(type, kCount), to(type, kCount);
    from.bytes = BytesOf(from.bytes.size(), 1);
    const auto out = Payload::Of(from.origin(), kCount, type);
    const auto in = Payload::Of(to.origin(), kCount, type);
    ASSERT_OK(out);
    ASSERT_OK(in);
    Envelope envelope;
    Task receive = Receive(*link, *in, before, 0, false, &envelope), send = Send(*link, *out, next, 0, false);
    receive.Start();
    send.Start();
    Pump::OfProcess().RunUntil([&] { return receive.done() && send.done(); });
    ASSERT_OK(receive.status());
    ASSERT_OK(send.status());
    EXPECT_EQ(Packed(to.origin(), kCount, type), Packed(from.origin(), kCount, type)) << name;
  }
  EXPECT_GT(faults.Print("datatypes"), 10u);
}

}  // namespace
}  // namespace lzy::validated
