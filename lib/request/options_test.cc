#include "request/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <ostream>
#include <sstream>
#include <string>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Options With(const std::string& name, const std::string& value) {
  Options options;
  EXPECT_OK(SetOption(options, name, value));
  return options;
}

TEST(OptionTable, HasEveryDocumentedOption) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : OptionSpecs()) {
    names.emplace_back(spec.name);
    EXPECT_STRNE(spec.help, "");
    EXPECT_STRNE(spec.accepts, "");
  }
  EXPECT_THAT(names, ElementsAre("parity", "group", "block-size", "stripe", "set", "commit", "posix", "drain", "include", "exclude", "device-dirs",
                                 "on-error", "memory", "threads", "capture", "verify-reads", "verify-writes", "domain", "topology", "exchange",
                                 "set-sync", "timeout", "report", "catalog", "key", "heal", "summary", "log"));
}

// Shells complete them, so each must be accepted, and the message of an option must name it.
TEST(OptionTable, HasOnlyChoicesThatAreAccepted) {
  int choices = 0;
  for (const OptionSpec& spec : OptionSpecs()) {
    std::istringstream words(spec.choices);
    for (std::string word; words >> word; ++choices) {
      Options options;
      EXPECT_OK(SetOption(options, spec.name, word));
      EXPECT_THAT(spec.accepts, HasSubstr(word));
    }
  }
  EXPECT_GE(choices, 20);
}

TEST(OptionTable, HasTheDocumentedDefaults) {
  const Options options;
  EXPECT_EQ(options.parity, 1u);
  EXPECT_EQ(options.group, 8u);
  EXPECT_EQ(options.block_size, kAutomaticBlockSize);
  EXPECT_EQ(options.stripe, 1048576u);
  EXPECT_THAT(options.set, IsEmpty());
  EXPECT_EQ(options.topology.topology, Topology::kAuto);
  EXPECT_FALSE(options.topology.costs);
  EXPECT_EQ(options.exchange, ExchangeWay::kAuto);
  EXPECT_FALSE(options.fail_on_error);
  EXPECT_EQ(options.memory, 268435456u);
  EXPECT_EQ(options.timeout_seconds, 60u);
  EXPECT_EQ(options.log, Options::Log::kWarn);
  EXPECT_OK(CheckOptions(options));
}

TEST(SetOption, TakesGoodValues) {
  EXPECT_EQ(With("parity", "0").parity, 0u);
  EXPECT_EQ(With("parity", "254").parity, 254u);
  EXPECT_EQ(With("group", "255").group, 255u);
  EXPECT_EQ(With("block-size", "512").block_size, 512u);
  EXPECT_EQ(With("block-size", "16M").block_size, 16u << 20);
  EXPECT_EQ(With("block-size", "auto").block_size, kAutomaticBlockSize);
  EXPECT_EQ(OptionText(Options(), "block-size"), "auto");
  EXPECT_EQ(With("stripe", "1G").stripe, 1u << 30);
  EXPECT_FALSE(With("stripe", "1G").stripe_servers);
  EXPECT_TRUE(With("stripe", "servers").stripe_servers);
  EXPECT_EQ(With("stripe", "servers").stripe, Options().stripe);
  EXPECT_EQ(With("memory", "2T").memory, std::uint64_t{2} << 40);
  EXPECT_EQ(With("threads", "0").threads, 0u);
  EXPECT_EQ(With("timeout", "1").timeout_seconds, 1u);
  EXPECT_TRUE(With("on-error", "fail").fail_on_error);
  EXPECT_FALSE(With("on-error", "warn").fail_on_error);
  EXPECT_EQ(With("log", "error").log, Options::Log::kError);
  EXPECT_EQ(With("log", "debug").log, Options::Log::kDebug);
  EXPECT_EQ(With("report", "/tmp/a b").report, "/tmp/a b");
  EXPECT_EQ(With("catalog", "off").catalog, "off");
  EXPECT_THAT(With("set", "a.%r:/b/%04r/c").set, ElementsAre("a.%r", "/b/%04r/c"));
  EXPECT_THAT(With("include", "*.h5").include, ElementsAre("*.h5"));
  EXPECT_THAT(With("exclude", "").exclude, IsEmpty());
  EXPECT_THAT(With("device-dirs", "/d0:/d1").device_dirs, ElementsAre("/d0", "/d1"));
  for (const char* name : {"verify-reads", "verify-writes", "set-sync", "summary", "heal"}) {
    const auto value_of = [&](const Options& o) {
      return o.verify_reads || o.verify_writes || o.set_sync || o.summary || o.heal;
    };
    for (const char* on : {"on", "1", "true", "yes"}) EXPECT_TRUE(value_of(With(name, on))) << name << on;
    for (const char* off : {"off", "0", "false", "no"}) EXPECT_FALSE(value_of(With(name, off))) << name << off;
  }
}

