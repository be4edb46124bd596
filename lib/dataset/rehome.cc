#include "dataset/rehome.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "dataset/lock.h"
#include "names/lookup.h"
#include "names/neighbours.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// Invariant: no sidecar that belongs to a file is overwritten or removed, whatever breaks off. A crash between two
// renames leaves sidecars under wrong names, or one under a temporary name. Readers find those by their stamps, and
// the next Rehome goes on.
using Clock = std::chrono::steady_clock;

// The sidecar at `path` and where it belongs.
struct Claim {
  bool there = false;
  std::string home;  // empty: it was made for no file that is in the directory
};

// The file that a sidecar at `path` is for by its name.
Result<FileStat> StatNamesake(FileSystem& fs, const std::string& path) {
  const auto data = DataPathOf(path);
  return data ? fs.Stat(*data, /*follow=*/false) : Result<FileStat>(Code::kNotFound, "");
}

// The file of the same name is asked first, because it needs no look at the directory.
Result<Claim> ClaimOf(FileSystem& fs, const std::string& directory, const std::string& path) {
  Claim claim;
  const auto sidecar = PeekSidecar(fs, path);
  claim.there = sidecar.ok() || sidecar.status().code() != Code::kNotFound;
  if (!sidecar.ok()) return claim;
  // Edited or linked, the file is still that of its name.
  const auto namesake = StatNamesake(fs, path);
  if (namesake.ok() && IsSameFile(*namesake, sidecar->stamp)) {
    claim.home = path;
  } else if (auto home = Directory(fs, directory).HomeOf(BaseNameOf(path))) {
    LZY_ASSIGN_OR_RETURN(claim.home, SidecarPath(JoinPath(directory, *home)));
  }
  return claim;
}

// Who moves sidecars in a directory holds the lock of a file there, so that two who do so at once do not undo each
// other's work half way. It is there only meanwhile.
class MoveLock {
 public:
  static std::string PathIn(const std::string& directory) {
    return JoinPath(directory, std::string(kTemporaryPrefix) + "lock");
  }
  static Result<MoveLock> Take(FileSystem& fs, const std::string& directory, Clock::time_point deadline) {
    const std::string path = PathIn(directory);
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
      LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kCreate, /*follow=*/false, 0666));
      const Status locked = file->Lock();
      if (locked.ok()) {
        // Its last holder may have removed it.
        LZY_ASSIGN_OR_RETURN(const FileStat held, file->Stat());
        auto named = fs.Stat(path, /*follow=*/false);
        if (named.ok() && named->inode == held.inode) return MoveLock(fs, std::move(file));
      } else if (locked.code() != Code::kBusy) {
        return locked;
      }
      if (Clock::now() >= deadline) {
        return {Code::kBusy, fmt::format("{}: another process is moving sidecars to their renamed files", directory)};
      }
    }
  }
  MoveLock(MoveLock&&) = default;
  ~MoveLock() {
    if (file_) (void)fs_.Remove(file_->path());  // before the lock goes, so that it is nobody else's yet
  }

 private:
  MoveLock(FileSystem& fs, std::unique_ptr<File> file) : fs_(fs), file_(std::move(file)) {}
  FileSystem& fs_;
  std::unique_ptr<File> file_;
};

// Whether somebody is about to write the file for which `sidecar`, at `path`, was made: it holds nothing but an
// intent, and that file is there. (One of another inode is another file: the first was deleted after a crash.)
bool AwaitsAWriter(FileSystem& fs, const Sidecar& sidecar, const std::string& path) {
  if (sidecar.committed() || !sidecar.intent()) return false;
  const auto file = StatNamesake(fs, path);
  const Stamp& stamp = sidecar.contents().superblock.stamp;
  return stamp.inode == 0 || (file.ok() && MayBe(*file, stamp));
}

