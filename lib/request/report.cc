#include "request/report.h"

#include <algorithm>
#include <array>

namespace lzy {
namespace {

// The numbers of docs/reference/tools.md, "Exit codes". Scripts rely on them, so none may change.
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

/// From harmless to gravest: first states of a dataset, then failures of the tool. A wrong path must not hide that data are
/// lost.
constexpr std::array kByGravity = {kIntact,       kNoSidecar,   kStale,       kDamaged,  kUsage,
                                   kBeyondRepair, kInputOutput, kWriteFailed, kNoMemory, kInternal};

/// The name at index `value`; names are in the order of the enumerators. Values may come from other processes, so the index
/// is checked.
template <class Enum, std::size_t kCount>
const char* NameOf(Enum value, const std::array<const char*, kCount>& names) {
  const auto at = static_cast<std::size_t>(value);
  return at < kCount ? names[at] : "unknown";
}

}  // namespace

Phases& Phases::operator+=(const Phases& other) {
  for (const auto phase : kPhases) this->*phase += other.*phase;
  return *this;
}

Phases& Phases::operator/=(unsigned threads) {
  for (const auto phase : kPhases) this->*phase /= std::max(1u, threads);
  return *this;
}

const char* Name(DatasetState state) {
  return NameOf(state, std::array{"intact", "damaged", "unrepairable", "stale", "at-risk", "unprotected", "restored"});
}

const char* Name(DamagePart part) {
  return NameOf(part, std::array{"data", "parity", "metadata"});
}

const char* Name(DamageCause cause) {
  return NameOf(cause, std::array{"hash", "unreadable", "missing", "stale", "at-risk", "not-visible", "encoding"});
}

const char* Name(StampNote note) {
  return NameOf(note, std::array{"none", "racy", "times-differ", "moved", "taken"});
}

// Switches without a default, so the compiler reports a new code without a case. For a script, an unprotected dataset
// equals one with an unusable sidecar, because neither can be judged. A failure of communication counts as lzy's own,
// because no option or file is the cause.
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

// A failure is graver than the state, which is only the knowledge before the failure. A damaged dataset counts as intact if
// all of the damage is repaired.
int ExitCodeOf(const DatasetReport& report) {
  if (!report.status.ok()) return ExitCodeOf(report.status);
  if (report.planned) return kIntact;
  switch (report.state) {
    case DatasetState::kIntact:
    case DatasetState::kRestored:
      return kIntact;
    case DatasetState::kDamaged: {
      const bool repaired = !report.damage.empty() && std::ranges::all_of(report.damage, &Damage::repaired);
      return repaired ? kIntact : kDamaged;
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

bool IsGrave(int exit_code) {
  return exit_code == kBeyondRepair || exit_code == kNoSidecar || exit_code == kWriteFailed;
}

int CombineExitCodes(int a, int b) {
  const auto gravity = [](int code) {
    // An unknown code counts as a bug.
    const auto at = std::find(kByGravity.begin(), kByGravity.end(), code);
    return at == kByGravity.end() ? kByGravity.size() - 1 : static_cast<std::size_t>(at - kByGravity.begin());
  };
  return kByGravity[std::max(gravity(a), gravity(b))];
}

// Refused and unprotected ones are listed alike, as both could not be judged. A refusal gets its code only in code(),
// when it is known whether anything else was judged.
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