TEST(CheckOptions, TakesPairsOfPatternsForDrains) {
  for (const char* good : {"a.%r=b.%r", "/n/%r/s.*=p/*/s.%04r:c%r=d%r"}) EXPECT_OK(CheckOptions(With("drain", good)));
  for (const char* bad : {"a.%r", "a.%r=b", "a=b.%r", "a.%r=b.%r=c.%r", "a.%r=b.*.%r", "a.%r=b.%x%r"}) {
    const Status status = CheckOptions(With("drain", bad));
    EXPECT_CODE(status, Code::kInvalidArgument) << bad;
    EXPECT_THAT(status.message(), HasSubstr("drain: ")) << bad;
  }
  EXPECT_EQ(DrainPatterns("a.%r=b.%r"), (std::pair<std::string, std::string>("a.%r", "b.%r")));
}

TEST(OptionText, IsAcceptedBySetOption) {
  const std::pair<const char*, const char*> values[] = {
      {"parity", "3"},        {"group", "7"},       {"block-size", "512"}, {"block-size", "16M"},
      {"stripe", "1G"},       {"stripe", "servers"}, {"set", "a.%r:b.%r"}, {"drain", "a.%r=b.%r:c=d"}, {"include", "*.h5:x"}, {"exclude", "*.tmp"},
      {"device-dirs", "/a"},  {"on-error", "fail"}, {"memory", "100000"},  {"memory", "2T"},
      {"threads", "5"},       {"timeout", "9"},     {"report", "r.json"}, {"catalog", "c.sqlite"},  {"log", "debug"},
      {"verify-reads", "on"}, {"domain", "r 1"},  {"topology", "daisy"}, {"topology", "auto:1.5:0.25:24000"}, {"exchange", "ring"},
      {"set-sync", "on"},     {"summary", "on"},     {"verify-writes", "on"}};
  for (const auto& [name, value] : values) EXPECT_EQ(OptionText(With(name, value), name), value) << name;
  EXPECT_EQ(OptionText(Options(), "summary"), "off");
  EXPECT_EQ(OptionText(Options(), "set"), "");
  for (const OptionSpec& spec : OptionSpecs()) {
    const std::string text = OptionText(Options(), spec.name);
    if (text.empty()) continue;
    Options again;
    EXPECT_OK(SetOption(again, spec.name, text));
    EXPECT_EQ(OptionText(again, spec.name), text) << spec.name;
  }
}

struct BadValue {
  const char* name;
  const char* value;
  const char* accepted;
};

void PrintTo(const BadValue& bad, std::ostream* out) {
  *out << bad.name << " '" << bad.value << "'";
}

class BadOption : public ::testing::TestWithParam<BadValue> {};

