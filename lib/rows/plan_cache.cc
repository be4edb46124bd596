#include "rows/plan_cache.h"

#include <fmt/format.h>

#include <algorithm>

namespace lzy {

std::uint64_t CountRows(std::span<const RowRun> runs) {
  std::uint64_t rows = 0;
  for (const RowRun& run : runs) rows += run.slices;
  return rows;
}

void AppendRun(std::vector<RowRun>& runs, RowRun run) {
  if (!runs.empty()) {
    RowRun& last = runs.back();
    if (last.group == run.group && last.unit_row == run.unit_row && last.plan == run.plan &&
        last.first_slice + last.slices == run.first_slice) {
      last.slices += run.slices;
      return;
    }
  }
  runs.push_back(std::move(run));
}

Result<const Codec*> PlanCache::CodecFor(std::uint32_t group) {
  const Rotation rotation = layout_.rotation(group);
  auto at = codecs_.find({rotation.n, rotation.m});
  if (at == codecs_.end()) {
    LZY_ASSIGN_OR_RETURN(Codec codec, Codec::Create(rotation.n, rotation.m));
    at = codecs_.emplace(std::pair(rotation.n, rotation.m), std::move(codec)).first;
  }
  return &at->second;
}

// Positions, not devices, so rotation does not matter: one plan serves all rows of the group.
Result<std::shared_ptr<const RowPlan>> PlanCache::Encode(std::uint32_t group) {
  std::shared_ptr<const RowPlan>& slot = plans_[{group, {}}];
  if (!slot) {
    LZY_ASSIGN_OR_RETURN(const Codec* codec, CodecFor(group));
    auto plan = std::make_shared<RowPlan>();
    for (std::uint32_t p = 0; p < codec->n(); ++p) (p < codec->m() ? plan->targets : plan->sources).push_back(p);
    LZY_ASSIGN_OR_RETURN(plan->plan, codec->EncodePlan());
    slot = std::move(plan);
  }
  return slot;
}

// The sources are the first k good positions, so all ranks choose the same ones. The key is made of positions, not of
// devices. So rows in which the same devices are lost share a plan only if their parity is rotated alike, and rows of
// different losses share one if the positions agree.
Result<std::shared_ptr<const RowPlan>> PlanCache::Rebuild(std::uint32_t group, std::uint64_t unit_row,
                                                          std::span<const std::uint32_t> bad,
                                                          std::span<const std::uint32_t> wanted) {
  const Rotation rotation = layout_.rotation(group);
  LZY_ASSIGN_OR_RETURN(const Codec* codec, CodecFor(group));
  std::vector<bool> is_bad(rotation.n, false);
  auto plan = std::make_shared<RowPlan>();
  for (std::uint32_t device : bad) is_bad[rotation.PositionOf(layout_.index_in_group(device), unit_row)] = true;
  for (std::uint32_t device : wanted) plan->targets.push_back(rotation.PositionOf(layout_.index_in_group(device), unit_row));
  for (std::uint32_t p = 0; p < rotation.n && plan->sources.size() < codec->k(); ++p) {
    if (!is_bad[p]) plan->sources.push_back(p);
  }
  if (plan->sources.size() < codec->k()) {
    return {Code::kBeyondRepair,
            fmt::format("{} of {} blocks of a row are lost; parity covers {}", bad.size(), rotation.n, rotation.m)};
  }
  std::ranges::sort(plan->targets);
  std::vector<std::uint32_t> key = plan->sources;
  key.push_back(UINT32_MAX);
  key.insert(key.end(), plan->targets.begin(), plan->targets.end());
  std::shared_ptr<const RowPlan>& slot = plans_[{group, key}];
  if (!slot) {
    LZY_ASSIGN_OR_RETURN(plan->plan, codec->MakePlan(plan->sources, plan->targets));
    slot = std::move(plan);
  }
  return slot;
}

}  // namespace lzy