// Moves a sidecar to the name `to`, where there may be one that is of no file any more. Under its lock, that one is
// overwritten, set aside, or left, as `occupants` says. False if it has to stay, or somebody is about to write under that
// name. One that cannot be read stays, too: only ruins are overwritten whatever `occupants` says.
Result<bool> MoveInto(FileSystem& fs, const std::string& from, const std::string& to, Occupants occupants,
                      Clock::time_point deadline) {
  // One that was set aside gets its name back from an older one of the same file. That of a copy was about to get it.
  const auto data = DataPathOf(to);
  const bool is_of_copy = data && from == CopySidecarPath(*data);
  const auto comes = BaseNameOf(from).starts_with(kTemporaryPrefix) ? PeekSidecar(fs, from) : Result<Peek>(Code::kNotFound, from);
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    LZY_ASSIGN_OR_RETURN(const bool moved, fs.RenameIfAbsent(from, to));
    if (moved) return true;
    auto occupant = LockSidecar(fs, to, nullptr, nullptr, 0);
    const Status state = occupant.status();
    if (state.code() == Code::kBusy || state.code() == Code::kNotFound) {
      if (Clock::now() >= deadline) return state;
      continue;
    }
    if (occupant.ok() && AwaitsAWriter(fs, **occupant, to)) return false;
    const auto peek = PeekSidecar(fs, to);
    const bool knows = (occupant.ok() && (*occupant)->committed()) || (peek.ok() && peek->committed);
    const bool older = comes.ok() && peek.ok() && comes->uuid == peek->uuid && comes->rank == peek->rank && comes->generation >= peek->generation;
    const bool comes_back = older || (comes.ok() && is_of_copy);
    if (knows && occupants == Occupants::kYield && !comes_back) {
      LZY_RETURN_IF_ERROR(fs.Rename(to, TemporarySidecarPath(to)));
      continue;
    }
    const bool may_go = comes_back || !knows;
    const bool is_ruins = state.ok() || IsRuined(state) || state.code() == Code::kCorrupt;
    if (occupants != Occupants::kGo && !(may_go && is_ruins)) return false;
    LZY_RETURN_IF_ERROR(fs.Rename(from, to));
    return true;
  }
}

// The index of objects goes along with its sidecar. Of a cycle, one is replaced: the next commit makes it again.
void MoveIndex(FileSystem& fs, const std::string& from, const std::string& to) {
  const auto old_owner = DataPathOf(from), owner = DataPathOf(to);
  if (old_owner && owner) (void)fs.Rename(IndexPath(*old_owner), IndexPath(*owner));  // mostly there is none
}

// Sidecars on their way: the one at each name goes to the next, the last one to the first if it is a cycle (files were
// swapped), else to a name that is free or nobody's (they were rotated, a to b, b to c).
struct Chain {
  std::vector<std::string> names;
  bool cycle = false;
  bool empty() const { return names.size() < 2; }
};

// Where the sidecar `own` has to go, and whatever sits at its new place, and so on. No sidecar that belongs to a file
// is overwritten.
Result<Chain> ChainFrom(FileSystem& fs, const std::string& directory, const std::string& own) {
  Chain chain{{own}, false};
  for (;;) {
    LZY_ASSIGN_OR_RETURN(const Claim claim, ClaimOf(fs, directory, chain.names.back()));
    if (!claim.there || claim.home.empty()) return chain;        // the end: free, or nobody's
    if (claim.home == chain.names.back()) return Chain();        // at home already: what wants to go there has to stay
    chain.cycle = claim.home == chain.names.front();
    if (chain.cycle) return chain;
    if (std::ranges::count(chain.names, claim.home) != 0) return Chain();
    chain.names.push_back(claim.home);
  }
}

// What has to move for the name `own` to mean the sidecar of `data`: its present occupant away, then its own one here.
// `sure` when that was seen of the one sidecar, and not told from a look at all of the directory, in which something
// that is just being renamed may not show at all.
struct Moves {
  Chain chain;
  bool sure = false;
  Occupants occupants = Occupants::kStay;  // at the end of the chain
};

// A member that is lost gets the sidecar that was made for it, wherever a rename of its set left that one. The sidecar
// that has its name goes to its own file. If that file is lost, too, the two change places.
Result<Moves> MovesForLost(FileSystem& fs, const std::string& directory, const std::string& own, const SetMember& lost) {
  const auto peek = PeekSidecar(fs, own);
  if (peek.ok() && peek->committed && peek->kind == DatasetKind::kSet && peek->uuid == lost.set && peek->rank == lost.rank) return Moves{{}, true};
  // If nothing has the name, the sidecar may have been set aside; else a restore makes a new one. To look at temporary names
  // only spares looking at all sidecars for each lost member.
  const bool free = !fs.Stat(own, /*follow=*/false).ok();
  const auto path = FindSidecarOfMember(fs, directory, lost.set, lost.rank, /*temporary_only=*/free);
  if (!path) return Moves{{}, true};
  if (free) return Moves{{{*path, own}}};
  LZY_ASSIGN_OR_RETURN(const Claim occupant, ClaimOf(fs, directory, own));
  if (occupant.home.empty() || occupant.home == own) return Moves{{{own, *path}, true}};
  LZY_ASSIGN_OR_RETURN(Chain chain, ChainFrom(fs, directory, own));
  if (chain.empty() || chain.names.back() != *path) return Moves{{}, true};
  chain.cycle = true;
  return Moves{std::move(chain)};
}

