#include "storage/file_stripes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/bytes.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kMiB = 1u << 20;

Bytes FromHex(std::string_view hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// Attributes as lustre_user.h lays them out, in either byte order.
class Writer {
 public:
  explicit Writer(bool big = false) : big_(big) {}
  template <class T>
  Writer& Put(T value) {
    std::uint8_t raw[sizeof(T)];
    StoreLe(raw, value);
    if (big_) std::reverse(raw, raw + sizeof raw);
    bytes_.insert(bytes_.end(), raw, raw + sizeof raw);
    return *this;
  }
  Writer& Zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  Writer& Append(const Bytes& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes bytes() const { return bytes_; }

 private:
  const bool big_;
  Bytes bytes_;
};

constexpr std::uint32_t kV1 = 0x0BD10BD0, kV3 = 0x0BD30BD0, kComposite = 0x0BD60BD0;

struct Plain {
  std::uint32_t magic = kV1, pattern = 1, unit = kMiB;
  std::vector<std::uint32_t> osts = {3, 0, 0x1a};
  bool big = false;
  int count = -1;  // other than that of osts
};

Bytes LustreBytes(const Plain& p) {
  Writer out(p.big);
  out.Put(p.magic).Put(p.pattern).Zeros(16).Put(p.unit);
  out.Put(static_cast<std::uint16_t>(p.count < 0 ? p.osts.size() : p.count)).Put<std::uint16_t>(0);
  if (p.magic != kV1) out.Zeros(16);
  for (const std::uint32_t ost : p.osts) out.Zeros(16).Put<std::uint32_t>(7).Put(ost);
  return out.bytes();
}

struct Component {
  std::uint32_t id, flags;
  std::uint64_t begin, end;
  Bytes plain;
};

Bytes CompositeBytes(const std::vector<Component>& components, bool big = false) {
  std::size_t at = 32 + 48 * components.size(), size = at;
  for (const Component& c : components) size += c.plain.size();
  Writer out(big);
  out.Put(kComposite).Put(static_cast<std::uint32_t>(size)).Put<std::uint32_t>(1).Put<std::uint16_t>(0);
  out.Put(static_cast<std::uint16_t>(components.size())).Zeros(16);
  for (const Component& c : components) {
    out.Put(c.id).Put(c.flags).Put(c.begin).Put(c.end).Put(static_cast<std::uint32_t>(at)).Put(static_cast<std::uint32_t>(c.plain.size())).Zeros(16);
    at += c.plain.size();
  }
  for (const Component& c : components) out.Append(c.plain);
  return out.bytes();
}

constexpr std::uint32_t kInit = 0x10, kStale = 0x1;
constexpr std::uint64_t kEnd = ~std::uint64_t{0};

// Layout of a file with lfs setstripe -E 1M -c 1 -E 1G -c 2 -E -1 -c 4, of which the last component has no objects yet.
std::vector<Component> Progressive(bool big = false) {
  return {{1, kInit, 0, kMiB, LustreBytes({.osts = {5}, .big = big})},
          {2, kInit, kMiB, 1u << 30, LustreBytes({.magic = kV3, .unit = 4 * kMiB, .osts = {1, 2}, .big = big})},
          {3, 0, 1u << 30, kEnd, LustreBytes({.osts = {}, .big = big, .count = 4})}};
}

std::string Why(const Stripes& stripes) {
  EXPECT_EQ(stripes.status().code(), Code::kInvalidArgument);
  return stripes.status().message();
}

TEST(ParseLustre, VersionOne) {
  // As a client writes it: object ids, generation and index of each stripe.
  const auto got = ParseLustre(FromHex("d00bd10b" "01000000" "0504000000000000" "0002000000000000" "00001000" "0200" "0000"
                                       "a202000000000000" "0000000000000000" "00000000" "01000000"
                                       "a202000000000000" "0000000000000000" "00000000" "0f000000"));
  ASSERT_TRUE(got.ok()) << got.status().message();
  ASSERT_TRUE(got->has_value());
  EXPECT_EQ((*got)->file_system, "Lustre");
  EXPECT_FALSE((*got)->redundant);
  EXPECT_THAT((*got)->pieces, ElementsAre(StripePiece{.unit = kMiB, .servers = {"OST0001", "OST000f"}}));
}

TEST(ParseLustre, VersionThreeAndBothByteOrders) {
  for (const bool big : {false, true}) {
    for (const std::uint32_t magic : {kV1, kV3, 0x0BD50BD0u}) {
      const auto got = ParseLustre(LustreBytes({.magic = magic, .pattern = 0x201, .unit = 3 * 65536, .big = big}));
      ASSERT_TRUE(got.ok() && got->has_value()) << got.status().message();
      EXPECT_THAT((*got)->pieces, ElementsAre(StripePiece{.unit = 3 * 65536, .servers = {"OST0003", "OST0000", "OST001a"}}));
    }
  }
}

TEST(ParseLustre, Composite) {
  for (const bool big : {false, true}) {
    const auto got = ParseLustre(CompositeBytes(Progressive(big), big));
    ASSERT_TRUE(got.ok() && got->has_value()) << got.status().message();
    EXPECT_THAT((*got)->pieces, ElementsAre(StripePiece{0, kMiB, kMiB, {"OST0005"}}, StripePiece{kMiB, 1u << 30, 4 * kMiB, {"OST0001", "OST0002"}}));
    EXPECT_EQ((*got)->ServerAt(5 * kMiB), "OST0002");
    EXPECT_EQ((*got)->ServerAt(1u << 30), "");
  }
}

TEST(ParseLustre, MirrorsDataOnTheMdtAndWhatIsNotStored) {
  const Bytes one = LustreBytes({.osts = {1}}), other = LustreBytes({.osts = {2}});
  auto got = ParseLustre(CompositeBytes({{0x10001, kInit, 0, kEnd, one}, {0x20001, kInit, 0, kEnd, other}}));
  ASSERT_TRUE(got.ok() && got->has_value());
  EXPECT_TRUE((*got)->redundant);
  EXPECT_THAT((*got)->pieces, ElementsAre(StripePiece{.unit = kMiB, .servers = {"OST0001"}}));
  // A stale mirror helps nobody.
  got = ParseLustre(CompositeBytes({{0x10001, kInit | kStale, 0, kEnd, one}, {0x20001, kInit, 0, kEnd, other}}));
  ASSERT_TRUE(got.ok() && got->has_value());
  EXPECT_FALSE((*got)->redundant);
  EXPECT_EQ((*got)->pieces[0].servers[0], "OST0002");
  got = ParseLustre(CompositeBytes({{1, kInit, 0, 65536, LustreBytes({.pattern = 0x100, .osts = {}})}, {2, kInit, 65536, kEnd, one}}));
  ASSERT_TRUE(got.ok() && got->has_value()) << got.status().message();
  EXPECT_EQ((*got)->ServerAt(0), "MDT");
  EXPECT_EQ((*got)->ServerAt(65536), "OST0001");
  for (const Bytes& nothing : {LustreBytes({.pattern = 0x80000001}), CompositeBytes({{1, 0, 0, kEnd, one}})}) {
    got = ParseLustre(nothing);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_FALSE(got->has_value());
  }
}

TEST(ParseLustre, RefusesWhatMakesNoSense) {
  EXPECT_THAT(Why(ParseLustre(LustreBytes({.unit = 0}))), HasSubstr("0 bytes"));
  EXPECT_THAT(Why(ParseLustre(LustreBytes({.count = 0}))), HasSubstr("0 stripes"));
  EXPECT_THAT(Why(ParseLustre(LustreBytes({.count = 0xffff}))), HasSubstr("65535 stripes"));
  EXPECT_THAT(Why(ParseLustre(LustreBytes({.count = 4}))), HasSubstr("cut off"));
  EXPECT_THAT(Why(ParseLustre(LustreBytes({.osts = {0xffffffff}}))), HasSubstr("is on OST 4294967295"));
  EXPECT_THAT(Why(ParseLustre(LustreBytes({.pattern = 2}))), HasSubstr("pattern 00000002"));
  EXPECT_THAT(Why(ParseLustre(LustreBytes({.magic = 0x0BD70BD0}))), HasSubstr("magic number is 0bd70bd0"));
  EXPECT_THAT(Why(ParseLustre(FromHex(std::string(64, '0')))), HasSubstr("magic number"));
  const Bytes one = LustreBytes({.osts = {1}});
  EXPECT_THAT(Why(ParseLustre(CompositeBytes({}))), HasSubstr("0 components"));
  EXPECT_THAT(Why(ParseLustre(CompositeBytes({{1, kInit, 5, 5, one}}))), HasSubstr("ends before it begins"));
  EXPECT_THAT(Why(ParseLustre(CompositeBytes({{1, kInit, 0, 9, one}, {2, kInit, 8, kEnd, one}}))), HasSubstr("overlap"));
  // A composite layout is none of its own components.
  EXPECT_THAT(Why(ParseLustre(CompositeBytes({{1, kInit, 0, kEnd, CompositeBytes(Progressive())}}))), HasSubstr("magic number"));
  Bytes outside = CompositeBytes({{1, kInit, 0, kEnd, one}});
  StoreLe<std::uint32_t>(outside.data() + 32 + 24, 0xfffffff0);
  EXPECT_THAT(Why(ParseLustre(outside)), HasSubstr("cut off"));
}

// Copies of exactly the given size, so that a sanitizer sees every byte read behind the end.
void EachPrefix(const Bytes& whole, bool last_bytes_count) {
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::unique_ptr<std::uint8_t[]> cut(new std::uint8_t[size]);
    std::memcpy(cut.get(), whole.data(), size);
    const auto got = ParseLustre({cut.get(), size});
    EXPECT_FALSE(last_bytes_count && got.ok()) << size;
  }
}

TEST(ParseLustre, CutShortAtEachLength) {
  EachPrefix(LustreBytes({}), true);
  EachPrefix(LustreBytes({.magic = kV3, .big = true}), true);
  EachPrefix(CompositeBytes(Progressive()), false);  // the last component has no objects
  EachPrefix(CompositeBytes({Progressive()[0], Progressive()[1]}), true);
}

/// Changes `bytes` in up to five places, and may cut them off. The result has no spare memory behind it, so that
/// AddressSanitizer finds reads behind the end.
Bytes Mutated(Bytes bytes, std::mt19937& random) {
  for (std::uint64_t flips = random() % 6; flips > 0; --flips) bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
  if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
  return {bytes.begin(), bytes.end()};
}

/// Expects that a layout which a parser accepted has a server for each byte, and that GeometryByServers does not crash.
void ExpectUsable(const Stripes& got, std::mt19937& random) {
  if (!got.ok() || !got->has_value()) return;
  for (const StripePiece& piece : (*got)->pieces) {
    EXPECT_LT(piece.begin, piece.end);
    EXPECT_GT(piece.unit, 0u);
    EXPECT_LE(piece.servers.size(), 4096u);
    (void)(*got)->ServerAt(piece.begin);
    (void)(*got)->ServerAt(piece.end - 1);
  }
  (void)GeometryByServers(**got, random(), 65536, 8, 1);
}

TEST(ParseLustre, MutatedAttributes) {
  std::mt19937 random(11);
  const std::vector<Bytes> seeds = {LustreBytes({}), LustreBytes({.magic = kV3, .big = true}), CompositeBytes(Progressive())};
  for (int round = 0; round < 30000; ++round) ExpectUsable(ParseLustre(Mutated(seeds[random() % seeds.size()], random)), random);
}

TEST(ParseCeph, Layouts) {
  auto got = ParseCeph("stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=cephfs.a.data");
  ASSERT_TRUE(got.ok() && got->has_value());
  EXPECT_EQ((*got)->file_system, "CephFS");
  EXPECT_THAT((*got)->pieces, ElementsAre(StripePiece{.unit = 4u << 20}));
  got = ParseCeph("stripe_unit=1048576 stripe_count=3 object_size=8388608 pool=data pool_namespace=n");
  ASSERT_TRUE(got.ok() && got->has_value());
  EXPECT_THAT((*got)->pieces, ElementsAre(StripePiece{.unit = kMiB, .servers = {"", "", ""}}));
  EXPECT_EQ((*got)->ServerAt(0), "");
}

TEST(ParseCeph, RefusesWhatMakesNoSense) {
  const std::string good = "stripe_unit=65536 stripe_count=2 object_size=131072 pool=p";
  ASSERT_TRUE(ParseCeph(good).ok());
  for (std::size_t size = 0; size < good.size() - 15; ++size) EXPECT_FALSE(ParseCeph(good.substr(0, size)).ok()) << size;
  for (const char* bad : {"", "stripe_unit=0 stripe_count=1 object_size=0", "stripe_unit=65536 stripe_count=0 object_size=65536",
                          "stripe_unit=65536 stripe_count=1 object_size=65537", "stripe_unit=65536 stripe_count=9999999 object_size=65536",
                          "stripe_unit=-1 stripe_count=1 object_size=65536", "stripe_unit=65536x stripe_count=1 object_size=65536",
                          "stripe_unit=99999999999999999999 stripe_count=1 object_size=1", "xstripe_unit=1 stripe_count=1 object_size=1"}) {
    EXPECT_FALSE(ParseCeph(bad).ok()) << bad;
  }
}

TEST(ParseCeph, MutatedAttributes) {
  std::mt19937 random(7);
  const std::string_view seeds[] = {"stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=cephfs.a.data",
                                    "stripe_unit=1048576 stripe_count=3 object_size=8388608 pool=data pool_namespace=n"};
  for (int round = 0; round < 20000; ++round) {
    const std::string_view seed = seeds[random() % 2];
    const Bytes bytes = Mutated({seed.begin(), seed.end()}, random);
    ExpectUsable(ParseCeph({reinterpret_cast<const char*>(bytes.data()), bytes.size()}), random);
  }
}

// What mounts of GlusterFS 10.3 told, with other names of hosts and directories; a dispersed volume refuses (ENOMEM).
TEST(ParseGluster, Bricks) {
  auto got = ParseGluster(std::string_view("(<DISTRIBUTE:v-dht> <POSIX(/bricks/brick0/b):n1:/bricks/brick0/b/f>)\0", 68));
  ASSERT_TRUE(got.ok() && got->has_value()) << got.status().message();
  EXPECT_FALSE((*got)->redundant);
  EXPECT_THAT((*got)->pieces, ElementsAre(StripePiece{.servers = {"n1"}}));
  EXPECT_EQ((*got)->ServerAt(123456789), "n1");
  const std::string two = "(<REPLICATE:v-replicate-0> <POSIX(/bricks/brick1/b):n2:/bricks/brick1/b/sp ace> <POSIX(/bricks/brick0/b):n1:/bricks/brick0/b/sp ace>)";
  got = ParseGluster(two);
  ASSERT_TRUE(got.ok() && got->has_value()) << got.status().message();
  EXPECT_TRUE((*got)->redundant);
  EXPECT_EQ((*got)->ServerAt(0), "n1+n2");
  // Both bricks on one host: its loss takes both.
  got = ParseGluster("(<REPLICATE:v-replicate-0> <POSIX(/a):vm:/a/f> <POSIX(/b):vm:/b/f>)");
  ASSERT_TRUE(got.ok() && got->has_value()) << got.status().message();
  EXPECT_FALSE((*got)->redundant);
  EXPECT_EQ((*got)->ServerAt(0), "vm");
}

TEST(ParseGluster, RefusesWhatMakesNoSense) {
  for (const char* bad : {"", "(", "<POSIX(", "(<DISTRIBUTE:v-dht> )", "<POSIX(/a):host", "<POSIX(/a):host:/a/f", "<POSIX(/a)::/a/f>",
                          "<POSIX(/a):one:/a/f> <POSIX(/b):two:/b/f>"}) {
    EXPECT_FALSE(ParseGluster(bad).ok()) << bad;
  }
  std::mt19937 random(5);
  const std::string whole = "(<REPLICATE:v> <POSIX(/a):n2:/a/f> <POSIX(/b):n1:/b/f>)";
  for (int round = 0; round < 20000; ++round) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (std::uint64_t flips = random() % 4; flips > 0 && !text.empty(); --flips) text[random() % text.size()] = "<>():/+\0PX n"[random() % 12];
    const auto got = ParseGluster(text);
    EXPECT_FALSE(got.ok() && got->has_value() && (*got)->ServerAt(0).empty()) << text;
  }
}

