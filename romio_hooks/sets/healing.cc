#include "hooks/sets/healing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/printable.h"
#include "comm/records.h"
#include "engine/engine.h"
#include "hooks/files/settings.h"
#include "hooks/reports/messages.h"
#include "names/resolve.h"

namespace lzy::hooks {
namespace {

/// The damaged members by name, the first four of many.
std::string Names(const DatasetReport& report) {
  std::set<std::string> names;
  for (const Damage& damage : report.damage) names.insert(Printable(BaseNameOf(damage.path)));
  return FirstOf(names, 4);
}

/// The reason why a damaged set is left as it is; empty if it is to be healed. In an epoch, another program may be writing
/// it. If a member is of another commit, only a person can decide which one is wanted.
std::string ReasonToLeave(const DatasetReport& seen) {
  if (seen.in_epoch) return "it is being written, or a program ended while it wrote it";
  const auto other = std::find_if(seen.damage.begin(), seen.damage.end(),
                                  [](const Damage& damage) { return damage.cause != DamageCause::kMissing && damage.cause != DamageCause::kNotVisible; });
  if (other == seen.damage.end()) return {};
  return fmt::format("{} is not that of the last commit", Printable(BaseNameOf(other->path)));
}

/// Heals one set if it is damaged and may be healed. Collective over `world`; Info gives all ranks the same report.
void Heal(Communicator& world, const Options& options, const DatasetRef& set) {
  const Context context{.fs = PosixFileSystem(), .comm = world, .options = options};
  const DatasetReport seen = Info(context, set);
  const bool broken = seen.state == DatasetState::kDamaged || seen.state == DatasetState::kUnrepairable || !seen.not_visible.empty();
  if (!seen.status.ok() || !broken) return;
  // All ranks get here or none. If one of them runs out of memory, no rank restores.
  std::string why;
  if (!AgreeOn(world, [&] { why = ReasonToLeave(seen); }).ok()) return;
  DatasetReport healed;
  const auto start = std::chrono::steady_clock::now();
  if (why.empty()) {
    RestoreRequest request;
    // A member belongs on the node whose rank will open it, which may be a new node.
    request.placing = Placing::kHome;
    request.lost.all = true;  // the missing nodes do not take part in the job
    healed = Restore(context, set, request);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (world.rank() != 0) return;
  (void)NoThrow([&] {
    if (why.empty() && healed.status.ok() && healed.state == DatasetState::kRestored) {
      return Say(options, Options::Log::kWarn,
                 fmt::format("{}: rebuilt before the program opens it, in {:.1f} s: {}", set.path, seconds, Names(seen)));
    }
    if (why.empty()) why = healed.status.ok() ? fmt::format("it is {}", Name(healed.state)) : healed.status.message();
    Say(options, Options::Log::kWarn,
        fmt::format("{}: not healed: {}; the program finds it as it is. To see what is wrong: lzy-verify {}", set.path, why,
                    ShellQuote(set.path)));
  });
}

}  // namespace

void HealSets(Communicator& world, std::vector<std::string> patterns) {
  const Options& options = EnvironmentSettings().options;
  const Status known = Agree(world, BroadcastRecord(world, patterns));
  if (!known.ok()) return Say(options, Options::Log::kWarn, "nothing healed: " + known.message());
  for (const std::string& pattern : patterns) {
    // Not reported here: at the first run of a program there is no set yet, and the tools report real errors.
    std::vector<Status> troubles;
    const auto sets = ResolvePath(PosixFileSystem(), world, pattern, Resolve::kProtected, &troubles);
    if (!sets.ok()) continue;
    for (const DatasetRef& set : *sets) {
      if (set.kind == DatasetKind::kSet) Heal(world, options, set);
    }
  }
}

}  // namespace lzy::hooks