// What is under the name of a file that is gone is its sidecar, unless it was exchanged for that of another file.
Result<Moves> MovesForGone(FileSystem& fs, const std::string& directory, const std::string& data, const std::string& own) {
  const auto found = FindSidecar(fs, data);
  if (!found.ok() || *found == own) return Moves{{}, true};
  LZY_ASSIGN_OR_RETURN(Chain chain, ChainFrom(fs, directory, own));
  if (chain.empty() || chain.names.back() != *found) return Moves{{}, true};
  chain.cycle = true;
  return Moves{std::move(chain)};
}

// The sidecar of `data` is under another name, and what has the name `own` is of no file. A file that gives up its sidecar
// gets its own in turn, where that is known. If the sidecar in the way records the name of the one that comes, the two were
// exchanged.
Chain ChainTo(FileSystem& fs, const std::string& directory, const std::string& data, const std::string& own) {
  Chain chain{{own}, false};
  for (std::string file = data;;) {
    const auto found = FindSidecar(fs, file);
    const std::string from = found.ok() ? JoinPath(directory, BaseNameOf(*found)) : own;
    if (std::ranges::count(chain.names, from) != 0) break;
    chain.names.insert(chain.names.begin(), from);
    const auto namesake = StatNamesake(fs, from);
    if (!namesake.ok() || namesake->type != FileStat::Type::kRegular) break;
    file = *DataPathOf(from);
  }
  if (chain.empty()) return chain;
  const auto occupant = PeekSidecar(fs, own);
  const auto first = DataPathOf(chain.names.front());
  const bool exchanged = occupant.ok() && occupant->committed && occupant->kind == DatasetKind::kShared && first &&
                         occupant->name == BaseNameOf(*first);
  if (exchanged) {
    std::ranges::rotate(chain.names, std::prev(chain.names.end()));
    chain.cycle = true;
  }
  return chain;
}

Result<Moves> NextMoves(FileSystem& fs, const std::string& directory, const std::string& data, const std::string& own,
                        const RehomeOptions& options) {
  if (options.lost) return MovesForLost(fs, directory, own, *options.lost);
  if (!fs.Stat(data).ok()) return MovesForGone(fs, directory, data, own);
  LZY_ASSIGN_OR_RETURN(const Claim occupant, ClaimOf(fs, directory, own));
  if (occupant.home == own) return Moves{{}, true};
  if (!occupant.home.empty()) {
    LZY_ASSIGN_OR_RETURN(Chain chain, ChainFrom(fs, directory, own));
    return Moves{std::move(chain), false, options.occupants};
  }
  return Moves{ChainTo(fs, directory, data, own), false, options.occupants};
}

// From the free end of the chain to its beginning, so each rename goes to a name that is free by then. Of a cycle, the
// last sidecar steps aside first, and takes the place that is left. False when something stood in the way.
Result<bool> Move(FileSystem& fs, const Chain& chain, Occupants occupants, Clock::time_point deadline) {
  const std::vector<std::string>& names = chain.names;
  const std::string aside = TemporarySidecarPath(names.back());
  if (chain.cycle) LZY_RETURN_IF_ERROR(fs.Rename(names.back(), aside));
  Result<bool> moved = true;
  std::size_t hole = names.size() - 1;
  for (; hole > 0; --hole) {
    moved = MoveInto(fs, names[hole - 1], names[hole], occupants, deadline);
    if (!moved.ok() || !*moved) break;
    MoveIndex(fs, names[hole - 1], names[hole]);
  }
  if (chain.cycle) LZY_RETURN_IF_ERROR(fs.Rename(aside, names[hole]));
  // Sidecars of a set may go from one directory to another.
  std::set<std::string> directories;
  for (const std::string& name : names) directories.insert(DirectoryOf(name));
  for (const std::string& directory : directories) {
    LZY_RETURN_IF_ERROR(fs.SyncDirectory(directory));
    Neighbours::Forget(fs, directory);
  }
  return moved;
}

// The sidecar of `set` at `path`, if there is one.
std::optional<Peek> PeekOfSet(FileSystem& fs, const std::string& path, const Uuid& set) {
  const auto peek = PeekSidecar(fs, path);
  const bool is_of_it = peek.ok() && peek->committed && peek->kind == DatasetKind::kSet && peek->uuid == set;
  return is_of_it ? std::optional(*peek) : std::nullopt;
}

// For each sidecar of the set under the name of another member: its name, and the one that it has to get. If several are of one
// member, the newest one.
std::map<std::string, std::string> MisplacedIn(FileSystem& fs, const std::map<std::uint32_t, std::string>& names, const Uuid& set) {
  std::map<std::uint32_t, std::pair<std::uint64_t, std::string>> newest;  // by rank: generation, and where it is
  std::set<std::uint32_t> at_home;
  for (const auto& [rank, name] : names) {
    const auto peek = PeekOfSet(fs, name, set);
    if (!peek) continue;
    if (peek->rank == rank) at_home.insert(rank);
    if (peek->rank == rank || !names.contains(peek->rank)) continue;
    const auto [at, fresh] = newest.try_emplace(peek->rank, peek->generation, name);
    if (!fresh && at->second.first < peek->generation) at->second = {peek->generation, name};
  }
  std::map<std::string, std::string> next;
  for (const auto& [rank, where] : newest) {
    if (!at_home.contains(rank)) next.emplace(where.second, names.at(rank));
  }
  return next;
}

