// lzy-scrub: reads data back, first those that were read longest ago. The catalogue has these times, and the progress of
// the scrub.
//
// Rank 0 plans, from the catalogue and from sizes, and sends the plan to the others (Arrange). Then the frame of the tools
// handles one dataset after the other in that order; each rank reads its share.
#include <fmt/format.h>
#include <linux/ioprio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "base/rate_limit.h"
#include "catalog/scrub_plan.h"
#include "comm/records.h"
#include "common/losses.h"
#include "common/tool.h"

namespace {

using lzy::Code;
using lzy::DatasetKind;
using lzy::DatasetRef;
using lzy::DatasetReport;
using lzy::Status;

/// The options of the user.
struct Wish {
  std::vector<std::string> share, encode, older_than, limit, max_time, on_damage;
  bool repair = false;
  bool from_disk = false;
  // After parsing.
  lzy::ScrubLimits limits;
  double encoded = 0.01;  ///< share of the rows that are encoded again
  std::uint64_t bytes_per_second = 0;
  std::int64_t longest_ns = 0;  ///< 0: no bound
};

/// A dataset to read, as rank 0 sends it to the others.
struct Step {
  std::uint64_t dataset = 0;
  std::uint64_t first_row = 0;
  std::uint64_t most_bytes = 0;
  LZY_FIELDS(dataset, first_row, most_bytes)
};

Status Refused(const char* option, const std::string& value, const char* accepted) {
  return {Code::kInvalidArgument, fmt::format("--{}: '{}' is not accepted: {}", option, value, accepted)};
}

// The last value of each counts.
Status Parse(Wish& wish) {
  if (!wish.share.empty()) {
    const auto share = lzy::ParseShare(wish.share.back());
    if (!share || *share == 0) return Refused("share", wish.share.back(), "a percentage above 0, such as 12%");
    wish.limits.share = *share;
  }
  if (!wish.encode.empty()) {
    const auto share = lzy::ParseShare(wish.encode.back());
    if (!share) return Refused("encode", wish.encode.back(), "a percentage, such as 1%");
    wish.encoded = *share;
  }
  constexpr const char* kDurations = "a time such as 90s, 15m, 36h, 30d, 2w or 1y";
  if (!wish.older_than.empty()) {
    const auto age = lzy::ParseDuration(wish.older_than.back());
    if (!age) return Refused("older-than", wish.older_than.back(), kDurations);
    wish.limits.older_than = *age;
  }
  if (!wish.max_time.empty()) {
    const auto time = lzy::ParseDuration(wish.max_time.back());
    if (!time || *time == 0) return Refused("max-time", wish.max_time.back(), kDurations);
    wish.longest_ns = *time;
  }
  LZY_ASSIGN_OR_RETURN(wish.bytes_per_second, lzy::ParseLimit(wish.limit));
  return Status::Ok();
}

/// Reads only if no other process does. Threads that are made later inherit this. If the kernel has no such class, the
/// scrub is like any other reader.
void BeIdleReader() {
  (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

class Scrub {
 public:
  explicit Scrub(Wish& wish) : wish_(wish) {}

  /// Puts the datasets that are to be read into their order. Collective.
  Status Arrange(lzy::ToolRun& run, std::vector<DatasetRef>& datasets) {
    LZY_RETURN_IF_ERROR(lzy::DropCatalogFiles(run, datasets));
    LZY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> sizes, Sizes(run, datasets));
    std::vector<Step> steps;
    if (run.comm().rank() == 0) steps = Plan(run, datasets, sizes);
    LZY_RETURN_IF_ERROR(lzy::BroadcastRecord(run.comm(), steps));
    std::vector<DatasetRef> chosen;
    for (const Step& step : steps) {
      DatasetRef& dataset = datasets.at(step.dataset);
      steps_[dataset.path] = step;
      chosen.push_back(std::move(dataset));
    }
    datasets = std::move(chosen);
    limit_.emplace(static_cast<double>(wish_.bytes_per_second) / run.comm().size());
    return Status::Ok();
  }

  /// True if the time is over. Local.
  bool Enough() const {
    const auto spent = std::chrono::steady_clock::now() - begin_;
    return wish_.longest_ns != 0 && std::chrono::nanoseconds(spent).count() >= wish_.longest_ns;
  }

  /// Reads one dataset as planned. Several threads may call it for small ones.
  DatasetReport Read(const lzy::Context& given, const DatasetRef& dataset) {
    if (Enough()) return Skipped(dataset);
    const Step& step = steps_.at(dataset.path);
    lzy::VerifyRequest request{.from_disk = wish_.from_disk};
    request.portion = {.first = step.first_row, .most_bytes = step.most_bytes};
    // If a step is stopped, its data are read again.
    if (wish_.bytes_per_second == 0 && wish_.longest_ns == 0 && step.most_bytes == 0) request.portion->bytes_at_once = 256u << 20;
    request.encode = wish_.encoded;
    request.leave_written = true;
    request.record_access = wish_.repair;
    const auto stop = [&] { return Enough() || (given.stop && given.stop()); };
    DatasetReport report = lzy::Verify(Paced(given, stop), dataset, request);
    if (report.status.code() == Code::kInterrupted) {
      // It had to be read as a whole, and the time was over before that.
      return lzy::OnAnyRank(given.comm, given.stop && given.stop()) ? report : Skipped(dataset);
    }
    const bool to_do = report.stamps != lzy::StampNote::kNone || std::ranges::any_of(report.damage, lzy::IsLastingDamage);
    if (!wish_.repair || report.left_for_later || !to_do) return report;
    // A repair must know all damage of the dataset, so it reads everything, and the time that is left does not count.
    const bool misfits = std::ranges::any_of(report.damage, [](const lzy::Damage& d) { return d.cause == lzy::DamageCause::kEncoding; });
    DatasetReport repaired =
        lzy::Verify(Paced(given, given.stop), dataset, {.from_disk = wish_.from_disk, .repair = true, .encode = misfits ? 1.0 : 0.0});
    return repaired.status.code() == Code::kInterrupted ? report : repaired;
  }

 private:
  static DatasetReport Skipped(const DatasetRef& dataset) {
    DatasetReport report(dataset.path, dataset.kind);
    report.skipped = true;
    return report;
  }

  /// The same context, with the rate limit.
  lzy::Context Paced(const lzy::Context& given, std::function<bool()> stop) {
    lzy::Context paced{given.fs, given.comm, given.options};
    paced.share_page_cache = given.share_page_cache;
    paced.stop = std::move(stop);
    paced.progress = [this, &given, ends = paced.stop, last = std::uint64_t{0}](const char* phase, std::uint64_t done, std::uint64_t total) mutable {
      if (given.progress) given.progress(phase, done, total);
      const std::uint64_t before = done < last ? 0 : last;
      last = done;
      limit_->Take(done - before, ends);
    };
    return paced;
  }

  // In a set, each process counts the members that it sees.
  static lzy::Result<std::vector<std::uint64_t>> Sizes(lzy::ToolRun& run, const std::vector<DatasetRef>& datasets) {
    const auto size_of = [&](const std::string& path) {
      const auto stat = run.fs().Stat(path);
      return stat.ok() ? stat->size : 0;
    };
    std::vector<std::uint64_t> mine;
    for (const DatasetRef& dataset : datasets) {
      std::uint64_t bytes = dataset.kind == DatasetKind::kShared ? size_of(dataset.path) : 0;
      for (const auto& [rank, path] : dataset.members) bytes += dataset.IsDealtHere(rank) ? size_of(path) : 0;
      mine.push_back(bytes);
    }
    LZY_ASSIGN_OR_RETURN(const auto all, lzy::AllGatherRecords(run.comm(), mine));
    std::vector<std::uint64_t> sizes(datasets.size());
    for (const auto& theirs : all) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        sizes[i] = datasets[i].kind == DatasetKind::kShared ? std::max(sizes[i], theirs.at(i)) : sizes[i] + theirs.at(i);
      }
    }
    return sizes;
  }

