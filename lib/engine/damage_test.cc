// Random damage to random datasets. Checks what Verify must name, what Repair and Restore must restore, and what they must
// not change. The oracle is tests/support/damage_model.h.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "damage_model.h"
#include "engine/engine.h"
#include "engine_fixture.h"
#include "random_damage.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

class Campaign {
 public:
  Campaign(Rng& rng, std::string directory, Sample sample)
      : rng_(rng), comm_(SelfCommunicator()), options_(sample.options), context_{PosixFileSystem(), *comm_, options_} {
    const DatasetReport made = Protect(context_, RefOf(*comm_, sample.path, Resolve::kProtectable), {});
    EXPECT_OK(made.status);
    EXPECT_EQ(made.state, DatasetState::kIntact);
    if (!::testing::Test::HasFailure()) model_.emplace(std::move(directory), std::move(sample));
    if (model_) {
      damage_.emplace(rng_, *model_);
      EXPECT_EQ(made.root, model_->root());
    }
  }

  /// Damages the dataset in one of the ways, and checks all tools.
  void Round(int kind) {
    SCOPED_TRACE(fmt::format("damage of kind {} to {}", kind, model_->sample().Describe()));
    damage_->Clear();
    damage_->Apply(kind);
    SCOPED_TRACE(damage_->log());
    const auto has_sidecar = [](const ModelGroup& group) {
      return std::any_of(group.files.begin(), group.files.end(),
                         [](const ModelFile& file) { return Exists(file.sidecar); });
    };
    if (std::none_of(model_->groups().begin(), model_->groups().end(), has_sidecar)) {
      PutBack(model_->directory(), model_->image());  // no dataset is left
      return;
    }
    const Judgement truth = model_->Judge();
    const Image before = ImageOf(model_->directory());
    const bool beyond = truth.worst_row > model_->parity();
    VerifyRequest verify;
    verify.from_disk = OneIn(rng_, 4);
    const DatasetReport found = Verify(context_, Ref(), verify);
    ASSERT_OK(found.status);
    ExpectNamed(found, truth, *model_);
    EXPECT_EQ(std::string(Name(found.state)), Name(beyond           ? DatasetState::kUnrepairable
                                                   : truth.unjudged && !truth.data_damaged() ? DatasetState::kUnprotected
                                                   : truth.anything ? DatasetState::kDamaged
                                                                    : DatasetState::kIntact));
    EXPECT_EQ(found.root, model_->root());
    EXPECT_EQ(Differences(before, ImageOf(model_->directory())), "") << "verifying changes nothing";
    if (::testing::Test::HasFailure()) return;
    if (beyond) {
      ExpectRefusal(before);
    } else if (truth.unjudged) {
      ExpectAsMuchAsIsKnown();
    } else {
      ExpectRepaired(truth);
    }
  }

