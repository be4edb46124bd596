// Option stripe=servers, and what lzy-info tells of servers, with the answers that a file system of several servers would give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "commit/epoch.h"
#include "commit/protect.h"
#include "dataset/by_servers.h"
#include "encode/capture.h"
#include "memory_dataset.h"
#include "status_matchers.h"
#include "storage/file_stripes.h"

namespace lzy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t kBlockSize = 4096;
constexpr std::uint64_t kStripe = 16384;

std::vector<std::string> Osts(std::uint32_t count, std::uint32_t first = 0) {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back("OST" + std::to_string(first + i));
  return out;
}

class ByServers : public MemoryDatasetTest {
 protected:
  ByServers() : MemoryDatasetTest(kBlockSize, 32768, 8) {
    options_.parity = 1;
    options_.compact = false;
  }

  /// A file of which the data are on 4 servers, and the sidecar is on `sidecar`.
  void Make(std::uint64_t bytes, std::vector<std::string> data, std::vector<std::string> sidecar) {
    NameFiles(0);
    content_ = RandomBytes(rng_, bytes);
    fs_.Put(ref_.path, content_);
    SetStripes({"Lustre", {{.unit = kStripe, .servers = std::move(data)}}}, {"Lustre", {{.unit = kStripe, .servers = std::move(sidecar)}}});
  }
  void SetStripes(StripeLayout data, StripeLayout sidecar) {
    data_ = data, sidecar_ = sidecar;
    fs_.Memo<StripeMemo>().answer = [this](File& file) -> Stripes {
      ++asked_;
      return std::optional(BaseNameOf(file.path()).starts_with(".LZY") ? sidecar_ : data_);
    };
  }
  void AskForServers() { ASSERT_OK(SetOption(options_, "stripe", "servers")); }
  DatasetReport ProtectNow() { return Protect(Here(), Ref(), {}); }

  StripeLayout data_, sidecar_;
  Bytes content_;
  int asked_ = 0;
};

// What a server had is gone: of the data, and of the sidecar.
Bytes WithoutServer(Bytes bytes, const StripeLayout& stripes, const std::string& server) {
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (stripes.ServerAt(at) == server) bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ 0x5a);
  }
  return bytes;
}

TEST_F(ByServers, OneServerIsOneDevice) {
  Make(40 * kStripe + 777, Osts(4), Osts(4, 4));
  AskForServers();
  const DatasetReport made = ProtectNow();
  ASSERT_OK(made.status);
  EXPECT_TRUE(made.committed);
  EXPECT_THAT(made.warnings, IsEmpty());
  EXPECT_EQ(asked_, 2);  // once of the file, once of its sidecar
  const DatasetReport info = Info(Here(), Ref());
  EXPECT_THAT(info.warnings, IsEmpty());
  EXPECT_EQ(info.devices, 4u);
  EXPECT_EQ(info.group_size, 4u);
  EXPECT_EQ(info.unit, kStripe);
  ASSERT_TRUE(info.stripes);
  EXPECT_EQ(info.stripes->file_system, "Lustre");
  EXPECT_EQ(info.stripes->servers, 4u);
  EXPECT_TRUE(info.stripes->by_servers);
  EXPECT_EQ(info.stripes->worst_blocks, 1u);
  ASSERT_EQ(info.map.size(), 1u);
  for (std::uint32_t d = 0; d < 4; ++d) EXPECT_EQ(info.map[0].devices[d].server, "OST" + std::to_string(d));

  // Any one server of the data is lost, and comes back with other bytes.
  for (const std::string& server : Osts(4)) {
    fs_.At(ref_.path).bytes = WithoutServer(content_, data_, server);
    EXPECT_EQ(Check().state, DatasetState::kDamaged) << server;
    EXPECT_OK(Repair().status);
    EXPECT_EQ(fs_.At(ref_.path).bytes, content_) << server;
  }
  // Or one of the sidecar, with a half of what the rows have of it.
  const std::string sidecar_path = *SidecarPath(ref_.path);
  const Bytes sidecar = fs_.At(sidecar_path).bytes;
  for (const std::string& server : Osts(4, 4)) {
    fs_.At(sidecar_path).bytes = WithoutServer(sidecar, sidecar_, server);
    EXPECT_OK(Repair().status);
    EXPECT_EQ(Check().state, DatasetState::kIntact) << server;
  }
}

