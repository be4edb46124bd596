#include "dataset/seen_late.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "base/late_file.h"
#include "comm/records.h"
#include "storage/past_cache.h"

namespace lzy {
namespace {

using std::chrono::milliseconds;

// Calls `seen` until it returns true. There is no pause before the first call; each later pause is more than twice as long
// as the one before. `seen` may reduce `longest`.
template <class Seen>
void UntilSeen(const milliseconds& longest, const Seen& seen) {
  for (milliseconds pause{0}; pause < longest; pause = 2 * pause + milliseconds(25)) {
    std::this_thread::sleep_for(pause);
    if (seen()) return;
  }
}

// These make all pauses together about three seconds, and one and a half.
constexpr milliseconds kPatient = PatienceOf::kLongest, kShort{800};

}  // namespace

Status LookAgain(FileSystem& fs, const std::string& directory, const std::function<Status()>& look) {
  Status seen = look();
  if (seen.ok()) return seen;
  UntilSeen(kPatient, [&] {
    (void)fs.List(directory);
    seen = look();
    return seen.ok();
  });
  return seen;
}

// An open may succeed on a file that was replaced; Refresh finds that out. A list of the directory updates its names.
Result<std::unique_ptr<File>> OpenNewest(FileSystem& fs, const std::string& path, OpenMode mode) {
  const auto look = [&]() -> Result<std::unique_ptr<File>> {
    LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, mode, /*follow=*/false));
    if (!MaySeeLate(*file)) return file;
    LZY_RETURN_IF_ERROR(Refresh(*file));
    return ReadPastCache(std::move(file));
  };
  auto found = look();
  if (found.ok()) return found;
  (void)fs.List(DirectoryOf(path));
  return look();
}

Result<FileStat> StatNewest(FileSystem& fs, const std::string& path) {
  const auto seen = fs.Stat(path);
  if (!seen.ok() || seen->type != FileStat::Type::kRegular) return seen;
  const auto file = OpenNewest(fs, path, OpenMode::kRead);
  if (file.ok()) return (*file)->Stat();
  return file.status().code() == Code::kNotFound ? Result<FileStat>(file.status()) : seen;
}

Result<FileStat> StatPatiently(File& file, const FileStat& known) {
  Result<FileStat> seen = file.Stat();
  const auto is_newer = [&] { return !seen.ok() || seen->size != known.size || seen->mtime_ns != known.mtime_ns; };
  if (is_newer() || !MaySeeLate(file)) return seen;
  UntilSeen(kShort, [&] {
    const Status refreshed = Refresh(file);
    seen = refreshed.ok() || refreshed.code() == Code::kNotFound ? file.Stat() : refreshed;
    return is_newer();
  });
  return seen;
}

milliseconds PatienceOf::Longest(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  const auto at = impatient_.find(directory);
  return at == impatient_.end() ? kLongest : at->second;
}

// The longest pause stays at least 1 ms, so that UntilSeen calls `seen` once.
void PatienceOf::Note(const std::string& directory, bool seen_alike) {
  const std::lock_guard lock(mutex_);
  if (seen_alike) {
    impatient_.erase(directory);
  } else {
    const auto at = impatient_.try_emplace(directory, kLongest).first;
    at->second = std::max(at->second / 2, milliseconds(1));
  }
}

