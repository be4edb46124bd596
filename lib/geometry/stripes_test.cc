#include "geometry/stripes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kMiB = 1u << 20, kGiB = 1u << 30;
constexpr std::uint32_t kBlock = 64u << 10;

std::vector<std::string> Osts(std::uint32_t count, std::uint32_t first = 0) {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back("OST" + std::to_string(first + i));
  return out;
}

StripeLayout Striped(std::uint64_t unit, std::vector<std::string> servers) {
  return {"Lustre", {{.unit = unit, .servers = std::move(servers)}}};
}

std::vector<std::size_t> SizesOf(const ServerGeometry& geometry) {
  std::vector<std::size_t> sizes;
  for (const auto& group : geometry.groups) sizes.push_back(group.size());
  return sizes;
}

TEST(StripeLayout, TellsTheServerOfEachByte) {
  StripeLayout layout{"Lustre", {{0, kMiB, kMiB, {"a"}}, {kMiB, 8 * kMiB, kMiB, {"b", "c", "d"}}}};
  EXPECT_EQ(layout.ServerAt(0), "a");
  EXPECT_EQ(layout.ServerAt(kMiB - 1), "a");
  EXPECT_EQ(layout.ServerAt(kMiB), "c");  // stripes are counted from the beginning of the file
  EXPECT_EQ(layout.ServerAt(3 * kMiB), "b");
  EXPECT_EQ(layout.ServerAt(8 * kMiB), "");
  EXPECT_EQ(StripeLayout({"CephFS", {{}}}).ServerAt(5), "");
}