// The same servers, in an order that puts parity of one device where data of another one are.
TEST_F(ByServers, WarnsIfParityIsOnServersOfData) {
  Make(40 * kStripe, Osts(4), {"OST1", "OST2", "OST3", "OST0"});
  AskForServers();
  const DatasetReport made = ProtectNow();
  ASSERT_OK(made.status);
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_THAT(made.warnings[0], HasSubstr("if server OST"));
  EXPECT_THAT(made.warnings[0], HasSubstr("parity 1 cannot rebuild it: 2 blocks of one row are there. Some of its parity is on servers of its data"));
  EXPECT_EQ(Info(Here(), Ref()).warnings, made.warnings);
  options_.parity = 2;
  options_.given.insert("parity");
  EXPECT_THAT(ProtectNow().warnings, IsEmpty());
}

TEST_F(ByServers, WarnsIfAllCopiesOfTheHashesAreWithData) {
  Make(40 * kStripe, Osts(4), {"OST9", "OST9", "OST9", "OST0"});
  AskForServers();
  const FileStripes stripes{data_, StripeLayout{"Lustre", {{.unit = kStripe, .servers = {"OST0"}}}}, {}, ""};
  Superblock sb;
  sb.parity = 1, sb.copies = 2, sb.spacing = 8 * kStripe;
  EXPECT_EQ(ServerOfAllCopies(stripes, sb), "OST0");
  const FileStripes round{data_, StripeLayout{"Lustre", {{.unit = kStripe, .servers = Osts(4)}}}, {}, ""};
  EXPECT_EQ(ServerOfAllCopies(round, sb), "OST0");  // eight units apart are on one server
  sb.spacing = kStripe;
  EXPECT_EQ(ServerOfAllCopies(round, sb), "");
}

// Whatever the file system says, without the option the geometry is what it was, and nobody asks but lzy-info.
TEST_F(ByServers, WithoutTheOptionNothingChanges) {
  Make(40 * kStripe, Osts(2), Osts(2));
  ASSERT_OK(ProtectNow().status);
  EXPECT_EQ(asked_, 0);
  const DatasetReport with = Info(Here(), Ref());
  EXPECT_EQ(asked_, 2);
  fs_.Memo<StripeMemo>().answer = [](File&) -> Stripes { return std::optional<StripeLayout>(); };
  const DatasetReport without = Info(Here(), Ref());
  EXPECT_EQ(with.unit, without.unit);
  EXPECT_EQ(with.devices, 8u);
  ASSERT_EQ(with.warnings.size(), 1u);
  EXPECT_THAT(with.warnings[0], HasSubstr("Option stripe=servers makes a device of each server"));
  EXPECT_THAT(without.warnings, IsEmpty());
  EXPECT_FALSE(without.stripes);
  EXPECT_EQ(without.map[0].devices[0].server, "");
}