namespace {

// Size and mtime of a file, as one rank sees them. `number` tells the files of one call of LookTogether apart.
struct SeenFile {
  std::uint32_t number = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  LZY_FIELDS(number, size, mtime_ns)
  bool IsLike(const SeenFile& other) const { return size == other.size && mtime_ns == other.mtime_ns; }
};
// Stats a file. `first`: no rank has compared it before.
using Look = std::function<Result<FileStat>(bool first)>;

// Returns the files that ranks see differently. `alike` gets the other files, as all ranks see them.
std::set<std::uint32_t> SeenApart(const std::vector<std::pair<std::int64_t, std::vector<SeenFile>>>& all,
                                  std::map<std::uint32_t, SeenFile>& alike) {
  std::set<std::uint32_t> apart;
  for (const auto& [patience, files] : all) {
    for (const SeenFile& file : files) {
      if (!alike.try_emplace(file.number, file).first->second.IsLike(file)) apart.insert(file.number);
    }
  }
  for (const std::uint32_t number : apart) alike.erase(number);
  return apart;
}

// Each rank stats its files of `looks`, and the ranks compare the results, until all ranks see each file alike, or until the
// patience of a rank is over. `alike` gets the files that all ranks saw alike. Collective.
Status LookTogether(FileSystem& fs, Communicator& comm, const std::string& directory, const std::map<std::uint32_t, Look>& looks,
                    std::map<std::uint32_t, SeenFile>& alike) {
  auto& patience = fs.Memo<PatienceOf>();
  // Ranks may have waited in vain for other files before, so the least patience counts.
  milliseconds longest = patience.Longest(directory);
  std::optional<std::set<std::uint32_t>> apart;
  Status status;
  UntilSeen(longest, [&] {
    std::pair<std::int64_t, std::vector<SeenFile>> mine{longest.count(), {}};
    status = AgreeOn(comm, [&]() -> Status {
      for (const auto& [number, look] : looks) {
        if (apart && !apart->contains(number)) continue;
        LZY_ASSIGN_OR_RETURN(const FileStat stat, look(!apart));
        mine.second.push_back({number, stat.size, stat.mtime_ns});
      }
      return Status::Ok();
    });
    if (!status.ok()) return true;
    const auto all = AllGatherRecords(comm, mine);
    status = Agree(comm, all.status());
    if (!status.ok()) return true;
    for (const auto& [theirs, files] : *all) longest = std::min(longest, milliseconds(theirs));
    apart = SeenApart(*all, alike);
    return apart->empty();
  });
  if (status.ok()) patience.Note(directory, !apart || apart->empty());
  return status;
}

Result<FileStat> RefreshedStat(File& file) {
  LZY_RETURN_IF_ERROR(Refresh(file));
  return file.Stat();
}

}  // namespace

Status SeeAlike(FileSystem& fs, Communicator& comm, File& file) {
  std::map<std::uint32_t, SeenFile> alike;
  return LookTogether(fs, comm, DirectoryOf(file.path()), {{0, [&](bool) { return RefreshedStat(file); }}}, alike);
}

// The owner has just opened its file, and refreshed it. The others first stat the name without a refresh, which costs less.
// That suffices: the node that wrote the file has the right values, and nodes that have nothing in their cache ask the server.
Status SeeMembersAlike(FileSystem& fs, Communicator& comm, const std::map<std::uint32_t, std::vector<int>>& seen_by, DatasetView& view) {
  if (seen_by.empty()) return Status::Ok();
  constexpr std::uint64_t kNotThere = ~std::uint64_t{0};
  std::map<std::uint32_t, Look> looks;
  const auto add = [&](FileView& file) {
    const auto at = seen_by.find(file.rank);
    if (at == seen_by.end() || std::ranges::find(at->second, comm.rank()) == at->second.end()) return;
    if (file.owner == comm.rank() && file.data) {
      looks[file.rank] = [&data = *file.data](bool first) { return first ? data.Stat() : RefreshedStat(data); };
    } else {
      looks[file.rank] = [&fs, &path = file.path](bool first) -> Result<FileStat> {
        const auto stat = first ? fs.Stat(path, /*follow=*/false) : StatNewest(fs, path);
        if (stat.ok()) return stat;
        FileStat none;
        none.size = kNotThere;
        return none;
      };
    }
  };
  std::map<std::uint32_t, SeenFile> alike;
  LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] {
    std::ranges::for_each(view.files(), add);
    std::ranges::for_each(view.extras, add);
  }));
  LZY_RETURN_IF_ERROR(LookTogether(fs, comm, DirectoryOf(view.ref.path), looks, alike));
  const auto take = [&](FileView& file) {
    const auto seen = alike.find(file.rank);
    if (seen != alike.end()) std::tie(file.stat.size, file.stat.mtime_ns) = std::tie(seen->second.size, seen->second.mtime_ns);
  };
  std::ranges::for_each(view.files(), take);
  std::ranges::for_each(view.extras, take);
  return Status::Ok();
}

// The inode is compared if possible, because with clocks of whole seconds a file and the one that it replaced may have the
// same time.
Result<std::unique_ptr<File>> OpenSame(FileSystem& fs, const std::string& path, const FileStat& theirs, bool by_inode, OpenMode mode) {
  std::unique_ptr<File> found;
  LZY_RETURN_IF_ERROR(LookAgain(fs, DirectoryOf(path), [&]() -> Status {
    LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, mode, /*follow=*/false));
    LZY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
    const bool same = by_inode ? stat.inode == theirs.inode : stat.size == theirs.size && stat.mtime_ns == theirs.mtime_ns;
    if (!same) return SeesAnotherSidecar(path);
    found = std::move(file);
    return Status::Ok();
  }));
  return found;
}

Status SeesAnotherSidecar(const std::string& path) {
  return {Code::kIo, fmt::format("{}: ranks see different sidecars; is the directory shared by all of them?", path)};
}

}  // namespace lzy