TEST_P(BadOption, IsRefusedWithItsNameItsValueAndTheAcceptedValues) {
  const BadValue& bad = GetParam();
  Options options;
  const Status status = SetOption(options, bad.name, bad.value);
  EXPECT_CODE(status, Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--" + std::string(bad.name) + ": '" + bad.value + "' is not accepted: "));
  EXPECT_THAT(status.message(), HasSubstr(bad.accepted));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOption,
    ::testing::Values(BadValue{"parity", "x", "a number from 0 to 254"}, BadValue{"parity", "", "a number"},
                      BadValue{"parity", "-1", "a number"}, BadValue{"parity", "+1", "a number"},
                      BadValue{"parity", " 1", "a number"}, BadValue{"parity", "1.5", "a number"},
                      BadValue{"parity", "255", "254"}, BadValue{"parity", "4294967297", "254"},
                      BadValue{"parity", "99999999999999999999", "254"}, BadValue{"group", "0", "from 2 to 255"},
                      BadValue{"group", "256", "255"}, BadValue{"block-size", "0", "power of two"},
                      BadValue{"block-size", "256", "512"}, BadValue{"block-size", "3K", "power of two"},
                      BadValue{"block-size", "32M", "16M"}, BadValue{"block-size", "64KB", "power of two"},
                      BadValue{"stripe", "2G", "1G"}, BadValue{"stripe", "3M", "power-of-two multiple of block-size"},
                      BadValue{"set", "a.%r::b.%r", "separated by ':'"}, BadValue{"set", "a.%r:", "separated by ':'"},
                      BadValue{"include", ":", "globs"}, BadValue{"on-error", "ignore", "warn or fail"},
                      BadValue{"memory", "lots", "a size"}, BadValue{"memory", "1K", "at least 64K"},
                      BadValue{"memory", "18446744073709551616", "a size"}, BadValue{"memory", "16777216T", "a size"},
                      BadValue{"threads", "many", "a number"}, BadValue{"threads", "-1", "a number"},
                      BadValue{"verify-reads", "maybe", "on or off"}, BadValue{"set-sync", "ON!", "on or off"},
                      BadValue{"topology", "ring", "auto, bcast, pipelined, daisy, hierarchical or hypercube"},
                      BadValue{"topology", "auto:1:1:0", "auto:LATENCY:GAP:BANDWIDTH"},
                      BadValue{"exchange", "pairs", "auto, mpi, pairwise, ring or shared"},
                      BadValue{"timeout", "0", "at least 1"}, BadValue{"timeout", "1m", "seconds"},
                      BadValue{"log", "loud", "error, warn, info or debug"}));

TEST(SetOption, DomainsHaveAtMost255Bytes) {
  Options options;
  EXPECT_OK(SetOption(options, "domain", ""));
  EXPECT_OK(SetOption(options, "domain", std::string(255, 'r')));
  EXPECT_CODE(SetOption(options, "domain", std::string(256, 'r')), Code::kInvalidArgument);
}

TEST(SetOption, UnknownNameIsAnErrorThatListsTheOptions) {
  Options options;
  const Status status = SetOption(options, "party", "1");
  EXPECT_CODE(status, Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--party"));
  EXPECT_THAT(status.message(), HasSubstr("parity"));
}

TEST(SetOption, CallsTheOptionAsTheUserSpelledIt) {
  Options options;
  EXPECT_THAT(SetOption(options, "block-size", "7", "lzy_block_size").message(),
              HasSubstr("lzy_block_size: '7' is not accepted: auto, or a power of two from 512 to 16M"));
  EXPECT_EQ(options.block_size, Options().block_size);
  EXPECT_EQ(EnvironmentName("block-size"), "LZY_BLOCK_SIZE");
  EXPECT_EQ(HintName("block-size"), "lzy_block_size");
}

void ExpectRefused(const Options& options, const std::string& text) {
  const Status status = CheckOptions(options);
  EXPECT_CODE(status, Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(text));
}

TEST(CheckOptions, ParityIsLessThanGroup) {
  Options options;
  options.parity = 3;
  options.group = 3;
  ExpectRefused(options, "parity: '3' is not accepted with group 3");
  options.group = 4;
  EXPECT_OK(CheckOptions(options));
}

TEST(CheckOptions, GroupOfOneOnlyWithoutParity) {
  Options options;
  options.group = 1;
  ExpectRefused(options, "group: '1' is not accepted");
  options.parity = 0;
  EXPECT_OK(CheckOptions(options));
}

TEST(CheckOptions, StripeIsAMultipleOfBlockSize) {
  Options options;
  options.stripe = 32 << 10;
  ExpectRefused(options, "stripe: '32768' is not accepted with block-size 65536");
  options.stripe = 64 << 10;
  EXPECT_OK(CheckOptions(options));
}

TEST(CheckOptions, LargeBlocksNeedNoStripe) {
  Options options;
  options.block_size = 4 << 20;
  EXPECT_OK(CheckOptions(options));
  ASSERT_OK(SetOption(options, "stripe", "1M"));
  ExpectRefused(options, "stripe: '1048576' is not accepted with block-size 4194304");
  ASSERT_OK(SetOption(options, "stripe", "servers"));  // of which nobody knows the stripes yet
  EXPECT_OK(CheckOptions(options));
}

TEST(CheckOptions, SetsArePatterns) {
  ExpectRefused(With("set", "state"), "set: 'state' is not accepted");
  ExpectRefused(With("set", "state.%d"), "set: ");
  ExpectRefused(With("set", "state.%%r"), "set: ");
  EXPECT_OK(CheckOptions(With("set", "state.%r:/l/%04r/s")));
}

TEST(CheckOptions, DirectoriesAreMoreThanParity) {
  ExpectRefused(With("device-dirs", "/a"), "device-dirs: '/a' is not accepted with parity 1: at least 2 directories, one for each device");
  EXPECT_OK(CheckOptions(With("device-dirs", "/a:/b")));
}

TEST(ApplyEnvironment, SetsWhatIsThere) {
  const std::map<std::string, std::string> environment = {{"LZY_PARITY", "2"}, {"LZY_ON_ERROR", "fail"}};
  const auto lookup = [&](const char* name) -> const char* {
    auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  };
  Options options;
  options.group = 6;
  ASSERT_OK(ApplyEnvironment(options, lookup));
  EXPECT_EQ(options.parity, 2u);
  EXPECT_TRUE(options.fail_on_error);
  EXPECT_EQ(options.group, 6u);
}

TEST(ApplyEnvironment, NamesTheVariable) {
  Options options;
  const Status status =
      ApplyEnvironment(options, [](const char* name) { return std::string(name) == "LZY_GROUP" ? "many" : nullptr; });
  EXPECT_CODE(status, Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("LZY_GROUP: 'many' is not accepted: a number from 2 to 255"));
}

TEST(ApplyEnvironment, UnknownVariablesAreErrorsButLzysOwnAreNot) {
  ASSERT_EQ(setenv("LZY_DISABLE", "1", 1), 0);
  Options options;
  EXPECT_OK(ApplyEnvironment(options));
  ASSERT_EQ(setenv("LZY_PARTY", "1", 1), 0);
  const Status status = ApplyEnvironment(options);
  EXPECT_CODE(status, Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("LZY_PARTY"));
  unsetenv("LZY_PARTY");
  unsetenv("LZY_DISABLE");
}

TEST(ParseSize, TakesPowersOf1024) {
  EXPECT_EQ(ParseSize("0"), 0u);
  EXPECT_EQ(ParseSize("123"), 123u);
  EXPECT_EQ(ParseSize("64K"), 65536u);
  EXPECT_EQ(ParseSize("64k"), 65536u);
  EXPECT_EQ(ParseSize("3M"), 3u << 20);
  EXPECT_EQ(ParseSize("1G"), 1u << 30);
  EXPECT_EQ(ParseSize("16383T"), std::uint64_t{16383} << 40);
  EXPECT_EQ(ParseSize("18446744073709551615"), ~std::uint64_t{0});
  for (const char* bad : {"", "K", "1KB", "1 K", "-1", "1.5K", "1P", "0x10", "18446744073709551616", "16777216T"}) {
    EXPECT_EQ(ParseSize(bad), std::nullopt) << bad;
  }
}

TEST(FormatSize, UsesBinaryUnits) {
  EXPECT_EQ(FormatSize(0), "0 bytes");
  EXPECT_EQ(FormatSize(1), "1 byte");
  EXPECT_EQ(FormatSize(1000), "1000 bytes");
  EXPECT_EQ(FormatSize(65536), "64 KiB");
  EXPECT_EQ(FormatSize(1536), "1.5 KiB");
  EXPECT_EQ(FormatSize(std::uint64_t{5} << 40), "5 TiB");
  EXPECT_EQ(FormatSize(~std::uint64_t{0}), "16 EiB");
}

}  // namespace
}  // namespace lzy