TEST(GeometryByServers, Table) {
  struct Case {
    const char* what;
    StripeLayout stripes;
    std::uint64_t size;
    std::uint32_t group, parity;
    std::uint64_t unit;
    std::vector<std::size_t> groups;
  };
  std::vector<std::string> twice = Osts(4);
  twice.insert(twice.end(), {"OST0", "OST1", "OST2", "OST3"});
  const std::vector<Case> cases = {
      {"one group", Striped(kMiB, Osts(4)), kGiB, 8, 1, kMiB, {4}},
      {"a small file has the same unit", Striped(4 * kMiB, Osts(5)), 100, 8, 1, 4 * kMiB, {5}},
      {"an empty file", Striped(kMiB, Osts(4)), 0, 8, 1, kMiB, {4}},
      {"two servers", Striped(kMiB, Osts(2)), kGiB, 8, 1, kMiB, {2}},
      {"more servers than a group has devices", Striped(kMiB, Osts(16)), kGiB, 8, 2, kMiB, {8, 8}},
      {"sizes differ by one", Striped(kMiB, Osts(9)), kGiB, 8, 1, kMiB, {5, 4}},
      {"3 MiB are three units, in groups of their own", Striped(3 * kMiB, Osts(4)), kGiB, 8, 1, kMiB, {4, 4, 4}},
      {"several stripes on a server", Striped(kMiB, twice), kGiB, 8, 1, kMiB, {4, 4}},
      {"a unit has a limit", Striped(2 * kGiB, Osts(4)), 100 * kGiB, 8, 1, kGiB, {4, 4}},
      {"without names, places", Striped(kMiB, std::vector<std::string>(3)), kGiB, 8, 1, kMiB, {3}},
      {"each stripe in a place of its own", Striped(4 * kMiB, {}), kGiB, 6, 1, 4 * kMiB, {6}},
      {"most of the file decides", {"Lustre", {{0, kMiB, kMiB, Osts(1)}, {kMiB, StripePiece::kNoEnd, 4 * kMiB, Osts(6)}}}, kGiB, 8, 1, 4 * kMiB, {6}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const auto got = GeometryByServers(one.stripes, one.size, kBlock, one.group, one.parity);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_EQ(got->unit, one.unit);
    EXPECT_EQ(SizesOf(*got), one.groups);
    const auto layout = Layout::Create({.placement = ParityPlacement::kStriped,
                                        .block_size = kBlock,
                                        .unit = got->unit,
                                        .parity = one.parity,
                                        .groups = got->groups},
                                       {one.size});
    ASSERT_TRUE(layout.ok()) << layout.status().message();
    // The servers of the data alone: no row has two units on one.
    const auto data = [&](bool of_parity, std::uint32_t, std::uint64_t offset) {
      return of_parity ? std::string_view() : one.stripes.ServerAt(offset);
    };
    EXPECT_LE(WorstServer(*layout, data).blocks, 1u);
  }
}

TEST(GeometryByServers, RefusesWhatCannotBearTheLossOfAServer) {
  const auto why = [](const StripeLayout& stripes, std::uint32_t parity, std::uint32_t block = kBlock) {
    const auto got = GeometryByServers(stripes, kGiB, block, 8, parity);
    EXPECT_EQ(got.status().code(), Code::kInvalidArgument);
    return got.status().message();
  };
  EXPECT_THAT(why(Striped(kMiB, Osts(1)), 1), HasSubstr("all of it is on one server, OST0"));
  EXPECT_THAT(why(Striped(kMiB, {"a", "a", "a"}), 1), HasSubstr("one server"));
  EXPECT_THAT(why(Striped(kMiB, Osts(2)), 2), HasSubstr("too few for parity 2"));
  EXPECT_THAT(why(Striped(kMiB, std::vector<std::string>(1)), 1), HasSubstr("too few for parity 1"));
  EXPECT_THAT(why(Striped(4096, Osts(4)), 1), HasSubstr("no multiple of its blocks"));
  EXPECT_THAT(why(Striped(kMiB + 1, Osts(4)), 1), HasSubstr("no multiple of its blocks"));
  EXPECT_THAT(why(Striped(65537 * std::uint64_t{kBlock}, Osts(4)), 1), HasSubstr("more than 4096 devices"));
  EXPECT_THAT(why(Striped(StripePiece::kNoEnd, Osts(4)), 1), HasSubstr("no multiple of its blocks"));
}

Layout LayoutOf(ParityPlacement placement, std::uint32_t n, std::uint32_t parity, std::uint64_t unit, std::uint64_t size) {
  std::vector<std::uint32_t> group;
  for (std::uint32_t d = 0; d < n; ++d) group.push_back(d);
  return *Layout::Create({.placement = placement, .block_size = kBlock, .unit = unit, .parity = parity, .groups = {group}}, {size});
}

// Data and parity on the same servers, the parity in a region that begins so many stripes later.
std::uint32_t Worst(const Layout& layout, const StripeLayout& data, const StripeLayout& sidecar, std::uint64_t base) {
  return WorstServer(layout, [&](bool of_parity, std::uint32_t, std::uint64_t offset) {
           return of_parity ? sidecar.ServerAt(base + offset) : data.ServerAt(offset);
         }).blocks;
}

TEST(WorstServer, ParityCounts) {
  const StripeLayout stripes = Striped(kMiB, Osts(4));
  for (const std::uint32_t m : {1u, 2u}) {
    const Layout layout = LayoutOf(ParityPlacement::kStriped, 4, m, kMiB, 64 * kMiB);
    EXPECT_EQ(Worst(layout, stripes, stripes, 0), 1u);
    EXPECT_EQ(Worst(layout, stripes, stripes, 4 * kMiB), 1u);
    EXPECT_EQ(Worst(layout, stripes, stripes, kMiB), 2u);               // each server has data of one device, parity of the next
    EXPECT_EQ(Worst(layout, stripes, Striped(kMiB, Osts(4, 4)), 0), 1u);  // other servers
    EXPECT_EQ(Worst(layout, stripes, Striped(kMiB, Osts(1, 9)), 0), m);   // all parity on one server
    EXPECT_EQ(Worst(layout, stripes, Striped(kMiB, Osts(1)), 0), m + 1);
  }
}

TEST(WorstServer, UnitsThatAreNoStripes) {
  const Layout layout = LayoutOf(ParityPlacement::kPooled, 8, 1, 256u << 10, 64 * kMiB);
  const StripeLayout one = Striped(kMiB, Osts(1)), four = Striped(kMiB, Osts(4)), none{"CephFS", {{}}};
  EXPECT_EQ(Worst(layout, one, one, 0), 8u);
  EXPECT_EQ(Worst(layout, four, none, 0), 4u);
  const ServerLoss nothing = WorstServer(layout, [](bool, std::uint32_t, std::uint64_t) { return std::string_view(); });
  EXPECT_EQ(nothing.blocks, 0u);
  EXPECT_EQ(nothing.server, "");
  EXPECT_EQ(Worst(LayoutOf(ParityPlacement::kPooled, 8, 1, kBlock, 0), one, one, 0), 0u);
}

TEST(ServersOfDevice, NamesThem) {
  const StripeLayout stripes = Striped(kMiB, Osts(4));
  const auto of_data = [&](bool of_parity, std::uint32_t, std::uint64_t offset) {
    return of_parity ? std::string_view("parity") : stripes.ServerAt(offset);
  };
  const Layout striped = LayoutOf(ParityPlacement::kStriped, 4, 1, kMiB, 64 * kMiB);
  for (std::uint32_t d = 0; d < 4; ++d) EXPECT_THAT(ServersOfDevice(striped, d, of_data, 8), ElementsAre("OST" + std::to_string(d)));
  const Layout other = LayoutOf(ParityPlacement::kPooled, 3, 1, kMiB, 64 * kMiB);
  EXPECT_THAT(ServersOfDevice(other, 0, of_data, 8), ElementsAre("OST0", "OST3", "OST2", "OST1"));
  EXPECT_THAT(ServersOfDevice(other, 0, of_data, 2), ElementsAre("OST0", "OST3"));
  const Layout small = LayoutOf(ParityPlacement::kStriped, 4, 1, kMiB, 100);
  EXPECT_THAT(ServersOfDevice(small, 0, of_data, 8), ElementsAre("OST0"));
  EXPECT_THAT(ServersOfDevice(small, 1, of_data, 8), ElementsAre("parity"));
}

}  // namespace
}  // namespace lzy