Bytes BeegfsInfo(std::uint32_t pattern, std::uint32_t chunk, std::uint16_t targets) {
  Bytes bytes(kBeegfsInfoBytes);
  std::memcpy(bytes.data(), &pattern, 4);
  std::memcpy(bytes.data() + 4, &chunk, 4);
  std::memcpy(bytes.data() + 8, &targets, 2);
  return bytes;
}

Bytes BeegfsTarget(std::uint32_t node, std::string_view alias, std::uint32_t second = 0, std::string_view second_alias = "") {
  Bytes bytes(kBeegfsTargetBytes);
  std::memcpy(bytes.data() + 16, &node, 4);
  std::memcpy(bytes.data() + 20, &second, 4);
  std::memcpy(bytes.data() + 24, alias.data(), alias.size());
  std::memcpy(bytes.data() + 280, second_alias.data(), second_alias.size());
  return bytes;
}

TEST(ParseBeegfs, Targets) {
  auto got = ParseBeegfs(BeegfsInfo(1, 512 << 10, 3), {BeegfsTarget(1, "stor1"), BeegfsTarget(2, "stor2"), BeegfsTarget(7, "")});
  ASSERT_TRUE(got.ok() && got->has_value()) << got.status().message();
  EXPECT_THAT((*got)->pieces, ElementsAre(StripePiece{.unit = 512u << 10, .servers = {"stor1", "stor2", "node 7"}}));
  EXPECT_FALSE((*got)->redundant);
  got = ParseBeegfs(BeegfsInfo(3, 512 << 10, 1), {BeegfsTarget(1, "a", 2, "b")});
  ASSERT_TRUE(got.ok() && got->has_value()) << got.status().message();
  EXPECT_TRUE((*got)->redundant);
  EXPECT_EQ((*got)->ServerAt(0), "a+b");
  // A name that fills its room has no end.
  got = ParseBeegfs(BeegfsInfo(1, 65536, 1), {BeegfsTarget(1, std::string(256, 'x'), 0, std::string(256, 'y'))});
  ASSERT_TRUE(got.ok() && got->has_value());
  EXPECT_EQ((*got)->ServerAt(0), std::string(255, 'x'));
}