TEST_F(ByServers, AStripedDatasetKeepsItsGeometry) {
  Make(40 * kStripe, Osts(5), Osts(5, 5));
  AskForServers();
  ASSERT_OK(ProtectNow().status);
  options_.stripe_servers = false;
  options_.given.clear();
  asked_ = 0;
  // As a program does: some bytes, an epoch, a commit.
  const auto start = BeginEpoch(fs_, options_, ref_.path, "");
  ASSERT_OK(start);
  ASSERT_TRUE(start->made_with.by_servers);
  EXPECT_EQ(start->made_with.by_servers->unit, kStripe);
  const Bytes bytes = RandomBytes(rng_, 1000);
  ASSERT_OK((*fs_.Open(ref_.path, OpenMode::kReadWrite, true, 0600))->WriteAt(5000, bytes));
  ProtectRequest request;
  request.touched.emplace();
  (*request.touched)[0].Add({5000, 6000});
  const DatasetReport committed = Protect(Here(), Ref(), request);
  ASSERT_OK(committed.status);
  EXPECT_LT(committed.bytes_encoded, 10 * kStripe);  // in place
  EXPECT_EQ(committed.devices, 5u);
  EXPECT_EQ(committed.unit, kStripe);
  EXPECT_EQ(asked_, 0);
  EXPECT_EQ(Check().state, DatasetState::kIntact);
  EXPECT_FALSE(ProtectNow().committed);  // up to date
  // Another parity: the devices stay.
  options_.parity = 2;
  options_.given.insert("parity");
  EXPECT_EQ(ProtectNow().devices, 5u);
  // Until somebody says otherwise.
  ASSERT_OK(SetOption(options_, "stripe", "32K"));
  EXPECT_EQ(ProtectNow().devices, 8u);
}

TEST_F(ByServers, AProtectedFileGetsTheGeometryOfItsServers) {
  Make(40 * kStripe, Osts(4), Osts(4, 4));
  ASSERT_OK(ProtectNow().status);
  AskForServers();
  EXPECT_EQ(ProtectNow().devices, 4u);
  EXPECT_FALSE(ProtectNow().committed);
  EXPECT_EQ(Check().state, DatasetState::kIntact);
}

// A new file, as the layer opens it: what it captures has the geometry of the commit.
TEST_F(ByServers, TheLayerExpectsIt) {
  Make(0, Osts(4), Osts(4, 4));
  AskForServers();
  const auto start = BeginEpoch(fs_, options_, ref_.path, "");
  ASSERT_OK(start);
  EXPECT_EQ(asked_, 1);
  ASSERT_TRUE(start->made_with.by_servers);
  const auto decoded = DecodeRecord<MadeWith>(EncodeRecord(start->made_with));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->by_servers, start->made_with.by_servers);
  Options expected = options_;
  expected.by_servers = start->made_with.by_servers;
  auto capture = Capture::Create({.parameters = SharedGeometry(expected, 20 * kStripe), .memory = 16u << 20});
  ASSERT_OK(capture);
  const Bytes bytes = RandomBytes(rng_, 20 * kStripe);
  ASSERT_OK((*fs_.Open(ref_.path, OpenMode::kReadWrite, true, 0600))->WriteAt(0, bytes));
  (*capture)->Take(0, bytes, 1);
  ProtectRequest request;
  request.touched.emplace();
  (*request.touched)[0].Add({0, bytes.size()});
  request.capture = capture->get();
  request.own_intents = {start->intent};
  request.departs_from = start->intent.uuid;
  request.departs_from_generation = start->intent.generation;
  const DatasetReport committed = Protect(Here(), Ref(), request);
  ASSERT_OK(committed.status);
  EXPECT_EQ(committed.unit, kStripe);
  EXPECT_GT(committed.bytes_captured, bytes.size() / 2);
  EXPECT_EQ(Check().state, DatasetState::kIntact);
}

