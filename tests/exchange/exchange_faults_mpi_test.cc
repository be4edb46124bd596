// Validated messages with faults in their way: whatever is delivered is right, and what is not is reported on both sides.
#include <algorithm>
#include <utility>

#include "transport/mpi_call.h"
#include "validated/collectives.h"
#include "validated/dialogue.h"
#include "validated/transfer.h"
#include "exchange_fixture.h"

namespace lzy::validated {
namespace {

class ExchangeFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto link = Link::Make(MPI_COMM_WORLD, kTiny);
    ASSERT_OK(link);
    link_ = *link;
  }

  /// To the next rank and from the one before, at once.
  std::pair<Status, Status> Ring(std::vector<std::uint8_t>& out, std::vector<std::uint8_t>& in, bool in_place) {
    Envelope envelope;
    Task receive = Receive(link_, PayloadOf(in), before_, 5, in_place, &envelope);
    Task send = Send(link_, PayloadOf(out), next_, 5, in_place);
    receive.Start();
    send.Start();
    Pump::OfProcess().RunUntil([&] { return receive.done() && send.done(); });
    return {send.status(), receive.status()};
  }
  /// What the others say of their receiving, by rank.
  std::vector<int> Shared(bool ok) const {
    int mine = ok ? 1 : 0;
    std::vector<int> all(static_cast<std::size_t>(size_));
    EXPECT_OK(CallMpi("MPI_Iallgather", [&](MPI_Request* request) {
      return MPI_Iallgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD, request);
    }));
    return all;
  }

  std::shared_ptr<Link> link_;
  const int rank_ = WorldRank();
  const int size_ = WorldSize();
  const int next_ = (rank_ + 1) % size_;
  const int before_ = (rank_ + size_ - 1) % size_;
};