TEST(ParseBeegfs, RefusesWhatMakesNoSense) {
  const Bytes target = BeegfsTarget(1, "a");
  EXPECT_FALSE(ParseBeegfs({}, {}).ok());
  EXPECT_FALSE(ParseBeegfs(BeegfsInfo(0, 65536, 1), {target}).ok());
  EXPECT_FALSE(ParseBeegfs(BeegfsInfo(4, 65536, 1), {target}).ok());
  EXPECT_FALSE(ParseBeegfs(BeegfsInfo(1, 0, 1), {target}).ok());
  EXPECT_FALSE(ParseBeegfs(BeegfsInfo(1, 65536, 0), {}).ok());
  EXPECT_FALSE(ParseBeegfs(BeegfsInfo(1, 65536, 2), {target}).ok());
  EXPECT_FALSE(ParseBeegfs(BeegfsInfo(1, 65536, 1), {Bytes(kBeegfsTargetBytes - 1)}).ok());
}

TEST(ParseBeegfs, MutatedAnswers) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    const Bytes info = Mutated(BeegfsInfo(1 + round % 3, 512 << 10, 2), random);
    const std::vector<Bytes> targets = {Mutated(BeegfsTarget(1, "stor1", 2, "stor2"), random), Mutated(BeegfsTarget(2, "stor2"), random)};
    ExpectUsable(ParseBeegfs(info, targets), random);
  }
}

// The file systems of this machine tell nothing, and are asked once.
TEST(StripesOf, OrdinaryFileSystemsTellNothing) {
  FileSystem& fs = PosixFileSystem();
  const auto file = fs.Open("/proc/self/status", OpenMode::kRead);
  ASSERT_TRUE(file.ok());
  for (int i = 0; i < 2; ++i) {
    const auto got = StripesOf(fs, **file);
    ASSERT_TRUE(got.ok());
    EXPECT_FALSE(got->has_value());
  }
}

}  // namespace
}  // namespace lzy
