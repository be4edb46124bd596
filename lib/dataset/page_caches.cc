#include "dataset/page_caches.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/node.h"
#include "comm/records.h"
#include "storage/past_cache.h"

namespace lzy {
namespace {

// Includes the file system id, because two mounts of one file system on a node have two page caches. A rank that cannot stat
// its file counts as having a page cache of its own.
std::string PageCacheOf(File* file, int rank) {
  const auto stat = file == nullptr ? Result<FileStat>(Code::kNotFound, "") : file->StatAtOpening();
  return stat.ok() ? fmt::format("{} device {}", ThisNode(), stat->file_system) : fmt::format("rank {}", rank);
}

bool AllAlike(const std::vector<std::string>& all) {
  return std::ranges::all_of(all, [&](const std::string& one) { return one == all[0]; });
}

void ReadPast(FileView& file) {
  file.data = ReadPastCache(std::move(file.data));
}

Result<PageCaches> OfShared(Communicator& comm, FileView& file) {
  std::string mine;
  (void)NoThrow([&] { mine = PageCacheOf(file.data.get(), comm.rank()); });
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, mine));
  if (AllAlike(all)) return PageCaches();
  LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] { ReadPast(file); }));
  return PageCaches{.several = true, .seen_by = {}};
}

// The most ranks that stat one member. With more, thousands of nodes would put too much load on a server.
constexpr std::size_t kMostLooks = 1 + 8;

// By member, the ranks that stat it: its owner, and the first rank of each other view that sees it.
std::map<std::uint32_t, std::vector<int>> LookersOf(const DatasetView& view, const std::vector<std::string>& views,
                                                    const std::vector<std::vector<std::uint32_t>>& seen_by) {
  std::map<std::uint32_t, std::vector<int>> lookers;
  const auto add_owner = [&](const FileView& file) {
    if (file.present) lookers[file.rank] = {file.owner};
  };
  std::ranges::for_each(view.files(), add_owner);
  std::ranges::for_each(view.extras, add_owner);
  const auto is_new = [&](const std::vector<int>& ranks, std::size_t rank) {
    return std::ranges::none_of(ranks, [&](int other) { return views[static_cast<std::size_t>(other)] == views[rank]; });
  };
  for (std::size_t rank = 0; rank < views.size(); ++rank) {
    for (const std::uint32_t member : seen_by[rank]) {
      const auto at = lookers.find(member);
      if (at != lookers.end() && at->second.size() < kMostLooks && is_new(at->second, rank)) at->second.push_back(static_cast<int>(rank));
    }
  }
  std::erase_if(lookers, [](const auto& one) { return one.second.size() == 1; });
  return lookers;
}

// Processes with the same view (FileSystem::View) have the same page cache for each path. Different views are not compared
// member by member: that would cost every rank an operation for each member.
Result<PageCaches> OfSet(FileSystem& fs, Communicator& comm, DatasetView& view) {
  std::string mine;
  (void)NoThrow([&] { mine = fs.View(); });
  LZY_ASSIGN_OR_RETURN(const auto views, AllGatherRecords(comm, mine));
  if (AllAlike(views)) return PageCaches();
  std::vector<std::uint32_t> seen;
  for (const auto& [rank, path] : view.ref.members) seen.push_back(rank);
  LZY_ASSIGN_OR_RETURN(const auto seen_by, AllGatherRecords(comm, seen));
  PageCaches out;
  LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] {
    out.seen_by = LookersOf(view, views, seen_by);
    const auto read_past = [&](FileView& file) {
      if (file.owner == comm.rank() && out.seen_by.contains(file.rank)) ReadPast(file);
    };
    std::ranges::for_each(view.files(), read_past);
    std::ranges::for_each(view.extras, read_past);
  }));
  return out;
}

}  // namespace

Result<PageCaches> ReadPastStalePages(FileSystem& fs, Communicator& comm, bool written_by_owner, DatasetView& view) {
  if (comm.size() == 1) return PageCaches();
  if (view.ref.kind == DatasetKind::kShared) return OfShared(comm, view.ensembles[0].files[0]);
  return written_by_owner ? Result<PageCaches>(PageCaches()) : OfSet(fs, comm, view);
}

}  // namespace lzy
