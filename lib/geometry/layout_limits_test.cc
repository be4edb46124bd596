// Parameters that are accepted and refused, and what a refusal says.
#include "geometry/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "layout_model.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using ::testing::HasSubstr;

struct BadValue {
  const char* name;
  std::function<void(GeometryParameters&, std::vector<std::uint64_t>&)> spoil;
  std::vector<std::string> message;  // what it must name: the thing with the value, and what is accepted
};

void PrintTo(const BadValue& bad, std::ostream* out) {
  *out << bad.name;
}

class LayoutRefuses : public ::testing::TestWithParam<BadValue> {};

TEST_P(LayoutRefuses, WithAMessageThatNamesIt) {
  GeometryParameters parameters = Set(4, 1, 65536, 1 << 20);
  std::vector<std::uint64_t> sizes(4, 1000);
  ASSERT_OK(Layout::Create(parameters, sizes));
  GetParam().spoil(parameters, sizes);
  const Result<Layout> layout = Layout::Create(parameters, sizes);
  EXPECT_CODE(layout, Code::kInvalidArgument);
  for (const std::string& part : GetParam().message) EXPECT_THAT(layout.status().message(), HasSubstr(part));
}

using P = GeometryParameters;
using Sizes = std::vector<std::uint64_t>;

const std::vector<BadValue>& BadValues() {
  static const std::vector<BadValue> values = {
        BadValue{"BlockZero", [](P& p, Sizes&) { p.block_size = 0; }, {"block size 0:", "512", "16777216"}},
        BadValue{"BlockOdd", [](P& p, Sizes&) { p.block_size = 65535; }, {"block size 65535:", "power of two"}},
        BadValue{"BlockSmall", [](P& p, Sizes&) { p.block_size = 256; }, {"block size 256:", "512"}},
        BadValue{"BlockLarge", [](P& p, Sizes&) { p.block_size = 32u << 20; }, {"block size 33554432:", "16777216"}},
        BadValue{"UnitZero", [](P& p, Sizes&) { p.unit = 0; }, {"stripe unit 0:", "65536"}},
        BadValue{"UnitSmall", [](P& p, Sizes&) { p.unit = 32768; }, {"stripe unit 32768:", "65536"}},
        BadValue{"UnitOdd", [](P& p, Sizes&) { p.unit = 3 * 65536; }, {"stripe unit 196608:", "power of two"}},
        BadValue{"UnitLarge", [](P& p, Sizes&) { p.unit = 2ull << 30; }, {"stripe unit 2147483648:", "1073741824"}},
        BadValue{"Kind", [](P& p, Sizes&) { p.kind = static_cast<DatasetKind>(3); }, {"dataset kind 3:", "1", "2"}},
        BadValue{"Placement",
                 [](P& p, Sizes&) { p.placement = static_cast<ParityPlacement>(0); },
                 {"parity placement 0:", "1 (pooled)", "3 (striped)"}},
        BadValue{"PooledSet",
                 [](P& p, Sizes&) { p.placement = ParityPlacement::kPooled; },
                 {"parity placement 1:", "file set", "2 (per device)"}},
        BadValue{"StripedSet",
                 [](P& p, Sizes&) { p.placement = ParityPlacement::kStriped; },
                 {"parity placement 3:", "file set", "2 (per device)"}},
        BadValue{"NoGroups", [](P& p, Sizes&) { p.groups.clear(); }, {"groups 0:", "at least 1"}},
        BadValue{"EmptyGroup", [](P& p, Sizes&) { p.groups.push_back({}); }, {"group 1 has 0 devices:", "1 to 255"}},
        BadValue{
            "LargeGroup", [](P& p, Sizes&) { p.groups = OneGroup(256); }, {"group 0 has 256 devices:", "1 to 255"}},
        BadValue{"ParityAll", [](P& p, Sizes&) { p.parity = 4; }, {"parity 4:", "4 devices of group 0", "0 to 3"}},
        BadValue{"ParityOfSmallestGroup",
                 [](P& p, Sizes&) {
                   p.parity = 2;
                   p.groups = {{0, 1, 2}, {3, 4}};
                 },
                 {"parity 2:", "2 devices of group 1", "0 to 1"}},
        BadValue{"DeviceTwice",
                 [](P& p, Sizes&) {
                   p.groups = {{0, 1}, {2, 1}};
                 },
                 {"device 1 in group 1:", "once"}},
        BadValue{"DeviceUnknown",
                 [](P& p, Sizes&) {
                   p.groups = {{0, 1}, {2, 4}};
                 },
                 {"device 4 in group 1:", "0 to 3"}},
        BadValue{"SizesFew", [](P&, Sizes& sizes) { sizes.pop_back(); }, {"3 file sizes:", "4, one for each"}},
        BadValue{"SizesMany", [](P&, Sizes& sizes) { sizes.push_back(0); }, {"5 file sizes:", "4, one for each"}},
        BadValue{
            "SizesOfShared", [](P& p, Sizes&) { p.kind = DatasetKind::kShared; }, {"4 file sizes:", "1 for a shared"}},
        BadValue{"SizeLarge",
                 [](P&, Sizes& sizes) { sizes[2] = (1ull << 62) + 1; },
                 {"size 4611686018427387905 of file 2:", "4611686018427387904"}},
        BadValue{"RegionLarge",
                 [](P& p, Sizes& sizes) {
                   p.parity = 3;  // three times the data
                   sizes.assign(4, 1ull << 62);
                 },
                 {"file size 4611686018427387904", "parity 3", "4 devices", "9223372036854775807"}}};
  return values;
}

std::string NameOf(const ::testing::TestParamInfo<BadValue>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Values, LayoutRefuses, ::testing::ValuesIn(BadValues()), NameOf);

TEST(Layout, AcceptsTheLimits) {
  EXPECT_OK(Layout::Create(Shared(255, 254, kMinBlockSize, kMinBlockSize), {1}));
  EXPECT_OK(Layout::Create(Shared(1, 0, kMaxBlockSize, kMaxUnit), {1ull << 62}));
  EXPECT_OK(Layout::Create(Set(2, 1, kMaxBlockSize, kMaxBlockSize), {1ull << 62, 0}));
}

}  // namespace
}  // namespace lzy::testing