// The chance that one part is struck kAttempts times in a row is small at the lower shares, and large at the highest, so that there
// are both: messages repaired, and messages given up. Then both sides must say so.
TEST_F(ExchangeFaultsTest, TenThousandAndMoreAreCorrectedOrReported) {
  std::mt19937_64 same(99);  // equal on all ranks
  Faults faults(1);
  std::uint64_t reported = 0, corrected = 0;
  const int messages = 2800 / size_ + 50;
  for (int i = 0; i < messages; ++i) {
    const std::size_t size = same() % 4 == 0 ? same() % 65 : same() % 6000;
    const bool in_place = same() % 4 == 0;
    faults.share = i % 8 == 0 ? 0.8 : i % 2 == 0 ? 0.3 : 0.05;
    const std::uint64_t seed = same();
    auto out = BytesOf(size, seed + static_cast<std::uint64_t>(rank_));
    const auto expected = BytesOf(size, seed + static_cast<std::uint64_t>(before_));
    std::vector<std::uint8_t> in = in_place ? expected : std::vector<std::uint8_t>(size, 0xaa);
    for (std::size_t at = 0; in_place && at < size; at += 1 + size / 5) in[at] ^= 2;
    const std::uint64_t before = faults.total();
    const auto [sent, received] = Ring(out, in, in_place);
    ASSERT_NE(sent.code(), Code::kMpi) << sent.message();
    ASSERT_NE(received.code(), Code::kMpi) << received.message();
    if (received.ok()) {
      ASSERT_EQ(in, expected) << "message " << i;
      if (faults.total() > before) ++corrected;
    } else {
      EXPECT_CODE(received, Code::kCorrupt);
      EXPECT_NE(received.message().find("from rank " + std::to_string(before_)), std::string::npos) << received.message();
      ++reported;
    }
    const auto all = Shared(received.ok());
    ASSERT_EQ(sent.ok(), all[static_cast<std::size_t>(next_)] == 1) << "both sides say the same: " << sent.message();
    if (!sent.ok()) {
      EXPECT_NE(sent.message().find("rank " + std::to_string(next_) + " could not prove"), std::string::npos) << sent.message();
    }
  }
  const std::uint64_t count = faults.Print("messages");
  EXPECT_GE(count, 10'000u);
  std::printf("rank %d: %llu messages corrected, %llu reported\n", rank_, static_cast<unsigned long long>(corrected),
              static_cast<unsigned long long>(reported));
  EXPECT_GT(corrected, 0u);
  EXPECT_GT(reported, 0u);
}

TEST_F(ExchangeFaultsTest, BroadcastsAreCorrectedOrReported) {
  if (size_ < 2) GTEST_SKIP() << "nothing is sent";
  std::mt19937_64 same(7);
  Faults faults(2);
  std::uint64_t failures = 0;
  for (int i = 0; i < 300; ++i) {
    const std::size_t size = same() % 3 == 0 ? same() % 600 : same() % 8000;
    const bool in_place = same() % 4 == 0;
    const int root = static_cast<int>(same() % static_cast<std::uint64_t>(size_));
    faults.share = i % 10 == 0 ? 0.7 : 0.2;
    const auto expected = BytesOf(size, same());
    auto bytes = rank_ == root || in_place ? expected : std::vector<std::uint8_t>(size, 1);
    for (std::size_t at = 0; in_place && rank_ != root && at < size; at += 1 + size / 9) bytes[at] ^= 8;
    const Status status = Pump::OfProcess().Run(Broadcast(link_, PayloadOf(bytes), root, in_place));
    ASSERT_NE(status.code(), Code::kMpi) << status.message();
    if (status.ok() || rank_ == root) {
      ASSERT_EQ(bytes, expected) << i;
    }
    const auto all = Shared(rank_ == root || status.ok());
    const bool everybody = std::all_of(all.begin(), all.end(), [](int ok) { return ok == 1; });
    if (!everybody) ++failures;
    if (rank_ != root) continue;
    EXPECT_EQ(status.ok(), everybody) << status.message();
    for (int r = 0; r < size_; ++r) {
      if (all[static_cast<std::size_t>(r)] == 1) continue;
      EXPECT_NE(status.message().find("rank " + std::to_string(r) + " could not prove"), std::string::npos) << status.message();
    }
  }
  EXPECT_GT(faults.Print("broadcasts"), 500u);
  EXPECT_GT(failures, 0u);
}

TEST_F(ExchangeFaultsTest, GathersAreCorrectedOrReported) {
  if (size_ < 2) GTEST_SKIP() << "nothing is sent";
  std::mt19937_64 same(8);
  Faults faults(3);
  std::uint64_t failures = 0;
  for (int i = 0; i < 200; ++i) {
    const std::size_t size = same() % 3 == 0 ? same() % 600 : same() % 5000;
    const bool in_place = same() % 4 == 0;
    const std::uint64_t seed = same();
    faults.share = i % 10 == 0 ? 0.7 : 0.2;
    std::vector<std::uint8_t> expected;
    for (int r = 0; r < size_; ++r) {
      const auto part = BytesOf(size, seed + static_cast<std::uint64_t>(r));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    auto mine = BytesOf(size, seed + static_cast<std::uint64_t>(rank_));
    auto all = in_place ? expected : std::vector<std::uint8_t>(expected.size(), 1);
    for (std::size_t at = 0; in_place && at < all.size(); at += 1 + size / 3) all[at] ^= 8;
    std::vector<Payload> blocks;
    for (int r = 0; r < size_; ++r) blocks.push_back(Payload::Of(MutableByteSpan(all.data() + static_cast<std::size_t>(r) * size, size)));
    const Status status = Pump::OfProcess().Run(AllGather(link_, PayloadOf(mine), blocks, in_place));
    ASSERT_NE(status.code(), Code::kMpi) << status.message();
    if (status.ok()) {
      ASSERT_EQ(all, expected) << i;
    } else {
      EXPECT_CODE(status, Code::kCorrupt);
      EXPECT_NE(status.message().find("rank "), std::string::npos);
      ++failures;
    }
    // Who could not prove bytes is named by whose they are, so nobody fails alone.
    const auto oks = Shared(status.ok());
    EXPECT_NE(std::count(oks.begin(), oks.end(), 0), 1) << status.message();
  }
  std::uint64_t everywhere = 0;
  MPI_Allreduce(&failures, &everywhere, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_GT(faults.Print("gathers"), 500u);
  EXPECT_GT(everywhere, 0u);
}

// Messages with this part in them: inline, in one chunk after the root, in several before it.
std::vector<std::size_t> SizesWith(MessagePart part) {
  if (part == MessagePart::kInline) return {40};
  if (part == MessagePart::kRoot) return {5000};
  return {60, 5000};
}

// Every part of the protocol, struck once and for good.
TEST_F(ExchangeFaultsTest, EveryPartStruckOnceIsCorrected) {
  for (int at = 0; at < static_cast<int>(MessagePart::kSum); ++at) {
    const auto part = static_cast<MessagePart>(at);
    for (const std::size_t size : SizesWith(part)) {
      Faults faults(20 + static_cast<std::uint64_t>(at));
      int left = 1;
      faults.share = 1;
      // Requests and replies only travel once a chunk was struck; requests arrive at the sender.
      bool chunk = part > MessagePart::kRoot;
      faults.where = [&](const Arrival& arrival) {
        if (chunk && arrival.part == MessagePart::kChunk) return !(chunk = false);
        return arrival.part == part && left-- > 0;
      };
      auto out = BytesOf(size, 1);
      std::vector<std::uint8_t> in(size);
      const auto [sent, received] = Ring(out, in, false);
      EXPECT_OK(sent);
      EXPECT_OK(received);
      EXPECT_EQ(in, out) << at << ", " << size << " bytes";
      EXPECT_GE(faults.total(), 1u) << at << ", " << size << " bytes";
    }
  }
}

// What is struck by hand, since there are bytes in these that nobody reads: of an announcement its size; of the second
// of several chunks (bytes 64..191) or of the only one, a leaf, which then never arrives; of an inline message the last
// byte.
void StrikeAnnouncement(const Arrival& arrival, MutableByteSpan content) {
  if (arrival.part == MessagePart::kAnnounce) content[9] ^= 1;
}
void StrikeByHand(const Arrival& arrival, MutableByteSpan content) {
  if (arrival.part == MessagePart::kChunk && content.size() == 128) content[70] ^= 1;
  if (arrival.part == MessagePart::kChunk && content.size() == 60) content[40] ^= 1;
  if (arrival.part == MessagePart::kLeaves || arrival.part == MessagePart::kInline) content[content.size() - 1] ^= 1;
}

TEST_F(ExchangeFaultsTest, EveryPartStruckForGoodIsReportedOnBothSides) {
  for (int at = 0; at < static_cast<int>(MessagePart::kSum); ++at) {
    const auto part = static_cast<MessagePart>(at);
    if (part == MessagePart::kChunk) continue;  // leaves are sent again, and come
    for (const std::size_t size : SizesWith(part)) {
      SCOPED_TRACE("part " + std::to_string(at) + ", " + std::to_string(size) + " bytes");
      {
        Faults faults(40 + static_cast<std::uint64_t>(at));
        faults.share = 1;
        bool chunk = part > MessagePart::kRoot;
        faults.where = [&](const Arrival& arrival) {
          if (chunk && arrival.part == MessagePart::kChunk) return !(chunk = false);
          return arrival.part == part;
        };
        auto out = BytesOf(size, 1);
        std::vector<std::uint8_t> in(size);
        if (part == MessagePart::kLeaves || part == MessagePart::kInline) SetFaultHook(StrikeByHand);
        if (part == MessagePart::kAnnounce) SetFaultHook(StrikeAnnouncement);
        const auto [sent, received] = Ring(out, in, false);
        EXPECT_CODE(sent, Code::kCorrupt);
        EXPECT_CODE(received, Code::kCorrupt);
        EXPECT_NE(sent.message().find("rank " + std::to_string(next_)), std::string::npos) << sent.message();
        EXPECT_NE(received.message().find("rank " + std::to_string(before_)), std::string::npos) << received.message();
        if (part == MessagePart::kLeaves) {
          const char* const leaf = size == 60 ? "bytes 32..47 of" : "bytes 128..143 of";
          EXPECT_NE(sent.message().find(leaf), std::string::npos) << sent.message();
          EXPECT_NE(received.message().find(leaf), std::string::npos) << received.message();
        }
      }
      // Nothing of it is left over for the next message.
      auto out = BytesOf(size, 2);
      std::vector<std::uint8_t> in(size);
      const auto [sent, received] = Ring(out, in, false);
      EXPECT_OK(sent);
      EXPECT_OK(received);
      EXPECT_EQ(in, out);
    }
  }
}

// One of several receivers is struck at one chunk, always; the others have theirs, and only it is repaired.
TEST_F(ExchangeFaultsTest, OneOfSeveralReceiversIsRepairedAlone) {
  if (size_ < 3) GTEST_SKIP() << "for three ranks or more";
  Faults faults(60);
  faults.share = 1;
  faults.where = [&](const Arrival& arrival) { return arrival.part == MessagePart::kChunk && rank_ == size_ - 1; };
  auto bytes = rank_ == 0 ? BytesOf(10000, 5) : std::vector<std::uint8_t>(10000);
  EXPECT_OK(Pump::OfProcess().Run(Broadcast(link_, PayloadOf(bytes), 0, false)));
  EXPECT_EQ(bytes, BytesOf(10000, 5));
  EXPECT_EQ(faults.total() > 0, rank_ == size_ - 1);
}

// A fault that all receivers have got: one passes on what it proved to the next.
TEST_F(ExchangeFaultsTest, AllReceiversAreRepaired) {
  if (size_ < 2) GTEST_SKIP() << "nothing is sent";
  Faults faults(61);
  faults.share = 1;
  faults.where = [&](const Arrival& arrival) { return arrival.part == MessagePart::kChunk; };
  auto bytes = rank_ == 0 ? BytesOf(20000, 5) : std::vector<std::uint8_t>(20000);
  EXPECT_OK(Pump::OfProcess().Run(Broadcast(link_, PayloadOf(bytes), 0, false)));
  EXPECT_EQ(bytes, BytesOf(20000, 5));
}

}  // namespace
}  // namespace lzy::validated
