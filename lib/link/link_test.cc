// A link: messages that arrive whole, the collective calls of two ranks, calls from rank to rank, and how a connection ends.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "link/far_end.h"
#include "link/host_files.h"
#include "link/link_communicator.h"
#include "merkle/hash.h"
#include "status_matchers.h"

namespace lzy {
namespace {

// As the tools do: an end that has gone is an error of a call.
[[maybe_unused]] const auto default_action = signal(SIGPIPE, SIG_IGN);

using Bytes = Communicator::Bytes;

Bytes RandomBytes(std::size_t size, unsigned seed = 1) {
  std::mt19937_64 rng(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng());
  return bytes;
}

std::array<Descriptor, 2> Pair() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Passes the bytes of one direction on, and changes those at some offsets.
class Spoiler {
 public:
  Spoiler(Descriptor from, Descriptor to, std::vector<std::size_t> offsets)
      : thread_([from = std::move(from), to = std::move(to), offsets = std::move(offsets)] {
          std::vector<std::uint8_t> buffer(1 << 16);
          for (std::size_t done = 0;;) {
            const ssize_t got = read(from.get(), buffer.data(), buffer.size());
            if (got <= 0) return;
            for (const std::size_t at : offsets) {
              if (at >= done && at < done + static_cast<std::size_t>(got)) buffer[at - done] ^= 0x21;
            }
            for (ssize_t sent = 0; sent < got;) {
              const ssize_t one = send(to.get(), buffer.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
              if (one <= 0) return;
              sent += one;
            }
            done += static_cast<std::size_t>(got);
          }
        }) {}
  ~Spoiler() { thread_.join(); }

 private:
  std::thread thread_;
};

/// Two links in one process.
class LinkTest : public ::testing::Test {
 protected:
  LinkTest() {
    for (int rank = 0; rank < 2; ++rank) {
      links_[rank] = std::make_unique<Link>(
          Link::Ends{rank, rank == 0 ? "here" : "there", "peer", "host", [this, rank] { return signals_[rank].load(); },
                     [this, rank](int signal) { got_[rank] = signal; }});
    }
  }
  ~LinkTest() override {
    std::thread other([&] { links_[1]->Close(), links_[1].reset(); });
    links_[0]->Close(), links_[0].reset();
    other.join();
  }
  /// `spoiled`: offsets of bytes on their way to rank 0.
  void Connect(int streams, std::vector<std::size_t> spoiled = {}) {
    for (int i = 0; i < streams; ++i) {
      auto to = Pair(), back = Pair();
      EXPECT_OK(links_[1]->channel().Add(std::move(to[0]), std::move(back[1]), {}));
      if (!spoiled.empty()) {
        auto late = Pair();
        spoilers_.push_back(std::make_unique<Spoiler>(std::move(back[0]), std::move(late[1]), spoiled));
        back[0] = std::move(late[0]);
      }
      EXPECT_OK(links_[0]->channel().Add(std::move(back[0]), std::move(to[1]), [] { return std::string("it said why"); }));
    }
  }
  void OnBoth(const std::function<void(Communicator&)>& work) {
    std::thread other([&] { work(links_[1]->communicator()); });
    work(links_[0]->communicator());
    other.join();
  }

