#include "dataset/page_caches.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/node.h"
#include "comm/records.h"
#include "storage/past_cache.h"

namespace lzy {
namespace {

// Includes the device number, because two mounts of one file system on a node have two page caches. A rank that cannot stat
// its file counts as having a page cache of its own.
std::string PageCacheOf(File* file, int rank) {
  const auto stat = file == nullptr ? Result<FileStat>(Code::kNotFound, "") : file->StatAtOpening();
  return stat.ok() ? fmt::format("{} device {}", ThisNode(), stat->device) : fmt::format("rank {}", rank);
}

bool AllAlike(const std::vector<std::string>& all) {
  return std::ranges::all_of(all, [&](const std::string& one) { return one == all[0]; });
}

void ReadPast(FileView& file) {
  file.data = ReadPastCache(std::move(file.data));
}

Result<bool> OfShared(Communicator& comm, FileView& file) {
  std::string mine;
  (void)NoThrow([&] { mine = PageCacheOf(file.data.get(), comm.rank()); });
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, mine));
  if (AllAlike(all)) return false;
  LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] { ReadPast(file); }));
  return true;
}

// Processes with the same view (FileSystem::View) have the same page cache for each path. Different views are not compared
// member by member: that would cost every rank an operation for each member.
Status OfSet(FileSystem& fs, Communicator& comm, DatasetView& view) {
  std::string mine;
  (void)NoThrow([&] { mine = fs.View(); });
  LZY_ASSIGN_OR_RETURN(const auto views, AllGatherRecords(comm, mine));
  if (AllAlike(views)) return Status::Ok();
  std::vector<std::uint32_t> seen;
  for (const auto& [rank, path] : view.ref.members) seen.push_back(rank);
  LZY_ASSIGN_OR_RETURN(const auto seen_by, AllGatherRecords(comm, seen));
  return AgreeOn(comm, [&] {
    std::set<std::uint32_t> elsewhere;  // seen by ranks of another view
    for (std::size_t rank = 0; rank < views.size(); ++rank) {
      if (views[rank] != mine) elsewhere.insert(seen_by[rank].begin(), seen_by[rank].end());
    }
    const auto read_past = [&](FileView& file) {
      if (file.owner == comm.rank() && elsewhere.contains(file.rank)) ReadPast(file);
    };
    std::ranges::for_each(view.files(), read_past);
    std::ranges::for_each(view.extras, read_past);
  });
}

}  // namespace

Result<bool> ReadPastStalePages(FileSystem& fs, Communicator& comm, bool written_by_owner, DatasetView& view) {
  if (comm.size() == 1) return false;
  if (view.ref.kind == DatasetKind::kShared) return OfShared(comm, view.ensembles[0].files[0]);
  if (!written_by_owner) LZY_RETURN_IF_ERROR(OfSet(fs, comm, view));
  return false;
}

}  // namespace lzy