  // Without a catalogue, it is not known what was read before. To vary the order, a run begins at another place each day,
  // perhaps inside of a dataset.
  void BeginByDay(lzy::ToolRun& run, const std::vector<DatasetRef>& datasets, std::vector<lzy::ScrubCandidate>& candidates) {
    constexpr double kGoldenRatio = 0.618033988749895;  // of runs that are to read everything, but may be stopped
    wish_.limits.begin = lzy::TurnOfDay(wish_.limits.now, wish_.limits.share < 1 ? wish_.limits.share : kGoldenRatio);
    const auto [index, before] = lzy::PlaceOfShare(candidates, wish_.limits.begin);
    if (candidates.empty() || wish_.limits.share == 1) return;
    const auto self = lzy::SelfCommunicator();
    const DatasetReport info = lzy::Info({run.fs(), *self, run.options()}, datasets[index]);
    // The data of a row; about, since the last one may be cut, and members may differ.
    const std::uint64_t parity = std::uint64_t{info.parity} * info.groups;
    const std::uint64_t row = info.unit * (info.devices > parity ? info.devices - parity : 0);
    if (!info.status.ok() || row == 0) return;
    candidates[index].rows = info.bytes / row;
    candidates[index].pass_rows = static_cast<std::uint64_t>(static_cast<double>(candidates[index].rows) * before);
  }

