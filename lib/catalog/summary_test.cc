#include "catalog/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lzy {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;

CatalogDataset Dataset(const std::string& path, const std::string& state, std::int64_t verified) {
  CatalogDataset out;
  out.path = path;
  out.state = state;
  out.bytes = 1000;
  out.sidecar_bytes = 100;
  out.first_seen = 50 * kSecond;
  out.last_verified = verified;
  return out;
}

TEST(CatalogSummary, CountsWhatIsNotGone) {
  const CatalogSummaryInput input{.datasets = {Dataset("/a", "intact", 80 * kSecond), Dataset("/b", "damaged", 70 * kSecond),
                                        Dataset("/c", "gone", 1 * kSecond), Dataset("/d", "intact", 0)},
                           .places = {{"n7", 3, 4, 1}, {"n2", 1, 1, 0}},
                           .last_scrub = {},
                           .now = 100 * kSecond};
  const CatalogSummary summary = SummarizeCatalog(input);
  EXPECT_EQ(summary.datasets, 3u);
  EXPECT_EQ(summary.bytes, 3000u);
  EXPECT_EQ(summary.sidecar_bytes, 300u);
  EXPECT_EQ(summary.states.at("intact"), 2u);
  EXPECT_EQ(summary.states.at("unrepairable"), 0u);
  EXPECT_EQ(summary.never_verified, 1u);
  ASSERT_NE(summary.oldest, nullptr);
  EXPECT_EQ(summary.oldest->path, "/d");
  EXPECT_EQ(summary.oldest_ns, 50 * kSecond);
  ASSERT_EQ(summary.not_intact.size(), 1u);
  EXPECT_EQ(summary.not_intact[0]->path, "/b");
  EXPECT_EQ(summary.damage_found, 5u);
  EXPECT_EQ(summary.damage_open, 1u);
}

TEST(CatalogSummary, NamesAPlaceOnlyIfItStandsOut) {
  const auto suspect = [](std::vector<CatalogPlace> places) { return SuspectText(SummarizeCatalog({.datasets = {}, .places = places, .last_scrub = {}})); };
  EXPECT_EQ(suspect({{"n7", 3, 3, 0}, {"n2", 1, 9, 0}}), "3 of 4 new damages are at n7: look there for failing hardware");
  EXPECT_THAT(suspect({{"n7", 3, 3, 0}, {"n2", 3, 9, 0}}), IsEmpty());
  EXPECT_THAT(suspect({{"n7", 2, 2, 0}}), IsEmpty());
  EXPECT_THAT(suspect({}), IsEmpty());
}

TEST(CatalogSummary, AnEmptyCatalogueHasZeros) {
  const std::string text = PrometheusText(SummarizeCatalog({}));
  EXPECT_THAT(text, HasSubstr("lzy_datasets{state=\"damaged\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("lzy_oldest_verification_seconds 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("lzy_last_scrub")));
}

TEST(CatalogSummary, LabelsAreEscaped) {
  const std::string text = PrometheusText(SummarizeCatalog({.datasets = {}, .places = {{"a\"b\\c\nd", 1, 1, 1}}, .last_scrub = {}}));
  EXPECT_THAT(text, HasSubstr("{place=\"a\\\"b\\\\"));
  const std::string odd = PrometheusText(SummarizeCatalog({.datasets = {}, .places = {{"\xff\xc3\xa9\xed\xa0\x80", 1, 1, 1}}, .last_scrub = {}}));
  EXPECT_THAT(odd, HasSubstr("{place=\"\\\\xff\xc3\xa9\\\\xed\\\\xa0\\\\x80\"}"));
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at) {
    EXPECT_TRUE(at + 1 == text.size() || text[at + 1] == '#' || text.compare(at + 1, 4, "lzy_") == 0) << text.substr(at);
  }
}

TEST(CatalogSummary, TheGravestAreFirst) {
  CatalogSummaryInput input{.datasets = {}, .places = {}, .last_scrub = {}, .now = 100 * kSecond};
  const auto add = [&](const char* path, const char* state, int exit_code) {
    input.datasets.push_back(Dataset(path, state, 80 * kSecond));
    input.datasets.back().exit_code = exit_code;
  };
  add("/a", "unprotected", 4);
  add("/b", "stale", 9);
  add("/c", "vanished", 4);
  add("/d", "damaged", 1);
  add("/e", "unrepairable", 2);
  add("/f", "intact", 0);
  add("/g", "damaged", 1);
  add("/h", "unreadable", 6);
  const CatalogSummary summary = SummarizeCatalog(input);
  std::vector<std::string> paths;
  for (const CatalogDataset* dataset : summary.not_intact) paths.push_back(dataset->path);
  EXPECT_EQ(paths, (std::vector<std::string>{"/e", "/d", "/g", "/c", "/h", "/b", "/a"}));
  // A dataset that vanished has no bytes, and cannot be verified.
  EXPECT_EQ(summary.datasets, 7u);
  EXPECT_EQ(summary.bytes, 7000u);
  EXPECT_EQ(summary.states.at("vanished"), 1u);
}

TEST(CatalogSummary, AVerificationInTheFutureCountsAsNone) {
  const CatalogSummaryInput input{.datasets = {Dataset("/a", "intact", 80 * kSecond), Dataset("/b", "intact", 500 * kSecond)},
                                  .places = {},
                                  .last_scrub = {},
                                  .now = 100 * kSecond};
  const CatalogSummary summary = SummarizeCatalog(input);
  EXPECT_EQ(summary.never_verified, 1u);
  EXPECT_EQ(summary.verified_in_future, 1u);
  EXPECT_EQ(summary.oldest->path, "/b");
  EXPECT_EQ(summary.oldest_ns, 50 * kSecond);
}

}  // namespace
}  // namespace lzy