  std::list<std::unique_ptr<Spoiler>> spoilers_;
  std::atomic<int> signals_[2] = {}, got_[2] = {};
  std::unique_ptr<Link> links_[2];
};

TEST_F(LinkTest, TwoRanksCommunicate) {
  Connect(3);
  OnBoth([](Communicator& comm) {
    const int me = comm.rank();
    EXPECT_EQ(comm.size(), 2);
    EXPECT_EQ(comm.ProcessorName(), me == 0 ? "here" : "there");
    EXPECT_OK(comm.Barrier());
    for (int root = 0; root < 2; ++root) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3'000'001}}) {
        const Bytes sent = RandomBytes(size, static_cast<unsigned>(size) + 1);
        Bytes bytes = me == root ? sent : Bytes{9};
        EXPECT_OK(comm.Broadcast(bytes, root));
        EXPECT_EQ(bytes, sent);
      }
      const auto gathered = comm.Gather(Bytes(static_cast<std::size_t>(me) + 1, 7), root);
      ASSERT_OK(gathered);
      EXPECT_EQ(*gathered, me == root ? (std::vector<Bytes>{{7}, {7, 7}}) : std::vector<Bytes>());
    }
    const auto all = comm.AllGather(RandomBytes(static_cast<std::size_t>(me) * 400'000, 5));
    ASSERT_OK(all);
    EXPECT_EQ(*all, (std::vector<Bytes>{{}, RandomBytes(400'000, 5)}));
    EXPECT_EQ(*comm.AllReduceMax(me == 0 ? 3 : 8), 8u);
    EXPECT_EQ(*comm.AllReduceSum(me == 0 ? 3 : 8), 11u);
    const std::uint64_t counts[] = {1, 2};
    const std::uint64_t send[] = {me == 0 ? 1u : 2u, 16, me == 0 ? 32u : 64u};
    std::uint64_t receive[2] = {};
    EXPECT_OK(comm.ReduceScatterXor(send, receive, counts));
    EXPECT_EQ(receive[0], me == 0 ? 3u : 0u);
    EXPECT_EQ(receive[1], me == 0 ? 0u : 96u);
  });
}

TEST_F(LinkTest, Splits) {
  Connect(1);
  OnBoth([](Communicator& comm) {
    auto same = comm.Split(4);
    ASSERT_OK(same);
    auto twice = (*same)->Split(0);
    ASSERT_OK(twice);
    EXPECT_EQ(*(*twice)->AllReduceSum(1), 2u);
    EXPECT_EQ(*(*same)->AllReduceSum(2), 4u);
    EXPECT_EQ(*comm.AllReduceSum(3), 6u);
    auto alone = comm.Split(comm.rank());
    ASSERT_OK(alone);
    EXPECT_EQ((*alone)->size(), 1);
    auto none = comm.Split(comm.rank() == 0 ? -1 : 5);
    ASSERT_OK(none);
    EXPECT_EQ(*none == nullptr, comm.rank() == 0);
  });
}

TEST_F(LinkTest, AnErrorOfTheOtherRankIsNamed) {
  Connect(1);
  OnBoth([](Communicator& comm) {
    const Status said = Agree(comm, comm.rank() == 1 ? Status(Code::kIo, "f: is not there") : Status::Ok());
    EXPECT_EQ(said.message(), "host: f: is not there");
    const Status named = Agree(comm, comm.rank() == 1 ? Status(Code::kIo, "host:f: is not there") : Status::Ok());
    EXPECT_EQ(named.message(), "host:f: is not there");
    const Status near = Agree(comm, comm.rank() == 0 ? Status(Code::kIo, "f: is not there") : Status::Ok());
    EXPECT_EQ(near.message(), "f: is not there");
  });
}

TEST_F(LinkTest, RanksCallEachOther) {
  Connect(2);
  constexpr std::size_t kMost = 1u << 20;
  OnBoth([](Communicator& comm) {
    for (int phase = 0; phase < 3; ++phase) {
      const CallHandler handler{[&](int from, ByteSpan call, MutableByteSpan answer) {
                                  EXPECT_EQ(call[0], from);
                                  std::ranges::fill(answer.first(600'000), call[1]);
                                  return std::size_t{600'000};
                                },
                                2, kMost};
      const Status run = comm.RunWithCalls(handler, [&](Caller& caller) {
        for (std::uint8_t number = 0; number < 20; ++number) {
          for (const int rank : {0, 1}) {
            Bytes answer(kMost);
            const auto length = caller.Call(rank, {static_cast<std::uint8_t>(comm.rank()), number}, answer);
            ASSERT_OK(length);
            EXPECT_EQ(*length, 600'000u);
            EXPECT_EQ(answer[0], number);
            EXPECT_EQ(answer[599'999], number);
          }
        }
      });
      EXPECT_OK(run);
      EXPECT_OK(comm.Barrier());
    }
  });
}

// A header is sent twice, so one damaged byte in it does no harm. The first bytes are headers.
TEST_F(LinkTest, DamagedBytesAreSentAgain) {
  std::vector<std::size_t> spoiled = {3, 40};
  for (std::size_t at = 300'000; at < 3'000'000; at += 700'000) spoiled.push_back(at);
  Connect(1, spoiled);
  const Bytes sent = RandomBytes(3'000'000);
  OnBoth([&](Communicator& comm) {
    Bytes bytes = comm.rank() == 1 ? sent : Bytes();
    EXPECT_OK(comm.Broadcast(bytes, 1));
    EXPECT_EQ(bytes, sent);
    EXPECT_OK(comm.Barrier());
  });
  EXPECT_GE(links_[0]->channel().damaged(), 3 * Channel::kPiece);
  EXPECT_EQ(links_[1]->channel().sent_again(), links_[0]->channel().damaged());
}

TEST_F(LinkTest, TooMuchDamageIsAnError) {
  Connect(1, {3, 100});  // both copies of the first header
  OnBoth([](Communicator& comm) {
    const Status failed = comm.Barrier();
    if (comm.rank() != 0) return;
    EXPECT_EQ(failed.message(), "peer: the connection damages too many bytes");
    EXPECT_EQ(failed.code(), Code::kIo);
  });
}

TEST_F(LinkTest, TheEndOfAStreamIsAnErrorOfAllCalls) {
  auto to = Pair(), back = Pair();
  EXPECT_OK(links_[0]->channel().Add(std::move(back[0]), std::move(to[1]), [] { return std::string("it said why"); }));
  std::thread end([&] {
    usleep(50'000);
    back[1] = Descriptor();
  });
  Communicator& comm = links_[0]->communicator();
  const Status failed = comm.Barrier();
  EXPECT_EQ(failed.code(), Code::kIo);
  EXPECT_EQ(failed.message(), "peer: the connection ended in the middle of the work: it said why");
  EXPECT_EQ(comm.AllReduceMax(1).status().message(), failed.message());
  const CallHandler handler{[](int, ByteSpan, MutableByteSpan) { return std::size_t{0}; }, 1, 10};
  EXPECT_EQ(comm.RunWithCalls(handler, [&](Caller& caller) {
    Bytes answer(10);
    EXPECT_EQ(caller.Call(1, {1}, answer).status().code(), Code::kIo);
  }).code(), Code::kIo);
  end.join();
}

// The writer of this stream must not use it before the other end has it.
TEST_F(LinkTest, AStreamThatNeverBeganMayEnd) {
  Connect(1);
  auto to = Pair(), back = Pair();
  EXPECT_OK(links_[1]->channel().Add(std::move(to[0]), std::move(back[1]), {}, Channel::Begin::kWait));
  to[1] = Descriptor();
  OnBoth([](Communicator& comm) {
    for (int i = 0; i < 50; ++i) EXPECT_OK(comm.AllGather(RandomBytes(1000)));
  });
  auto more_to = Pair(), more_back = Pair();
  EXPECT_OK(links_[1]->channel().Add(std::move(more_to[0]), std::move(more_back[1]), {}, Channel::Begin::kWait));
  EXPECT_OK(links_[0]->channel().Add(std::move(more_back[0]), std::move(more_to[1]), {}, Channel::Begin::kTell));
  OnBoth([](Communicator& comm) {
    for (int i = 0; i < 50; ++i) EXPECT_OK(comm.AllGather(RandomBytes(1'000'000)));
  });
}

TEST_F(LinkTest, ASignalIsPassedOn) {
  Connect(1);
  signals_[0] = 2;
  std::thread other([&] {
    while (got_[1] == 0) usleep(1000);
    EXPECT_OK(links_[1]->communicator().Barrier());
  });
  EXPECT_OK(links_[0]->communicator().Barrier());
  other.join();
  EXPECT_EQ(got_[1], 2);
}

/// One channel, and an end that writes pieces to it that no channel writes.
class HostileTest : public ::testing::Test {
 protected:
  HostileTest() {
    auto to = Pair(), back = Pair();
    EXPECT_OK(channel_.Add(std::move(to[0]), std::move(back[1]), {}));
    out_ = std::move(to[1]);
    in_ = std::move(back[0]);
  }
  void Send(std::uint64_t message, std::uint64_t total, std::uint64_t piece, const Bytes& bytes) {
    ByteWriter header;
    header.Put(std::uint8_t{0});
    header.Put(std::uint8_t{0});
    for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0}, message, total, piece}) header.Put(number);
    header.Put(static_cast<std::uint32_t>(bytes.size()));
    Bytes sent = header.bytes();
    const Hash hash = HashBytes(HashTag::kTransferLeaf, (message << 24 ^ piece) & ((1ull << 56) - 1), bytes);
    sent.insert(sent.end(), hash.bytes.begin(), hash.bytes.end());
    const Hash check = HashBytes(HashTag::kTransferMessage, 0, sent);
    sent.insert(sent.end(), check.bytes.begin(), check.bytes.begin() + 8);
    const Bytes once = sent;
    sent.insert(sent.end(), once.begin(), once.end());
    sent.insert(sent.end(), bytes.begin(), bytes.end());
    (void)send(out_.get(), sent.data(), sent.size(), MSG_NOSIGNAL);
  }
  void ExpectRefused() {
    for (int i = 0; i < 500 && channel_.status().ok(); ++i) usleep(10'000);
    EXPECT_EQ(channel_.status().message(), "peer: sent a malformed message");
  }
  Descriptor in_, out_;
  std::atomic<int> received_ = 0;
  Channel channel_{"peer", [this](const ChannelMessage&) { ++received_; }, [] {}};  // ends first
};

TEST_F(HostileTest, ItsPiecesArriveAsOneMessage) {
  Send(1, Channel::kPiece + 5, 1, RandomBytes(5));
  Send(1, Channel::kPiece + 5, 0, RandomBytes(Channel::kPiece));
  for (int i = 0; i < 500 && received_ == 0; ++i) usleep(10'000);
  EXPECT_EQ(received_, 1);
  EXPECT_OK(channel_.status());
  out_ = Descriptor();
}

// The first piece decides how large the buffer is.
TEST_F(HostileTest, PiecesOfAnotherSizeAreRefused) {
  Send(1, Channel::kPiece + 5, 1, RandomBytes(5));
  Send(1, 900 * Channel::kPiece + 5, 900, RandomBytes(5));
  ExpectRefused();
}

TEST_F(HostileTest, APieceComesOnce) {
  Send(1, Channel::kPiece + 5, 1, RandomBytes(5));
  Send(1, Channel::kPiece + 5, 1, RandomBytes(5));
  ExpectRefused();
  EXPECT_EQ(received_, 0) << "the second half never came";
}

TEST_F(HostileTest, MessagesTogetherHaveALimit) {
  Send(1, (12ull << 30) + 5, (12ull << 30) / Channel::kPiece, RandomBytes(5));
  Send(2, (12ull << 30) + 5, (12ull << 30) / Channel::kPiece, RandomBytes(5));
  for (int i = 0; i < 500 && channel_.status().ok(); ++i) usleep(10'000);
  EXPECT_FALSE(channel_.status().ok());
}

// It holds the stream, and neither answers nor reads.
TEST_F(HostileTest, AnEndThatHangsHoldsUpNothing) {
  auto bytes = std::make_shared<Bytes>(RandomBytes(4 << 20));
  channel_.Send({}, bytes, *bytes);
  channel_.Close(std::chrono::milliseconds(50));
  EXPECT_EQ(channel_.status().message(), "peer: did not answer at the end of the work");
}

// ----------------------------------------------------------------------------------------------------- handshake

class NearEndTest : public ::testing::Test {
 protected:
  NearEndTest() {
    char name[] = "/tmp/lzy-link-XXXXXX";
    answer_ = Descriptor(mkstemp(name));
    path_ = name;
  }
  ~NearEndTest() override { unlink(path_.c_str()); }
  Status Start(const std::string& command) {
    NearEnd::Request request;
    request.host = "host";
    request.command = {"sh", "-c", command};
    request.tool = "lzy-copy";
    request.messages = 12;
    request.version = "1.0.0";
    return NearEnd::Start(std::move(request)).status();
  }
  Descriptor answer_;
  std::string path_;
};

TEST_F(NearEndTest, AnotherVersionIsNamed) {
  ASSERT_OK(SendFirst(answer_.get(), EncodeRecord(Hello{13, "2.0.0", "node", ""})));
  EXPECT_EQ(Start("cat " + path_).message(),
            "lzy on host has version 2.0.0 (messages 13), here it has version 1.0.0 (messages 12): install one version");
}

TEST_F(NearEndTest, DamagedAnswersAreNoAnswers) {
  std::vector<std::uint8_t> record = EncodeRecord(Hello{12, "1.0.0", "node", ""});
  ASSERT_OK(SendFirst(answer_.get(), record));
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20);
  file.put('\x7f');
  file.close();
  EXPECT_CODE(Start("cat " + path_), Code::kIo);
  EXPECT_CODE(Start("head -c 20 " + path_), Code::kIo);
  EXPECT_CODE(Start("head -c 7 " + path_), Code::kIo);
  EXPECT_CODE(Start("exit 0"), Code::kIo);
}

// -------------------------------------------------------------------------------------------------------- names

TEST(HostNames, BelongToOneMachine) {
  const HostNames near("h:", false), far("h:", true);
  EXPECT_TRUE(near.IsHere("f"));
  EXPECT_FALSE(near.IsHere("h:./f"));
  EXPECT_TRUE(far.IsHere("h:./f"));
  EXPECT_FALSE(far.IsHere("f"));
  EXPECT_EQ(far.PathOf("h:./f"), "./f");
  EXPECT_EQ(far.PathOf("h:/f"), "/f");
  EXPECT_EQ(far.PathOf("h:"), "/");
  EXPECT_EQ(DirectoryOf("h:/f"), "h:");
  EXPECT_EQ(far.NameOf("/a/b"), "h:/a/b");
  EXPECT_EQ(near.NameOf("/a/b"), "/a/b");
  EXPECT_EQ(far.Named({Code::kIo, "/f: no"}, "h:/f").message(), "h:/f: no");
  EXPECT_EQ(far.Named({Code::kIo, "no space"}, "h:/f").message(), "h:/f: no space");
}

TEST(FilesByName, HidesTheFilesOfTheOtherMachine) {
  char directory[] = "/tmp/lzy-names-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/f";
  const HostNames near("h:", false), far("h:", true);
  const auto here = FilesByName(PosixFileSystem(), near), there = FilesByName(PosixFileSystem(), far);
  ASSERT_OK(there->Open("h:" + path, OpenMode::kCreate));
  EXPECT_EQ((*there->Open("h:" + path, OpenMode::kRead))->path(), "h:" + path);
  EXPECT_OK(here->Stat(path));
  EXPECT_CODE(there->Stat(path), Code::kNotFound);
  EXPECT_CODE(here->Stat("h:" + path), Code::kNotFound);
  EXPECT_CODE(there->Rename("h:" + path, path + "2"), Code::kNotFound);
  EXPECT_EQ(*there->RealPath("h:" + path), "h:" + path);
  EXPECT_EQ(there->Stat("h:" + path + "3").status().message().substr(0, path.size() + 3), "h:" + path + "3");
  EXPECT_NE(here->View(), there->View());
  EXPECT_OK(there->Remove("h:" + path));
  rmdir(directory);
}

}  // namespace
}  // namespace lzy