  // On rank 0.
  std::vector<Step> Plan(lzy::ToolRun& run, const std::vector<DatasetRef>& datasets, const std::vector<std::uint64_t>& sizes) {
    std::map<std::string, lzy::CatalogDataset> known = Known(run, datasets);
    std::vector<lzy::ScrubCandidate> candidates;
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      const auto at = known.find(lzy::CatalogPath(datasets[i].path, datasets[i].kind == DatasetKind::kSet));
      lzy::ScrubCandidate& candidate = candidates.emplace_back(lzy::ScrubCandidate{.bytes = sizes[i]});
      all += sizes[i];
      if (at == known.end()) continue;
      candidate.last_verified = at->second.last_verified;
      if (at->second.pass_began != 0) {
        candidate.pass_rows = at->second.pass_rows;
        candidate.rows = at->second.rows;
      }
    }
    wish_.limits.now = lzy::WallClockNs();
    if (run.books() == nullptr || run.books()->catalog() == nullptr) BeginByDay(run, datasets, candidates);
    std::vector<Step> steps;
    for (const lzy::ScrubStep& step : lzy::PlanScrub(candidates, wish_.limits)) {
      steps.push_back({step.candidate, step.first_row, step.most_bytes});
    }
    run.Say(fmt::format("{} of {} to read, of {} in all\n", steps.size(), lzy::Plural(datasets.size(), "dataset"), lzy::FormatSize(all)));
    return steps;
  }

  /// The datasets in the catalogue, by path. First records which datasets below the PATHs are not protected any more.
  static std::map<std::string, lzy::CatalogDataset> Known(lzy::ToolRun& run, const std::vector<DatasetRef>& datasets) {
    std::map<std::string, lzy::CatalogDataset> known;
    lzy::Catalog* const catalog = run.books() ? run.books()->catalog() : nullptr;
    if (catalog == nullptr) return known;
    lzy::FindLosses(run, datasets);
    lzy::ReportLosses(run);
    if (run.books()->catalog() == nullptr) return known;
    auto all = catalog->Datasets();
    if (!all.ok()) {
      run.books()->Drop(all.status());
      return known;
    }
    for (lzy::CatalogDataset& dataset : *all) known.emplace(dataset.path, std::move(dataset));
    return known;
  }

  Wish& wish_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::map<std::string, Step> steps_;  // constant while datasets are read
  std::optional<lzy::RateLimit> limit_;
};

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  Scrub scrub(wish);
  lzy::Tool tool;
  tool.name = "lzy-scrub";
  tool.summary = "Verifies the datasets that were verified longest ago, and goes on there next time.";
  tool.changes = "the catalogue; with --repair, also damaged blocks and sidecars, and the times that sidecars record (never creates missing data files)";
  tool.table_options = {"device-dirs", "catalog"};
  tool.add_options = [&](lzy::Arguments& arguments) {
    arguments.AddValues("--share", "P%", wish.share, "read at most this share of all bytes (default 100%)");
    arguments.AddValues("--encode", "P%", wish.encode, "compute the parity of this share of what is read again, and compare (default 1%; 0%: none)");
    arguments.AddValues("--older-than", "AGE", wish.older_than, "only what was last verified this long ago, or never (30d, 36h)");
    arguments.AddValues("--limit", "RATE", wish.limit, "read at most so many bytes a second, all ranks together (50M)");
    arguments.AddValues("--max-time", "T", wish.max_time, "begin no further reading after this time (8h); repairs are finished");
    arguments.AddFlag("--repair", wish.repair, "repair damage; reads the whole dataset in which it is");
    arguments.AddFlag("--from-disk", wish.from_disk, "read everything from the device instead of the page cache");
    lzy::AddOnDamage(arguments, wish.on_damage);
  };
  tool.check_options = [&] { return Parse(wish); };
  tool.needs_books = true;
  tool.action = [&] { return wish.repair ? lzy::Action::kRepair : lzy::Action::kVerify; };
  tool.arrange = [&](lzy::ToolRun& run, std::vector<DatasetRef>& datasets) { return scrub.Arrange(run, datasets); };
  tool.enough = [&] { return scrub.Enough(); };
  tool.note = [](const DatasetReport& report) {
    const bool whole = report.portion.of == 0 || report.portion.whole();
    return whole ? lzy::CatalogNote::Read::kWhole : lzy::CatalogNote::Read::kPart;
  };
  tool.on_damage = [&] { return wish.on_damage.empty() ? std::string() : wish.on_damage.back(); };
  tool.engine = [&](const lzy::Context& context, const DatasetRef& dataset) { return scrub.Read(context, dataset); };
  BeIdleReader();
  return lzy::RunTool(tool, argc, argv);
}
