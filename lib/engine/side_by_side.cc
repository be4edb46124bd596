#include "engine/side_by_side.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "comm/records.h"
#include "dataset/view.h"
#include "names/lookup.h"
#include "names/peek.h"
#include "names/proven.h"
#include "sidecar/names.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

/// What a rank sees of a small shared file.
struct Seen {
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint32_t links = 1;
  LZY_FIELDS(inode, size, mtime_ns, links)
  friend bool operator==(const Seen&, const Seen&) = default;
};

// True if only the content can show which sidecar belongs to the file. Meanwhile no thread may rename sidecars beside it: a sidecar that
// is not found does not prove anything, and lzy-protect would commit the file as an edit.
bool NeedsContent(FileSystem& fs, const DatasetRef& dataset, const FileStat& stat) {
  if (BirthIdentifiesFile(stat.birth_ns)) return false;
  const auto own = SidecarPath(dataset.path);
  const auto peek = own.ok() ? PeekSidecar(fs, *own) : Result<Peek>(own.status());
  return peek.ok() && peek->committed && !HasSizeAndTime(stat, peek->stamp);
}

std::optional<Seen> Look(FileSystem& fs, const DatasetRef& dataset) {
  if (dataset.kind != DatasetKind::kShared) return std::nullopt;
  const auto stat = fs.Stat(dataset.path);
  if (!stat.ok() || stat->type != FileStat::Type::kRegular || stat->size > kSmallFile) return std::nullopt;
  if (NeedsContent(fs, dataset, *stat)) return std::nullopt;
  return Seen{stat->inode, stat->size, stat->mtime_ns, stat->links};
}

/// The sizes of the datasets that are small and that all ranks see alike; the same on all ranks. Of processes that share a
/// view of the file system, the first one stats the files. Collective.
Result<std::vector<std::optional<std::uint64_t>>> SmallSizes(const Context& context, std::span<const DatasetRef> datasets) {
  std::vector<std::optional<Seen>> mine;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] {
    for (const DatasetRef& dataset : datasets) {
      if (dataset.companion == 0) mine.push_back(Look(context.fs, dataset));
    }
  }));
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(context.comm, mine));
  std::vector<std::optional<std::uint64_t>> sizes(datasets.size());
  const std::vector<std::optional<Seen>>* first = nullptr;
  std::map<std::uint64_t, std::size_t> names;  // of files with several links, by inode
  for (const auto& theirs : all) {
    if (theirs.size() != datasets.size()) continue;  // another process of its machine stats the files
    if (first == nullptr) first = &theirs;
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      const bool alike = theirs[i] && theirs[i] == (*first)[i];
      if (first == &theirs && alike) sizes[i] = theirs[i]->size;
      if (first == &theirs && alike && theirs[i]->links > 1) ++names[theirs[i]->inode];
      if (!alike) sizes[i] = std::nullopt;
    }
  }
  // Two names of one file: one thread must not read the file while another one repairs it.
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (sizes[i] && names[(*first)[i]->inode] > 1) sizes[i] = std::nullopt;
  }
  return sizes;
}

// True if the file is another one, or has the content of another file's sidecar. A thread may have handled that file at the
// same moment, using or about to rename this sidecar. If the file is handled alone, it gets the sidecar that it has by
// content.
bool WaitsForAnother(const DatasetReport& report) {
  return report.status.ok() && report.state == DatasetState::kStale && (report.holds_another || report.another);
}

// Files that were judged by a sidecar that is another file's, as a thread has proven since. If they had come later, they would have been
// judged without it. So that the order does not count, they are handled again. All ranks use what one of them has proven of these files,
// which all see alike. Collective.
Result<std::set<std::string>> JudgedTooEarly(const Context& context, std::span<const DatasetRef> datasets,
                                             const std::vector<std::optional<std::uint64_t>>& sizes) {
  LZY_ASSIGN_OR_RETURN(const auto bare, UniteRecords(context.comm, FindLeftBare(context.fs)));
  std::set<std::string> early;
  if (bare.empty()) return early;
  std::set<std::string> alike;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (sizes[i]) alike.insert(FollowLink(context.fs, datasets[i].path));
  }
  for (const LeftBare& one : bare) {
    early.insert(one.path);
    if (!alike.contains(one.by) || ProvenSidecar(context.fs, DirectoryOf(one.by), BaseNameOf(one.by))) continue;
    RememberProven(context.fs, DirectoryOf(one.by), BaseNameOf(one.by), BaseNameOf(one.sidecar));
  }
  return early;
}

}  // namespace

// A few collective calls serve all datasets: to agree on sizes and to gather reports. Between them no rank communicates,
// because each engine call has a communicator of its own. Index i goes to rank i mod ranks, because neighbours in a
// directory often have the same size. A dataset that grows after SmallSizes is handled all the same, but slowly.
Result<std::vector<SmallReport>> HandleSmall(const Context& context, std::span<const DatasetRef> datasets, const EngineCall& call,
                                             const std::function<void(std::uint64_t bytes)>& finished) {
  LZY_ASSIGN_OR_RETURN(const auto sizes, SmallSizes(context, datasets));
  const auto ranks = static_cast<std::size_t>(context.comm.size()), rank = static_cast<std::size_t>(context.comm.rank());
  std::vector<std::size_t> dealt;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (sizes[i] && i % ranks == rank) dealt.push_back(i);
  }
  // By index of the dataset. Threads write different entries; the mutex is for `finished`.
  std::vector<std::pair<std::uint64_t, DatasetReport>> reports(dealt.size());
  Options options = context.options;
  options.threads = 1;
  std::mutex mutex;
  const Status done = NoThrow([&] {
    ParallelFor(dealt.size(), ThreadsFor(context), [&](std::size_t n) {
      const DatasetRef& dataset = datasets[dealt[n]];
      DatasetReport report(dataset.path, dataset.kind);
      if (context.stop && context.stop()) {
        report.status = Status(Code::kInterrupted, dataset.path + ": interrupted");
      } else {
        const auto alone = SelfCommunicator();
        Context here{context.fs, *alone, options};
        here.stop = context.stop;
        report = call(here, dataset);
      }
      const std::lock_guard lock(mutex);
      reports[n] = {dealt[n], std::move(report)};
      if (finished && !WaitsForAnother(reports[n].second)) finished(*sizes[dealt[n]]);
    });
  });
  LZY_RETURN_IF_ERROR(Agree(context.comm, done));
  LZY_ASSIGN_OR_RETURN(const std::set<std::string> early, JudgedTooEarly(context, datasets, sizes));
  std::vector<std::uint64_t> again;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] {
    for (const auto& [index, report] : reports) {
      if (WaitsForAnother(report) || (!early.empty() && early.contains(FollowLink(context.fs, report.path)))) again.push_back(index);
    }
  }));
  LZY_ASSIGN_OR_RETURN(auto all, UniteRecords(context.comm, reports));
  // Each rank decides about its own reports: a link that is replaced meanwhile must not make ranks differ.
  LZY_ASSIGN_OR_RETURN(const auto all_again, UniteRecords(context.comm, again));
  std::vector<SmallReport> out(datasets.size());
  for (auto& [index, report] : all) out.at(index).report = std::move(report);
  for (const std::uint64_t index : all_again) out.at(index).again = true;
  return out;
}

}  // namespace lzy
