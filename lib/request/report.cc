#include "request/report.h"

#include <algorithm>
#include <array>

namespace lzy {
namespace {

// docs/reference/tools.md "Exit codes".
constexpr int kIntact = 0;
constexpr int kDamaged = 1;
constexpr int kBeyondRepair = 2;
constexpr int kUsage = 3;
constexpr int kNoSidecar = 4;
constexpr int kWriteFailed = 5;
constexpr int kInputOutput = 6;
constexpr int kInternal = 7;
constexpr int kNoMemory = 8;
constexpr int kStale = 9;

/// From nothing wrong to the gravest: what a dataset is like, then what kept the tool from its work. A wrong path must
/// not hide that data are lost.
constexpr std::array kByGravity = {kIntact,       kNoSidecar,   kStale,       kDamaged,  kUsage,
                                   kBeyondRepair, kInputOutput, kWriteFailed, kNoMemory, kInternal};

}  // namespace

const char* Name(DatasetState state) {
  switch (state) {
    case DatasetState::kIntact:
      return "intact";
    case DatasetState::kDamaged:
      return "damaged";
    case DatasetState::kUnrepairable:
      return "unrepairable";
    case DatasetState::kStale:
      return "stale";
    case DatasetState::kAtRisk:
      return "at-risk";
    case DatasetState::kUnprotected:
      return "unprotected";
    case DatasetState::kRestored:
      return "restored";
  }
  return "unknown";
}

const char* Name(DamagePart part) {
  switch (part) {
    case DamagePart::kData:
      return "data";
    case DamagePart::kParity:
      return "parity";
    case DamagePart::kMetadata:
      return "metadata";
  }
  return "unknown";
}

const char* Name(DamageCause cause) {
  switch (cause) {
    case DamageCause::kHash:
      return "hash";
    case DamageCause::kUnreadable:
      return "unreadable";
    case DamageCause::kMissing:
      return "missing";
    case DamageCause::kStale:
      return "stale";
    case DamageCause::kAtRisk:
      return "at-risk";
  }
  return "unknown";
}

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return kIntact;
    case Code::kInvalidArgument:
      return kUsage;
    case Code::kUnprotected:
    case Code::kCorrupt:
    case Code::kNewerFormat:
      return kNoSidecar;
    case Code::kBeyondRepair:
      return kBeyondRepair;
    case Code::kWriteFailed:
      return kWriteFailed;
    case Code::kNotFound:
    case Code::kIo:
    case Code::kInterrupted:
    case Code::kUnreadable:
    case Code::kBusy:
      return kInputOutput;
    case Code::kNoMemory:
      return kNoMemory;
    case Code::kTimeout:
    case Code::kMpi:
    case Code::kInternal:
      return kInternal;
  }
  return kInternal;
}

int ExitCodeOf(const DatasetReport& report) {
  if (!report.status.ok()) return ExitCodeOf(report.status);
  if (report.planned) return kIntact;
  switch (report.state) {
    case DatasetState::kIntact:
    case DatasetState::kRestored:
      return kIntact;
    case DatasetState::kDamaged: {
      const bool mended = !report.damage.empty() && std::all_of(report.damage.begin(), report.damage.end(),
                                                                [](const Damage& damage) { return damage.repaired; });
      return mended ? kIntact : kDamaged;
    }
    case DatasetState::kUnrepairable:
      return kBeyondRepair;
    case DatasetState::kStale:
    case DatasetState::kAtRisk:
      return kStale;
    case DatasetState::kUnprotected:
      return kNoSidecar;
  }
  return kInternal;
}

int CombineExitCodes(int a, int b) {
  const auto gravity = [](int code) {
    // A code that is none of ours is as bad as a bug.
    const auto at = std::find(kByGravity.begin(), kByGravity.end(), code);
    return at == kByGravity.end() ? kByGravity.size() - 1 : static_cast<std::size_t>(at - kByGravity.begin());
  };
  return kByGravity[std::max(gravity(a), gravity(b))];
}

void CodeOfMany::AddDataset(const std::string& path, int code) {
  const bool refused = code == kUsage;
  if (refused || code == kNoSidecar) {
    unjudged_.push_back(path);
  } else {
    any_judged_ = true;
  }
  any_refused_ = any_refused_ || refused;
  if (!refused) Add(code);
}

int CodeOfMany::code() const {
  if (!any_refused_) return code_;
  return CombineExitCodes(code_, any_judged_ ? kNoSidecar : kUsage);
}

}  // namespace lzy
