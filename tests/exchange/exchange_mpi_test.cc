// Validated messages without faults: sizes, order, wildcards, truncation; what is too large; messages on top of each other.
#include <algorithm>
#include <cstdlib>
#include <deque>

#include "validated/collectives.h"
#include "validated/transfer.h"
#include "exchange_fixture.h"

namespace lzy::validated {
namespace {

Pump& ThePump() {
  return Pump::OfProcess();
}

/// Several tasks at once.
class Tasks {
 public:
  void Add(Task task) {
    tasks_.push_back(std::move(task));
    tasks_.back().Start();
  }
  void Finish() {
    ThePump().RunUntil([this] { return std::all_of(tasks_.begin(), tasks_.end(), [](const Task& t) { return t.done(); }); });
  }
  const Status& status(std::size_t i) const { return tasks_[i].status(); }
  std::size_t size() const { return tasks_.size(); }

 private:
  std::deque<Task> tasks_;
};

class ExchangeTest : public ::testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override {
    auto link = Link::Make(MPI_COMM_WORLD, GetParam());
    ASSERT_OK(link);
    link_ = *link;
  }
  std::vector<std::size_t> SizesAroundThresholds() const {
    const Sizes s = SizesFor(0, GetParam());
    std::vector<std::size_t> sizes = {0, 1, 15, 16, 17, 511, 512, 513};
    for (const std::uint64_t at : {s.most_inline, s.most_whole, s.leaf, s.first_chunk, s.first_chunk * 3, s.most_chunk,
                                   16 * s.leaf, 256 * s.leaf, 5 * s.most_chunk}) {
      for (const std::uint64_t size : {at == 0 ? at : at - 1, at, at + 1}) sizes.push_back(size);
    }
    return sizes;
  }
  std::shared_ptr<Link> link_;
  const int rank_ = WorldRank();
  const int size_ = WorldSize();
};

// Every rank sends to the next and receives from the one before, itself if it is alone.
TEST_P(ExchangeTest, SizesAroundEveryThreshold) {
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  for (const std::size_t size : SizesAroundThresholds()) {
    auto out = BytesOf(size, size * 10 + static_cast<std::uint64_t>(rank_));
    const auto expected = BytesOf(size, size * 10 + static_cast<std::uint64_t>(before));
    std::vector<std::uint8_t> in(size + 3, 0xee);
    Envelope envelope;
    Tasks tasks;
    tasks.Add(Receive(link_, PayloadOf(in), before, 5, false, &envelope));
    tasks.Add(Send(link_, PayloadOf(out), next, 5, false));
    tasks.Finish();
    ASSERT_OK(tasks.status(0));
    ASSERT_OK(tasks.status(1));
    EXPECT_EQ(envelope.source, before);
    EXPECT_EQ(envelope.tag, 5);
    ASSERT_EQ(envelope.bytes, size);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), in.begin())) << size;
    ASSERT_EQ(std::vector<std::uint8_t>(in.end() - 3, in.end()), std::vector<std::uint8_t>(3, 0xee)) << "nothing behind";
  }
}

TEST_P(ExchangeTest, ValidatesWhatIsThere) {
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  for (const std::size_t size : SizesAroundThresholds()) {
    auto out = BytesOf(size, size + static_cast<std::uint64_t>(rank_));
    const auto expected = BytesOf(size, size + static_cast<std::uint64_t>(before));
    auto in = expected;
    for (std::size_t at = 0; at < size; at += 1 + size / 7) in[at] ^= 0x10;
    Envelope envelope;
    Tasks tasks;
    tasks.Add(Receive(link_, PayloadOf(in), before, 0, true, &envelope));
    tasks.Add(Send(link_, PayloadOf(out), next, 0, true));
    tasks.Finish();
    ASSERT_OK(tasks.status(0));
    ASSERT_OK(tasks.status(1));
    ASSERT_EQ(in, expected) << size;
  }
}

TEST_P(ExchangeTest, BroadcastSizes) {
  for (const std::size_t size : SizesAroundThresholds()) {
    {
      const int root = static_cast<int>(size % static_cast<std::size_t>(size_));
      const auto expected = BytesOf(size, size + 77u * static_cast<std::uint64_t>(root));
      for (const bool in_place : {false, true}) {
        auto bytes = rank_ == root || in_place ? expected : std::vector<std::uint8_t>(size, 1);
        if (rank_ != root && in_place && size > 0) bytes[size / 2] ^= 1;
        ASSERT_OK(ThePump().Run(Broadcast(link_, PayloadOf(bytes), root, in_place)));
        ASSERT_EQ(bytes, expected) << size << (in_place ? " in place" : "");
      }
    }
  }
}

