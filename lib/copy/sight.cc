#include "copy/sight.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/node.h"
#include "base/partial_view.h"
#include "comm/records.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// What one rank sees.
struct Seen {
  std::vector<FileStat> sources;  ///< empty unless it sees all of them
  bool destination = false;
  bool parent = false;  ///< it sees the directory of the destination, and a copy could be made there
  bool own = false;     ///< the sources are names of this rank, if they are at all
  LZY_FIELDS(sources, destination, parent, own)
};

// The directory in which the copy is made.
std::string PlaceOf(FileSystem& fs, const std::string& destination) {
  return IsDirectory(fs, destination) ? destination : DirectoryOf(destination);
}

Seen LookHere(FileSystem& fs, const std::vector<std::string>& sources, const std::string& destination) {
  Seen seen;
  for (const std::string& source : sources) {
    const auto stat = fs.Stat(source);
    if (!stat.ok()) {
      seen.sources.clear();
      break;
    }
    seen.sources.push_back(*stat);
  }
  seen.own = MayHave(fs, sources[0]);
  seen.destination = fs.Stat(destination).ok();
  seen.parent = seen.destination || (!destination.ends_with('/') && IsDirectory(fs, DirectoryOf(destination)));
  return seen;
}

}  // namespace

Result<std::vector<int>> SeeSameDirectory(Communicator& comm, FileSystem& fs, const std::string& directory,
                                          std::vector<int> ranks, bool dry_run) {
  if (ranks.size() < 2) return ranks;  // by value: GCC 14 warns of a copy of a vector that it knows to be this small
  if (dry_run) return std::vector<int>{ranks[0]};
  const bool leads = comm.rank() == ranks[0];
  std::string name = fmt::format("{:016x}", DrawRandom<std::uint64_t>());
  LZY_RETURN_IF_ERROR(BroadcastRecord(comm, name, ranks[0]));
  const std::string probe = NewCopyPath(JoinPath(directory, name));
  LZY_RETURN_IF_ERROR(AgreeOn(comm, [&]() -> Status {
    if (!leads) return Status::Ok();
    const auto made = fs.Open(probe, OpenMode::kCreateNew, /*follow=*/false, 0600);
    return made.ok() ? Status::Ok() : Status(Code::kWriteFailed, made.status().message());
  }));
  bool sees = leads;
  if (!leads && std::ranges::find(ranks, comm.rank()) != ranks.end()) sees = fs.Stat(probe, /*follow=*/false).ok();
  const auto all = AllGatherRecords(comm, sees);
  if (leads) (void)fs.Remove(probe);
  LZY_RETURN_IF_ERROR(all.status());
  std::vector<int> same;
  for (const int rank : ranks) {
    if ((*all)[static_cast<std::size_t>(rank)]) same.push_back(rank);
  }
  return same;
}

// If nothing can be copied, returns one rank that sees as much as any, and planning reports what is missing.
Result<CopySight> LookAround(Communicator& comm, FileSystem& fs, const std::vector<std::string>& sources,
                             const std::string& destination, bool dry_run) {
  CopySight sight{{0}, {0}, false};
  if (comm.size() == 1) return sight;
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, LookHere(fs, sources, destination)));
  const bool exists = std::ranges::any_of(all, &Seen::destination);
  std::vector<int> see_sources, see_destination;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const Seen& seen = all[static_cast<std::size_t>(rank)];
    if (!seen.sources.empty()) see_sources.push_back(rank);
    if (exists ? seen.destination : seen.parent) see_destination.push_back(rank);
  }
  if (see_sources.empty()) {
    const auto own = std::ranges::find_if(all, &Seen::own);
    sight.targets = sight.sources = {own == all.end() ? 0 : static_cast<int>(own - all.begin())};
    return sight;
  }
  if (see_destination.empty()) {
    sight.targets = sight.sources = {see_sources[0]};
    return sight;
  }
  std::vector<int> both;
  std::ranges::set_intersection(see_sources, see_destination, std::back_inserter(both));
  sight.apart = both.empty();
  const auto& first = all[static_cast<std::size_t>(sight.apart ? see_sources[0] : both[0])].sources;
  const auto differs = [&](int rank) { return !std::ranges::equal(all[static_cast<std::size_t>(rank)].sources, first, LooksSame); };
  sight.sources = sight.apart ? see_sources : both;
  std::erase_if(sight.sources, differs);
  sight.targets = sight.apart ? see_destination : sight.sources;
  LZY_ASSIGN_OR_RETURN(sight.targets,
                       SeeSameDirectory(comm, fs, PlaceOf(fs, destination), sight.targets, dry_run));
  if (!sight.apart) sight.sources = sight.targets;
  return sight;
}

}  // namespace lzy