TEST_F(ByServers, WhatHelpsNobodyChangesNothingButAWarning) {
  struct Case {
    const char* what;
    Stripes data;
    const char* warning;
  };
  const auto striped = [](std::uint64_t unit, std::vector<std::string> servers) {
    return Stripes(std::optional(StripeLayout{"Lustre", {{.unit = unit, .servers = std::move(servers)}}}));
  };
  Stripes redundant = striped(kStripe, {"a+b", "c+d"});
  (*redundant)->redundant = true;
  std::vector<Case> cases;
  cases.push_back({"nothing told", Stripes(std::optional<StripeLayout>()), ""});
  cases.push_back({"absurd", Stripes(Status(Code::kInvalidArgument, "Lustre tells stripes that make no sense (0 stripes)")), "(0 stripes)"});
  cases.push_back({"one server", striped(kStripe, Osts(1)), "all of it is on one server, OST0"});
  cases.push_back({"odd stripes", striped(kStripe + 1, Osts(4)), "no multiple of its blocks"});
  cases.push_back({"redundant", redundant, ""});
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    Make(40 * kStripe, Osts(4), Osts(4, 4));
    Options without = options_;
    ASSERT_OK(Protect({fs_, *self_, without}, Ref(), {}).status);
    const DatasetReport plain = Info(Here(), Ref());
    ASSERT_OK(fs_.Remove(*SidecarPath(ref_.path)));
    fs_.Memo<StripeMemo>().answer = [&](File&) { return one.data; };
    AskForServers();
    options_.stripe = without.stripe;
    const DatasetReport made = ProtectNow();
    ASSERT_OK(made.status);
    EXPECT_EQ(made.root, plain.root);
    EXPECT_EQ(made.warnings.size(), *one.warning == '\0' ? 0u : 1u);
    if (!made.warnings.empty()) {
      EXPECT_THAT(made.warnings[0], HasSubstr("stripe=servers changes nothing: "));
      EXPECT_THAT(made.warnings[0], HasSubstr(one.warning));
    }
    EXPECT_FALSE(ProtectNow().committed);  // and it is up to date
    options_ = without;
  }
}

// Members of a set on one server are dealt to different groups.
TEST_F(ByServers, MembersOfASetAreDealtByServers) {
  NameFiles(8);
  for (const std::string& path : paths_) fs_.Put(path, RandomBytes(rng_, 10 * kStripe));
  const auto server_of = [](const std::string& path) { return "OST" + std::to_string((path.back() - '0') / 2); };  // two members on each
  fs_.Memo<StripeMemo>().answer = [&](File& file) -> Stripes {
    ++asked_;
    const bool sidecar = BaseNameOf(file.path()).starts_with(".LZY");
    return std::optional(StripeLayout{"Lustre", {{.unit = kStripe, .servers = {sidecar ? "OST" + std::string(1, file.path().back()) + "9" : server_of(file.path())}}}});
  };
  options_.group = 4;
  AskForServers();
  const DatasetReport made = ProtectNow();
  ASSERT_OK(made.status);
  EXPECT_EQ(asked_, 8);  // one each
  EXPECT_THAT(made.warnings, IsEmpty());
  const DatasetReport info = Info(Here(), Ref());
  EXPECT_THAT(info.warnings, IsEmpty());
  ASSERT_EQ(info.map.size(), 2u);
  for (const GroupMap& group : info.map) {
    std::set<std::string> servers;
    for (const GroupMap::Device& device : group.devices) {
      EXPECT_EQ(device.domain, server_of(device.path));
      EXPECT_EQ(device.server, device.domain);
      servers.insert(device.server);
    }
    EXPECT_EQ(servers.size(), 4u);
  }
}

TEST_F(ByServers, ASetThatOneServerHasIsWarnedOf) {
  NameFiles(4);
  for (const std::string& path : paths_) fs_.Put(path, RandomBytes(rng_, 4 * kStripe));
  fs_.Memo<StripeMemo>().answer = [&](File&) -> Stripes { return std::optional(StripeLayout{"GlusterFS", {{.servers = {"n1"}}}}); };
  AskForServers();
  const DatasetReport made = ProtectNow();
  ASSERT_OK(made.status);
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_THAT(made.warnings[0], HasSubstr("4 members of one server are in one group; if this server is lost, parity 1 cannot rebuild them"));
  const DatasetReport info = Info(Here(), Ref());
  ASSERT_EQ(info.warnings.size(), 1u);
  EXPECT_THAT(info.warnings[0], HasSubstr("if server n1 is lost, parity 1 cannot rebuild it: 4 blocks of one row are there"));
}

}  // namespace
}  // namespace lzy::testing
