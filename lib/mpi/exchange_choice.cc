#include "mpi/exchange_choice.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>

#include "comm/records.h"

namespace lzy {
namespace {

// Each way is measured so often for a class, and the median counts. The least time would favor ways whose times vary most: with
// more ranks than cores, a ring was once a tenth of its median.
constexpr std::size_t kRounds = 3;
// A small exchange is expected to take as long as so many barriers.
constexpr double kBarriers = 4;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ExchangePlan PlanFor(const KnownExchange& known) {
  ExchangePlan plan;
  for (std::size_t i = 0; i < kExchangeSteps; ++i) {
    const auto step = ExchangeStep::At(i);
    plan.ways[i] = known.times.Pick(step.shape, step.bytes());
  }
  plan.done = known.done;
  return plan;
}

/// What rank 0 tells all others to do next: measure a class, or stop and use `plan`.
struct Step {
  bool more = false;
  std::uint64_t index = 0;  // of the class
  ExchangePlan plan;
  LZY_FIELDS(more, index, plan)
};

/// Chooses the steps, on rank 0.
class Leader {
 public:
  Leader(const ExchangePlace& place, double seconds, bool again, double barrier)
      : place_(place), again_(again), end_(Now() + seconds), barrier_(barrier), times_(RecallExchange(place).times) {}

  Step Next() {
    while (next_ < kExchangeClasses && !again_ && times_.measured(ExchangeClass::At(next_))) ++next_;
    if (next_ < kExchangeClasses && Now() + Estimate(ExchangeClass::At(next_)) <= end_) return {true, next_++, {}};
    KeepExchange(place_, times_);
    // From memory, as later communicators get it.
    return {false, 0, PlanFor(RecallExchange(place_))};
  }
  void Take(const Step& step, const ExchangeTimes::Ways& seconds) {
    ExchangeTimes::Ways microseconds;
    // No clock measures less than 0.1 us for an exchange between nodes.
    std::ranges::transform(seconds, microseconds.begin(), [](double time) { return std::max(0.1, time * 1e6); });
    (void)times_.Set(ExchangeClass::At(step.index), microseconds);  // refuses only what no clock can have measured
  }

 private:
  /// Seconds that a class will take at most: as if each way needed a time proportional to the size.
  double Estimate(ExchangeClass which) const {
    if (which.size == 0) return static_cast<double>(kRounds * kMeasuredWays.size()) * (kBarriers + 1) * barrier_;
    const ExchangeClass before{which.shape, which.size - 1};
    if (!times_.measured(before)) return std::numeric_limits<double>::infinity();
    double all = 0;
    for (const double time : times_.microseconds(before)) all += time * 1e-6;
    const double larger = static_cast<double>(kExchangeBytes[which.size]) / static_cast<double>(kExchangeBytes[before.size]);
    return static_cast<double>(kRounds) * all * larger;
  }

  const ExchangePlace& place_;
  const bool again_;
  const double end_;
  const double barrier_;
  ExchangeTimes times_;
  std::size_t next_ = 0;
};

/// Measures one class. The time of an exchange ends when all ranks have finished theirs.
Status MeasureClass(Communicator& comm, ExchangeClass which, const RunWay& run, ExchangeTimes::Ways& seconds) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::uint64_t words = std::max<std::uint64_t>(ranks, kExchangeBytes[which.size] / sizeof(std::uint64_t));
  const bool few = which.shape == ExchangeShape::kFew;
  std::vector<std::uint64_t> counts;
  std::unique_ptr<std::uint64_t[]> send, receive;
  LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] {
    counts.assign(ranks, few ? 0 : words / ranks);
    if (few) counts[0] = words;
    // Written once, so that all pages are there.
    send = std::make_unique<std::uint64_t[]>(words);
    receive = std::make_unique<std::uint64_t[]>(words);
    std::fill_n(send.get(), words, static_cast<std::uint64_t>(comm.rank()) + 1);
  }));
  std::array<std::array<double, kRounds>, kMeasuredWays.size()> times{};
  LZY_RETURN_IF_ERROR(comm.Barrier());
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t w = 0; w < kMeasuredWays.size(); ++w) {
      const double start = Now();
      LZY_RETURN_IF_ERROR(run(kMeasuredWays[w], send.get(), receive.get(), counts));
      LZY_RETURN_IF_ERROR(comm.Barrier());
      times[w][round] = Now() - start;
    }
  }
  for (std::size_t w = 0; w < times.size(); ++w) {
    std::ranges::sort(times[w]);
    seconds[w] = times[w][kRounds / 2];
  }
  return Status::Ok();
}

}  // namespace

// Other numbers can only come from a rank with a fault: all ranks got the same.
ExchangeWay ExchangePlan::WayFor(std::span<const std::uint64_t> counts) const {
  const ExchangeWay way = ways[ExchangeStepOf(counts).index()];
  return way == ExchangeWay::kPairwise || way == ExchangeWay::kRing ? way : ExchangeWay::kMpi;
}

Result<ExchangePlan> AgreeOnPlan(Communicator& comm, const ExchangePlace& place) {
  ExchangePlan plan;
  if (comm.rank() == 0) plan = PlanFor(RecallExchange(place));
  LZY_RETURN_IF_ERROR(BroadcastRecord(comm, plan));
  return plan;
}

Status MeasureExchange(Communicator& comm, const ExchangePlace& place, double seconds, bool again, const RunWay& run,
                       ExchangePlan& plan) {
  // Rank 0 has to know how long a message takes before it can tell whether there is time for any measurement.
  const double start = Now();
  LZY_RETURN_IF_ERROR(comm.Barrier());
  const double met = Now();
  LZY_RETURN_IF_ERROR(comm.Barrier());
  std::optional<Leader> leader;
  if (comm.rank() == 0) leader.emplace(place, seconds - (met - start), again, Now() - met);
  for (;;) {
    Step step;
    if (leader) step = leader->Next();
    LZY_RETURN_IF_ERROR(BroadcastRecord(comm, step));
    if (!step.more) {
      plan = step.plan;
      return Status::Ok();
    }
    if (step.index >= kExchangeClasses) return {Code::kInternal, "MeasureExchange: rank 0 names a class that there is not"};
    ExchangeTimes::Ways measured{};
    LZY_RETURN_IF_ERROR(MeasureClass(comm, ExchangeClass::At(step.index), run, measured));
    if (leader) leader->Take(step, measured);
  }
}

}  // namespace lzy
