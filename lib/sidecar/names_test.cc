#include "sidecar/names.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "status_matchers.h"

namespace lzy {
namespace {

TEST(Names, SidecarLiesBesideItsFile) {
  EXPECT_EQ(*SidecarPath("a"), ".LZY.a");
  EXPECT_EQ(*SidecarPath("/x/y/a.h5"), "/x/y/.LZY.a.h5");
  EXPECT_EQ(NewSidecarPath("/x/a"), "/x/.LZY-new.a");
  EXPECT_EQ(NewDataPath("/x/a"), "/x/.LZY-data.a");
  for (const char* none : {"", "/", ".", "..", "x/..", "x/."})
    EXPECT_CODE(SidecarPath(none), Code::kInvalidArgument) << none;
}

TEST(Names, NamesThatLeaveNoRoomAreRefused) {
  EXPECT_OK(SidecarPath("/d/" + std::string(234, 'n')));
  const auto refused = SidecarPath("/d/" + std::string(235, 'n'));
  EXPECT_CODE(refused, Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("235"), std::string::npos);
  EXPECT_NE(refused.status().message().find("234"), std::string::npos);
  // The longest name that any temporary of it gets.
  EXPECT_LE(BaseNameOf(NewDataPath(std::string(234, 'n'))).size(), 255u);
  EXPECT_LE(BaseNameOf(TemporarySidecarPath(*SidecarPath(std::string(234, 'n')))).size(), 255u);
}

TEST(Names, DataPathOfUndoesSidecarPath) {
  EXPECT_EQ(DataPathOf("/x/.LZY.a"), "/x/a");
  EXPECT_EQ(DataPathOf(".LZY..LZY.a"), ".LZY.a");
  EXPECT_EQ(DataPathOf("/x/a"), std::nullopt);
  EXPECT_EQ(DataPathOf("/x/.LZY."), std::nullopt);
  EXPECT_EQ(DataPathOf("/x/.LZY-new.a"), std::nullopt);
}

TEST(Names, EveryNameOfLzysOwnIsKnown) {
  EXPECT_TRUE(IsLzyName(BaseNameOf(*SidecarPath("a"))));
  EXPECT_TRUE(IsLzyName(BaseNameOf(NewSidecarPath("a"))));
  EXPECT_TRUE(IsLzyName(BaseNameOf(NewDataPath("a"))));
  EXPECT_TRUE(IsLzyName(BaseNameOf(NewCopyPath("a"))));
  EXPECT_TRUE(IsLzyName(BaseNameOf(CopyJournalPath("a"))));
  EXPECT_TRUE(IsLzyName(BaseNameOf(TemporarySidecarPath(*SidecarPath("a")))));
  EXPECT_FALSE(IsLzyName(".LZYa"));
  EXPECT_FALSE(IsLzyName("a.LZY.b"));
}

TEST(Patterns, Expand) {
  EXPECT_EQ(ExpandPattern("s.%r", 7), "s.7");
  EXPECT_EQ(ExpandPattern("s.%04r", 7), "s.0007");
  EXPECT_EQ(ExpandPattern("s.%02r", 123), "s.123");
  EXPECT_EQ(ExpandPattern("%r/s.%03r", 5), "5/s.005");
  EXPECT_EQ(ExpandPattern("100%%.%r", 0), "100%.0");
  EXPECT_EQ(ExpandPattern("s.%r", 4294967295u), "s.4294967295");
  EXPECT_EQ(ExpandPattern("plain", 3), "plain");
}

TEST(Patterns, Check) {
  for (const char* good : {"", "a", "%r", "%0r", "%04r", "a%%b", "%%r", "%r%r"})
    EXPECT_TRUE(CheckPattern(good).ok()) << good;
  for (const char* bad : {"%", "a%", "%d", "%4r", "%-4r", "%04", "%04d", "% r", "%099999999999r"}) {
    EXPECT_CODE(CheckPattern(bad), Code::kInvalidArgument) << bad;
  }
}

TEST(Patterns, HasRankPlaceholder) {
  EXPECT_TRUE(HasRankPlaceholder("a.%r"));
  EXPECT_TRUE(HasRankPlaceholder("a.%012r.b"));
  EXPECT_TRUE(HasRankPlaceholder("%%%r"));
  EXPECT_FALSE(HasRankPlaceholder("%%r"));
  EXPECT_FALSE(HasRankPlaceholder("a"));
  EXPECT_FALSE(HasRankPlaceholder("%"));
}

TEST(Patterns, MatchIsExactlyTheInverseOfExpand) {
  EXPECT_EQ(MatchPattern("s.%r", "s.12"), 12u);
  EXPECT_EQ(MatchPattern("s.%r", "s.012"), std::nullopt) << "no padding was asked for";
  EXPECT_EQ(MatchPattern("s.%04r", "s.0012"), 12u);
  EXPECT_EQ(MatchPattern("s.%04r", "s.12"), std::nullopt);
  EXPECT_EQ(MatchPattern("s.%04r", "s.12345"), 12345u);
  EXPECT_EQ(MatchPattern("%r/s.%r", "3/s.3"), 3u);
  EXPECT_EQ(MatchPattern("%r/s.%r", "3/s.4"), std::nullopt);
  EXPECT_EQ(MatchPattern("s.%r", "s."), std::nullopt);
  EXPECT_EQ(MatchPattern("s.%r", "s.4294967296"), std::nullopt);
  EXPECT_EQ(MatchPattern("s.%r", "s.99999999999999999999999"), std::nullopt);
  EXPECT_EQ(MatchPattern("s.%r0", "s.120"), 12u) << "digits may go on behind the rank";
  EXPECT_EQ(MatchPattern("a%%.%r", "a%.1"), 1u);
  EXPECT_EQ(MatchPattern("s.%r", "s.4294967295"), 4294967295u);
  EXPECT_EQ(MatchPattern("s.%r", "s.4294967296"), std::nullopt);
  EXPECT_EQ(MatchPattern("s.%045r", ExpandPattern("s.%045r", 17)), 17u);
  for (const char* pattern : {"s.%r", "%03r/x", "a%r1", "%r.%r", "x%%%02r%%"}) {
    for (std::uint32_t rank : {0u, 1u, 9u, 10u, 11u, 99u, 100u, 1000u, 4294967295u}) {
      EXPECT_EQ(MatchPattern(pattern, ExpandPattern(pattern, rank)), rank) << pattern;
    }
  }
}

TEST(Patterns, TailBeginsWithTheFirstComponentThatHasARank) {
  EXPECT_EQ(PatternTail("/a/b/state.%r"), "state.%r");
  EXPECT_EQ(PatternTail("/a/%04r/state"), "%04r/state");
  EXPECT_EQ(PatternTail("/a/b.%r/c/d.%r"), "b.%r/c/d.%r");
  EXPECT_EQ(PatternTail("/a%%r/state.%r"), "state.%r");
  EXPECT_EQ(PatternTail("state.%r"), "state.%r");
}

}  // namespace
}  // namespace lzy