  /// Makes a legitimate edit. Only force may set it back.
  void Stale() {
    SCOPED_TRACE("edit of " + model_->sample().Describe());
    damage_->Clear();
    const ModelFile& file = damage_->AnyFile();
    const std::uint64_t size = file.data.bytes.size();
    const std::uint64_t edits = 1 + Below(rng_, 3);
    for (std::uint64_t i = 0; i < edits; ++i) {
      const std::uint64_t at = Below(rng_, size + 2000);
      WriteAt(file.path, at, RandomBytes(rng_, 1 + Below(rng_, 3000)));
    }
    if (OneIn(rng_, 4)) Truncate(file.path, Below(rng_, size));
    SetMtime(file.path, file.data.mtime_ns +
                            (OneIn(rng_, 2) ? 1 : -1) * static_cast<std::int64_t>(1 + Below(rng_, 1'000'000'000)));
    const Judgement truth = model_->Judge();
    const Image before = ImageOf(model_->directory());
    const DatasetReport found = Verify(context_, Ref(), {});
    ASSERT_OK(found.status);
    ExpectNamed(found, truth, *model_, DamageCause::kStale);
    const DatasetState expected = truth.anything ? DatasetState::kStale : DatasetState::kIntact;
    EXPECT_EQ(std::string(Name(found.state)), Name(expected));
    for (const bool restore : {false, true}) {
      const DatasetReport left = Try(restore, /*force=*/false);
      ASSERT_OK(left.status);
      EXPECT_EQ(std::string(Name(left.state)), Name(expected));
      // An edit that changed no bytes is intact. Then sidecars may get better stamps.
      if (expected == DatasetState::kIntact) continue;
      EXPECT_EQ(Differences(before, ImageOf(model_->directory())), "") << "an edit is not to be touched";
    }
    const DatasetReport forced = Try(OneIn(rng_, 2), /*force=*/true);
    if (truth.worst_row > model_->parity()) {
      EXPECT_EQ(forced.status.code(), Code::kBeyondRepair);
      EXPECT_EQ(std::string(Name(forced.state)), Name(expected)) << "nothing is lost";
      EXPECT_EQ(Differences(before, ImageOf(model_->directory())), "");
    } else if (truth.anything) {
      ASSERT_OK(forced.status);
      EXPECT_EQ(ExitCodeOf(forced), 0);
      ExpectAsCommitted();
    }
    PutBack(model_->directory(), model_->image());
    ExpectIntact();
  }

  /// Edits one member of a set and damages another. The damage is repaired if parity suffices; the edit stays.
  void StaleAndDamaged() {
    ModelGroup& group = model_->groups()[Below(rng_, model_->groups().size())];
    if (model_->sample().kind != DatasetKind::kSet || group.files.size() < 2) return;
    SCOPED_TRACE("edit and damage of " + model_->sample().Describe());
    damage_->Clear();
    const std::uint32_t a = static_cast<std::uint32_t>(Below(rng_, group.files.size()));
    const std::uint32_t b =
        static_cast<std::uint32_t>((a + 1 + Below(rng_, group.files.size() - 1)) % group.files.size());
    if (group.layout.file_size(a) == 0 || group.layout.file_size(b) == 0) return;
    WriteAt(group.files[a].path, Below(rng_, group.layout.file_size(a)), RandomBytes(rng_, 1));
    SetMtime(group.files[a].path, group.files[a].data.mtime_ns + 1);
    const FileImage edited = ImageOf(model_->directory()).at(group.files[a].path);
    damage_->RotBlock(group.files[b].path, Below(rng_, group.layout.data_blocks(b)) * group.layout.block_size(), 100);
    const Judgement truth = model_->Judge();
    const Image before = ImageOf(model_->directory());
    const DatasetReport repaired = Try(OneIn(rng_, 2), /*force=*/false);
    ASSERT_OK(repaired.status);
    const Image after = ImageOf(model_->directory());
    if (truth.worst_row > model_->parity()) {
      EXPECT_EQ(ExitCodeOf(repaired), 2);
      EXPECT_EQ(Differences(before, after), "");
    } else {
      EXPECT_EQ(std::string(Name(repaired.state)), edited == group.files[a].data               ? "restored"
                                                   : edited.bytes == group.files[a].data.bytes ? "restored"
                                                                                               : "stale");
      EXPECT_EQ(after.at(group.files[a].path), edited) << "the edit was touched";
      EXPECT_EQ(after.at(group.files[b].path), group.files[b].data) << "the damage was not repaired";
    }
    PutBack(model_->directory(), model_->image());
    ExpectIntact();
  }

 private:
  DatasetRef Ref() { return RefOf(*comm_, model_->sample().path); }

  DatasetReport Try(bool restore, bool force) {
    if (restore) {
      RestoreRequest request;
      request.force = force;
      return Restore(context_, Ref(), request);
    }
    VerifyRequest request;
    request.repair = true;
    request.force = force;
    return Verify(context_, Ref(), request);
  }

  void ExpectRefusal(const Image& before) {
    for (const bool restore : {false, true}) {
      const DatasetReport refused = Try(restore, false);
      ASSERT_OK(refused.status);
      EXPECT_EQ(ExitCodeOf(refused), 2);
      EXPECT_EQ(Differences(before, ImageOf(model_->directory())), "") << "beyond repair: nothing may be written";
    }
    PutBack(model_->directory(), model_->image());
    ExpectIntact();
  }

  /// If the sidecars of a whole group are lost, everything that other sidecars record is repaired, and the rest is not
  /// changed.
  void ExpectAsMuchAsIsKnown() {
    const Image damaged = ImageOf(model_->directory());
    for (const bool restore : {false, true}) {
      const DatasetReport report = Try(restore, false);
      ASSERT_OK(report.status);
      EXPECT_NE(ExitCodeOf(report), 0);
      EXPECT_NE(ExitCodeOf(report), 2);
      for (const auto& [path, now] : ImageOf(model_->directory())) {
        const auto was = damaged.find(path);
        const bool touched = was == damaged.end() || was->second.bytes != now.bytes;
        const bool right = model_->image().contains(path) && model_->image().at(path).bytes == now.bytes;
        EXPECT_TRUE(!touched || right || path.find(".LZY.") != std::string::npos) << path;
      }
    }
    PutBack(model_->directory(), model_->image());
    ExpectIntact();
  }

  void ExpectRepaired(const Judgement& truth) {
    if (truth.missing && OneIn(rng_, 3)) {
      // Verify repairs in place and makes no files.
      std::set<std::string> names;
      for (const auto& [path, one] : ImageOf(model_->directory())) names.insert(path);
      const DatasetReport partly = Try(/*restore=*/false, false);
      ASSERT_OK(partly.status);
      EXPECT_EQ(ExitCodeOf(partly), 1);
      std::set<std::string> after;
      for (const auto& [path, one] : ImageOf(model_->directory())) {
        if (!path.ends_with(".replaced")) after.insert(path);
      }
      EXPECT_EQ(names, after);
    }
    const bool restore = truth.missing || OneIn(rng_, 2);
    const DatasetReport repaired = Try(restore, false);
    ASSERT_OK(repaired.status);
    EXPECT_EQ(ExitCodeOf(repaired), 0);
    EXPECT_EQ(std::string(Name(repaired.state)), truth.anything ? "restored" : "intact");
    for (const Damage& d : repaired.damage) EXPECT_TRUE(d.repaired) << d.path << " " << Name(d.part) << " " << d.offset;
    ExpectAsCommitted();
    ExpectIntact();
    if (!::testing::Test::HasFailure()) model_->Load();
  }

  /// Every byte, time and mode of the data, and every byte of parity, are restored. No other file exists.
  void ExpectAsCommitted() {
    const Image now = ImageOf(model_->directory());
    for (const auto& [path, was] : model_->image()) EXPECT_EQ(now.count(path), 1u) << path << " is missing";
    for (const auto& [path, is] : now) {
      // A file of a member without a sidecar is kept if more pages of it differ than rot hits.
      if (path.ends_with(".replaced")) {
        EXPECT_OK(context_.fs.Remove(path));
        continue;
      }
      EXPECT_EQ(model_->image().count(path), 1u) << path << " was left behind";
    }
    if (::testing::Test::HasFailure()) return;
    for (const ModelGroup& group : model_->groups()) {
      for (const ModelFile& file : group.files) {
        EXPECT_EQ(Differences({{file.path, file.data}}, {{file.path, now.at(file.path)}}), "");
        EXPECT_EQ(now.at(file.sidecar).mode, model_->image().at(file.sidecar).mode) << file.sidecar;
      }
    }
    const Judgement truth = model_->Judge();
    for (const auto& [key, ranges] : truth.blocks) EXPECT_EQ(Text(Merged(ranges)), " nothing") << key.first;
  }

  void ExpectIntact() {
    const DatasetReport again = Verify(context_, Ref(), {});
    ASSERT_OK(again.status);
    EXPECT_EQ(std::string(Name(again.state)), "intact");
    EXPECT_TRUE(again.damage.empty());
    EXPECT_EQ(again.root, model_->root());
    for (const std::string& warning : again.warnings) ADD_FAILURE() << "warning: " << warning;
  }

  Rng& rng_;
  std::unique_ptr<Communicator> comm_;
  const Options options_;
  const Context context_;
  std::optional<DamageModel> model_;
  std::optional<RandomDamage> damage_;
};

/// 1,100 damages in all, in parts that may run in parallel.
class DamageCampaign : public ::testing::TestWithParam<int> {};

TEST_P(DamageCampaign, EveryDamageIsNamedAndRepaired) {
  const std::uint64_t seed = SeedOf(20250101) + static_cast<std::uint64_t>(GetParam()) * 1000003;
  const std::uint64_t datasets = RoundsOf(25);
  std::uint64_t damages = 0;
  for (std::uint64_t i = 0; i < datasets && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("part {}, dataset {}", GetParam(), i));
    Rng rng(seed + i);
    Scratch scratch;
    Campaign campaign(rng, scratch.path(), MakeSample(rng, scratch.path()));
    for (int round = 0; round < 11 && !HasFailure(); ++round, ++damages) {
      SCOPED_TRACE(fmt::format("round {}", round));
      campaign.Round(round);
    }
    if (!HasFailure()) campaign.Stale();
    if (!HasFailure()) campaign.StaleAndDamaged();
    damages += 2;
  }
  RecordProperty("damages", std::to_string(damages));
}

INSTANTIATE_TEST_SUITE_P(Parts, DamageCampaign, ::testing::Range(0, 4));

}  // namespace
}  // namespace lzy::testing
