#include "request/report.h"

#include <gtest/gtest.h>

namespace lzy {
namespace {

DatasetReport In(DatasetState state) {
  DatasetReport report;
  report.state = state;
  return report;
}

TEST(ExitCode, FollowsTheState) {
  EXPECT_EQ(ExitCodeOf(In(DatasetState::kIntact)), 0);
  EXPECT_EQ(ExitCodeOf(In(DatasetState::kRestored)), 0);
  EXPECT_EQ(ExitCodeOf(In(DatasetState::kDamaged)), 1);
  EXPECT_EQ(ExitCodeOf(In(DatasetState::kUnrepairable)), 2);
  EXPECT_EQ(ExitCodeOf(In(DatasetState::kUnprotected)), 4);
  EXPECT_EQ(ExitCodeOf(In(DatasetState::kStale)), 9);
  EXPECT_EQ(ExitCodeOf(In(DatasetState::kAtRisk)), 9);
}

TEST(ExitCode, DamagedIsZeroOnlyWhenEveryEntryIsRepaired) {
  DatasetReport report = In(DatasetState::kDamaged);
  report.damage.resize(2);
  report.damage[0].repaired = true;
  EXPECT_EQ(ExitCodeOf(report), 1);
  report.damage[1].repaired = true;
  EXPECT_EQ(ExitCodeOf(report), 0);
}

TEST(ExitCode, FailureOfTheOperationComesBeforeTheState) {
  DatasetReport report = In(DatasetState::kIntact);
  report.status = Status(Code::kIo, "f: read: Permission denied");
  EXPECT_EQ(ExitCodeOf(report), 6);
}

TEST(ExitCode, FollowsTheStatus) {
  const auto of = [](Code code) { return ExitCodeOf(Status(code, "x")); };
  EXPECT_EQ(ExitCodeOf(Status::Ok()), 0);
  EXPECT_EQ(of(Code::kInvalidArgument), 3);
  EXPECT_EQ(of(Code::kUnprotected), 4);
  EXPECT_EQ(of(Code::kCorrupt), 4);
  EXPECT_EQ(of(Code::kNewerFormat), 4);
  EXPECT_EQ(of(Code::kBeyondRepair), 2);
  EXPECT_EQ(of(Code::kWriteFailed), 5);
  EXPECT_EQ(of(Code::kIo), 6);
  EXPECT_EQ(of(Code::kNotFound), 6);
  EXPECT_EQ(of(Code::kBusy), 6);
  EXPECT_EQ(of(Code::kUnreadable), 6);
  EXPECT_EQ(of(Code::kMpi), 7);
  EXPECT_EQ(of(Code::kTimeout), 7);
  EXPECT_EQ(of(Code::kInternal), 7);
  EXPECT_EQ(of(Code::kNoMemory), 8);
}

TEST(CombineExitCodes, AFailureWinsThenTheGravestState) {
  const int states[] = {0, 4, 9, 1, 2};  // by gravity
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 5; ++j) EXPECT_EQ(CombineExitCodes(states[i], states[j]), states[i > j ? i : j]);
  }
  EXPECT_EQ(CombineExitCodes(3, 1), 3);
  EXPECT_EQ(CombineExitCodes(2, 3), 2);
  for (int failure : {5, 6, 7, 8}) {
    for (int state : {0, 4, 9, 1, 3, 2}) {
      EXPECT_EQ(CombineExitCodes(failure, state), failure);
      EXPECT_EQ(CombineExitCodes(state, failure), failure);
    }
    for (int other : {5, 6, 7, 8}) EXPECT_EQ(CombineExitCodes(failure, other), CombineExitCodes(other, failure));
  }
}

TEST(CodeOfMany, ARefusedDatasetCountsAsUnprotectedBesideOthers) {
  CodeOfMany alone;
  alone.AddDataset("sealed", 3);
  EXPECT_EQ(alone.code(), 3);
  alone.AddDataset("free", 4);  // not judged either
  EXPECT_EQ(alone.code(), 3);

  for (const int verdict : {0, 9, 1, 2}) {
    CodeOfMany codes;
    codes.AddDataset("sealed", 3);
    codes.AddDataset("other", verdict);
    EXPECT_EQ(codes.code(), verdict == 0 ? 4 : verdict);
    EXPECT_EQ(codes.unjudged(), std::vector<std::string>{"sealed"});
  }
}

TEST(CodeOfMany, AWrongPathKeepsItsCodeBesideDamage) {
  CodeOfMany codes;
  codes.AddDataset("damaged", 1);
  codes.Add(3);
  EXPECT_EQ(codes.code(), 3);
  codes.AddDataset("lost", 2);
  EXPECT_EQ(codes.code(), 2);
}

TEST(Names, StatesPartsAndCausesHaveTheDocumentedNames) {
  EXPECT_STREQ(Name(DatasetState::kAtRisk), "at-risk");
  EXPECT_STREQ(Name(DatasetState::kUnrepairable), "unrepairable");
  EXPECT_STREQ(Name(DatasetState::kRestored), "restored");
  EXPECT_STREQ(Name(DamagePart::kMetadata), "metadata");
  EXPECT_STREQ(Name(DamageCause::kUnreadable), "unreadable");
  EXPECT_STREQ(Name(DamageCause::kAtRisk), "at-risk");
  EXPECT_STREQ(Name(DamageCause::kEncoding), "encoding");
  EXPECT_STREQ(Name(DamageCause::kNotVisible), "not-visible");
}

}  // namespace
}  // namespace lzy