// Each name has at most one sidecar that goes to it, so all are parts of chains and cycles.
std::vector<Chain> ChainsOf(std::map<std::string, std::string> next) {
  std::set<std::string> targets;
  for (const auto& [from, to] : next) targets.insert(to);
  std::vector<Chain> chains;
  const auto follow = [&](const std::string& first) {
    Chain chain{{first}, false};
    for (auto at = next.find(first); at != next.end(); at = next.find(chain.names.back())) {
      chain.cycle = at->second == first;
      if (!chain.cycle) chain.names.push_back(at->second);
      next.erase(at);
      if (chain.cycle) break;
    }
    chains.push_back(std::move(chain));
  };
  std::vector<std::string> begins;
  for (const auto& [from, to] : next) {
    if (!targets.contains(from)) begins.push_back(from);
  }
  for (const std::string& begin : begins) follow(begin);
  while (!next.empty()) follow(std::string(next.begin()->first));
  return chains;
}

}  // namespace

// A look without the lock comes first. If there is something to move, it is looked at again under the lock.
Result<std::string> Rehome(FileSystem& fs, const std::string& data_path, const RehomeOptions& options) {
  const auto deadline = Clock::now() + std::chrono::seconds(options.timeout_seconds);
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(real));
  const std::string directory = DirectoryOf(real);
  const auto where_it_is = [&]() -> Result<std::string> {
    auto found = FindSidecar(fs, real);
    return found.ok() ? *found : own;
  };
  for (;;) {
    // Most often there is nothing to do, and nobody else at it: then no lock is taken.
    const auto somebody_moves = [&] { return fs.Stat(MoveLock::PathIn(directory), /*follow=*/false).ok(); };
    const bool moving = somebody_moves();
    LZY_ASSIGN_OR_RETURN(Moves next, NextMoves(fs, directory, real, own, options));
    if (next.chain.empty()) {
      const bool absent = !fs.Stat(own, /*follow=*/false).ok();
      if (next.sure || (absent && !moving && !somebody_moves())) return own;
    }
    const auto lock = MoveLock::Take(fs, directory, deadline);
    // A leftover that cannot be opened keeps nobody from what needs no move.
    if (!lock.ok() && lock.status().code() != Code::kBusy && next.chain.empty()) return own;
    if (!lock.ok()) return lock.status();
    LZY_ASSIGN_OR_RETURN(next, NextMoves(fs, directory, real, own, options));
    if (next.chain.empty()) return own;
    auto moved = Move(fs, next.chain, next.occupants, deadline);
    // What is gone was taken by somebody who holds no lock here, e.g. a program that deletes its files: look again.
    if (moved.status().code() == Code::kNotFound && Clock::now() < deadline) continue;
    if (!moved.ok()) return moved.status();
    if (!*moved) return options.occupants == Occupants::kGo ? own : where_it_is();
  }
}

// As Rehome: looked at again under the locks of all directories, which are taken in the order of their names.
bool RehomeMembers(FileSystem& fs, const std::map<std::uint32_t, std::string>& members, const Uuid& set, std::uint32_t timeout_seconds) {
  const auto deadline = Clock::now() + std::chrono::seconds(timeout_seconds);
  std::map<std::uint32_t, std::string> names;
  for (const auto& [rank, path] : members) {
    const auto real = fs.RealPath(path);
    const auto own = real.ok() ? SidecarPath(*real) : Result<std::string>(real.status());
    if (own.ok()) names.emplace(rank, *own);
  }
  std::set<std::string> directories;
  for (const auto& [from, to] : MisplacedIn(fs, names, set)) directories.insert({DirectoryOf(from), DirectoryOf(to)});
  std::vector<MoveLock> locks;
  for (const std::string& directory : directories) {
    auto lock = MoveLock::Take(fs, directory, deadline);
    if (!lock.ok()) return false;
    locks.push_back(std::move(lock).value());
  }
  bool any = false;
  for (const Chain& chain : locks.empty() ? std::vector<Chain>() : ChainsOf(MisplacedIn(fs, names, set))) {
    const auto moved = Move(fs, chain, Occupants::kYield, deadline);
    any = any || (moved.ok() && *moved);
  }
  return any;
}

}  // namespace lzy