TEST_P(ExchangeTest, AllGatherSizes) {
  for (const std::size_t size : SizesAroundThresholds()) {
    std::vector<std::uint8_t> expected;
    for (int r = 0; r < size_; ++r) {
      const auto part = BytesOf(size, size + 99u * static_cast<std::uint64_t>(r));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    auto mine = BytesOf(size, size + 99u * static_cast<std::uint64_t>(rank_));
    for (const bool in_place : {false, true}) {
      std::vector<std::uint8_t> all = in_place ? expected : std::vector<std::uint8_t>(expected.size(), 3);
      if (in_place && size > 0) {
        for (int r = 0; r < size_; ++r) all[static_cast<std::size_t>(r) * size + size / 2] ^= 4;
      }
      std::vector<Payload> blocks;
      for (int r = 0; r < size_; ++r) blocks.push_back(Payload::Of(MutableByteSpan(all.data() + static_cast<std::size_t>(r) * size, size)));
      ASSERT_OK(ThePump().Run(AllGather(link_, PayloadOf(mine), blocks, in_place)));
      ASSERT_EQ(all, expected) << size << (in_place ? " in place" : "");
    }
  }
}

TEST_P(ExchangeTest, BroadcastOfUnequalSizesBlocksNoRank) {
  if (size_ < 2) GTEST_SKIP() << "for two ranks or more";
  for (const std::size_t size : {std::size_t{10}, std::size_t{5000}}) {
    for (const std::size_t other : {size - 1, size + 1, std::size_t{20000}}) {
      const bool odd = rank_ == size_ - 1;  // rank 0 is the root
      auto bytes = rank_ == 0 ? BytesOf(size, 1) : std::vector<std::uint8_t>(odd ? other : size);
      const Status status = ThePump().Run(Broadcast(link_, PayloadOf(bytes), 0, false));
      if (odd) {
        EXPECT_CODE(status, Code::kInvalidArgument);
        EXPECT_NE(status.message().find("rank 0, has " + std::to_string(size)), std::string::npos) << status.message();
      } else {
        EXPECT_OK(status);
        EXPECT_EQ(bytes, BytesOf(size, 1));
      }
    }
  }
}

TEST_P(ExchangeTest, ATooSmallBufferIsAnErrorOnBothSides) {
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  for (const std::size_t size : SizesAroundThresholds()) {
    if (size == 0) continue;
    auto out = BytesOf(size, 1);
    std::vector<std::uint8_t> in(size - 1, 0);
    Envelope envelope;
    Tasks tasks;
    tasks.Add(Receive(link_, PayloadOf(in), before, 1, false, &envelope));
    tasks.Add(Send(link_, PayloadOf(out), next, 1, false));
    tasks.Finish();
    EXPECT_CODE(tasks.status(0), Code::kInvalidArgument);
    EXPECT_CODE(tasks.status(1), Code::kInvalidArgument);
    EXPECT_NE(tasks.status(0).message().find("from rank " + std::to_string(before)), std::string::npos);
    EXPECT_NE(tasks.status(1).message().find("rank " + std::to_string(next)), std::string::npos);
    EXPECT_EQ(in, std::vector<std::uint8_t>(size - 1, 0)) << "nothing was put there";
  }
}

TEST_P(ExchangeTest, AMessageIsNotAValidation) {
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  for (const std::size_t size : {std::size_t{3}, std::size_t{64}, std::size_t{10000}}) {
    for (const bool in_place : {false, true}) {
      auto out = BytesOf(size, 1);
      std::vector<std::uint8_t> in(size, 0);
      Envelope envelope;
      Tasks tasks;
      tasks.Add(Receive(link_, PayloadOf(in), before, 1, in_place, &envelope));
      tasks.Add(Send(link_, PayloadOf(out), next, 1, !in_place));
      tasks.Finish();
      EXPECT_CODE(tasks.status(0), Code::kInvalidArgument);
      EXPECT_FALSE(tasks.status(1).ok());
    }
  }
}

// Many messages at once, of one tag and of several, small and large in turn: they come in the order in which they were sent.
TEST_P(ExchangeTest, MessagesComeInOrder) {
  constexpr int kMessages = 40;
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  std::vector<std::vector<std::uint8_t>> out, in;
  const auto length = [](int i) { return static_cast<std::size_t>(i % 3 == 0 ? 5000 + i : i); };
  const auto seed = [](int rank, int i) { return static_cast<std::uint64_t>(1000 * rank + i); };
  for (int i = 0; i < kMessages; ++i) {
    out.push_back(BytesOf(length(i), seed(rank_, i)));
    in.emplace_back(6000);
  }
  std::vector<Envelope> envelopes(kMessages);
  Tasks tasks;
  const bool receive_first = rank_ % 2 == 0;
  for (const bool receives : {receive_first, !receive_first}) {
    for (int i = 0; i < kMessages; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (receives) {
        // Every other one does not say from whom.
        tasks.Add(Receive(link_, PayloadOf(in[at]), i % 4 == 1 ? MPI_ANY_SOURCE : before, i % 2, false, &envelopes[at]));
      } else {
        tasks.Add(Send(link_, PayloadOf(out[at]), next, i % 2, false));
      }
    }
  }
  tasks.Finish();
  for (std::size_t i = 0; i < 2 * kMessages; ++i) ASSERT_OK(tasks.status(i));
  for (int i = 0; i < kMessages; ++i) {
    const auto at = static_cast<std::size_t>(i);
    ASSERT_EQ(envelopes[at].bytes, length(i)) << i;
    in[at].resize(length(i));
    ASSERT_EQ(in[at], BytesOf(length(i), seed(before, i))) << i;
  }
}

TEST_P(ExchangeTest, WildcardsTellWhatCame) {
  if (rank_ != 0) {
    auto bytes = BytesOf(static_cast<std::size_t>(3000 * rank_), static_cast<std::uint64_t>(rank_));
    ASSERT_OK(ThePump().Run(Send(link_, PayloadOf(bytes), 0, 10 + rank_, false)));
    return;
  }
  std::vector<bool> came(static_cast<std::size_t>(size_), false);
  for (int i = 1; i < size_; ++i) {
    std::vector<std::uint8_t> bytes(20000);
    Envelope envelope;
    ASSERT_OK(ThePump().Run(Receive(link_, PayloadOf(bytes), MPI_ANY_SOURCE, MPI_ANY_TAG, false, &envelope)));
    EXPECT_EQ(envelope.tag, 10 + envelope.source);
    bytes.resize(envelope.bytes);
    EXPECT_EQ(bytes, BytesOf(static_cast<std::size_t>(3000 * envelope.source), static_cast<std::uint64_t>(envelope.source)));
    came[static_cast<std::size_t>(envelope.source)] = true;
  }
  EXPECT_EQ(std::count(came.begin(), came.end(), true), size_ - 1);
}

/// As usual, but for chunks that have to be many.
constexpr Sizes kUsual{4u << 10, 16u << 10, 64u << 10, 256u << 10, 32u << 10, 256u << 10};

INSTANTIATE_TEST_SUITE_P(Sizes, ExchangeTest, ::testing::Values(kUsual, kTiny, Sizes{0, 64, 1024, 1024, 512, 1024}),
                         [](const auto& test) { return std::string(test.param == kUsual ? "Usual" : test.param == kTiny ? "Tiny" : "NothingInline"); });

// Elements that all lie on the same byte, so that more than 2^31 of them need no memory. Minutes: tests/exchange/CMakeLists.txt runs it as slow.
TEST(ExchangeSlow, MoreThanTwoToTheThirtyOneElements) {
  if (std::getenv("LZY_TEST_HUGE") == nullptr) GTEST_SKIP() << "needs LZY_TEST_HUGE";
  auto link = Link::Make(MPI_COMM_WORLD);
  ASSERT_OK(link);
  MPI_Datatype stacked = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_BYTE, 0, 0, &stacked);
  MPI_Type_commit(&stacked);
  constexpr MPI_Count kCount = (MPI_Count{1} << 31) + 7;
  std::uint8_t out = 42, in = 0;
  const auto from = Payload::Of(&out, kCount, stacked);
  const auto to = Payload::Of(&in, kCount, stacked);
  ASSERT_OK(from);
  ASSERT_OK(to);
  Envelope envelope;
  Tasks tasks;
  if (WorldRank() == 0) tasks.Add(Send(*link, *from, WorldSize() - 1, 3, false));
  if (WorldRank() == WorldSize() - 1) tasks.Add(Receive(*link, *to, 0, 3, false, &envelope));
  tasks.Finish();
  if (WorldRank() == WorldSize() - 1) {
    EXPECT_EQ(envelope.bytes, static_cast<std::uint64_t>(kCount));
    EXPECT_EQ(in, 42);
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) EXPECT_OK(tasks.status(i));
  MPI_Type_free(&stacked);
}

}  // namespace
}  // namespace lzy::validated
