#include "dataset/rehome.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "dataset/lock.h"
#include "names/lookup.h"
#include "names/neighbours.h"
#include "names/proven.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// Invariant: no sidecar that belongs to a file is overwritten or removed, whatever operation is interrupted. After a crash
// between two renames, sidecars have wrong or temporary names. Readers find them by their stamps, and the next Rehome
// continues.
using Clock = std::chrono::steady_clock;

// A sidecar, and the name where it belongs.
struct Claim {
  bool there = false;
  std::string home;  // empty: its file is not in the directory
};

// Stats the file whose sidecar has the name `path`.
Result<FileStat> StatNamesake(FileSystem& fs, const std::string& path) {
  const auto data = DataPathOf(path);
  return data ? fs.Stat(*data, /*follow=*/false) : Result<FileStat>(Code::kNotFound, "");
}

// Compares the file of the same name first, because that needs no look at the directory.
Result<Claim> ClaimOf(FileSystem& fs, const std::string& directory, const std::string& path) {
  Claim claim;
  const auto sidecar = PeekSidecar(fs, path);
  claim.there = sidecar.ok() || sidecar.status().code() != Code::kNotFound;
  if (!sidecar.ok()) return claim;
  // An edited or linked file is still the file of its name.
  const auto namesake = StatNamesake(fs, path);
  if (namesake.ok() && IsSameFile(*namesake, sidecar->stamp)) {
    claim.home = path;
  } else if (auto home = Directory(fs, directory).HomeOf(BaseNameOf(path))) {
    LZY_ASSIGN_OR_RETURN(claim.home, SidecarPath(JoinPath(directory, *home)));
  }
  return claim;
}

// A lock on a temporary file in a directory. A process that renames sidecars holds it, so that two processes do not undo
// each other's work halfway. The file exists only while the lock is held.
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
        // The previous holder may have removed the file.
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
    if (file_) (void)fs_.Remove(file_->path());  // before the lock ends, while no other process can hold it
  }

 private:
  MoveLock(FileSystem& fs, std::unique_ptr<File> file) : fs_(fs), file_(std::move(file)) {}
  FileSystem& fs_;
  std::unique_ptr<File> file_;
};

// True if a process is about to write the file for which `sidecar`, at `path`, was made: the sidecar contains only an
// intent, and the file exists. (A file with another inode is another file; the first one was deleted after a crash.)
bool AwaitsAWriter(FileSystem& fs, const Sidecar& sidecar, const std::string& path) {
  if (sidecar.committed() || !sidecar.intent()) return false;
  const auto file = StatNamesake(fs, path);
  const Stamp& stamp = sidecar.contents().superblock.stamp;
  return stamp.inode == 0 || (file.ok() && MayBe(*file, stamp));
}

// Renames the sidecar `from` to `to`. If `to` is the sidecar of a file that is gone, it is locked and then overwritten, set
// aside or left, as `occupants` says. Returns false if it must stay, or if a process is about to write under that name. A
// sidecar that cannot be read stays, too, unless it is ruined or `occupants` is kGo.
Result<bool> MoveInto(FileSystem& fs, const std::string& from, const std::string& to, Occupants occupants,
                      Clock::time_point deadline) {
  // A sidecar that was set aside gets its name back from an older one of the same file. The sidecar of a copy was about to
  // get it.
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

// Renames the index of objects together with its sidecar. In a cycle, one index is overwritten; the next commit makes it
// again.
void MoveIndex(FileSystem& fs, const std::string& from, const std::string& to) {
  const auto old_owner = DataPathOf(from), owner = DataPathOf(to);
  if (old_owner && owner) (void)fs.Rename(IndexPath(*old_owner), IndexPath(*owner));  // mostly there is none
}

// Sidecars to rename: each gets the next name. In a cycle (files were swapped), the last one gets the first name. Otherwise
// (files were rotated, a to b, b to c) the last name is free, or its sidecar belongs to no file.
struct Chain {
  std::vector<std::string> names;
  bool cycle = false;
  bool empty() const { return names.size() < 2; }
};

// Follows the sidecar `own` to its place, the sidecar at that place to its own place, and so on. Empty if a sidecar that
// belongs to a file would be overwritten.
Result<Chain> ChainFrom(FileSystem& fs, const std::string& directory, const std::string& own) {
  Chain chain{{own}, false};
  for (;;) {
    LZY_ASSIGN_OR_RETURN(const Claim claim, ClaimOf(fs, directory, chain.names.back()));
    if (!claim.there || claim.home.empty()) return chain;        // the end: the name is free, or its sidecar belongs to no file
    if (claim.home == chain.names.back()) return Chain();        // this sidecar belongs here, so the one before it must stay
    chain.cycle = claim.home == chain.names.front();
    if (chain.cycle) return chain;
    if (std::ranges::count(chain.names, claim.home) != 0) return Chain();
    chain.names.push_back(claim.home);
  }
}

// The renames after which `own` is the sidecar of `data`: its present occupant moves away, then the sidecar of `data` comes.
// `sure`: the sidecars themselves were examined. If false, the answer comes from a look at the directory, which may not show
// a file that is being renamed at this moment.
struct Moves {
  Chain chain;
  bool sure = false;
  Occupants occupants = Occupants::kStay;  // what to do with the last sidecar of the chain
};

// A lost member gets its sidecar, under whatever name a rename of its set left it. The sidecar that has the name goes to its
// own file. If it belongs to no other file, the two sidecars change places.
Result<Moves> MovesForLost(FileSystem& fs, const std::string& directory, const std::string& own, const SetMember& lost) {
  const auto peek = PeekSidecar(fs, own);
  if (peek.ok() && peek->committed && peek->kind == DatasetKind::kSet && peek->uuid == lost.set && peek->rank == lost.rank) return Moves{{}, true};
  // If nothing has the name, the sidecar may have been set aside. Otherwise a restore makes a new one. Looking only at
  // temporary names saves a look at all sidecars for each lost member.
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

// A file that is gone owns the sidecar of its name, unless that was exchanged for the sidecar of another file.
Result<Moves> MovesForGone(FileSystem& fs, const std::string& directory, const std::string& data, const std::string& own) {
  const auto found = FindSidecar(fs, data);
  if (!found.ok() || *found == own) return Moves{{}, true};
  LZY_ASSIGN_OR_RETURN(Chain chain, ChainFrom(fs, directory, own));
  if (chain.empty() || chain.names.back() != *found) return Moves{{}, true};
  chain.cycle = true;
  return Moves{std::move(chain)};
}

// The sidecar of `data` has another name, and the sidecar at `own` belongs to no file. A file that gives up its sidecar gets
// its own in turn, if that is known. If the sidecar at `own` records the name of the sidecar that comes, the two were
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

// Locks the sidecars that will get another name, because a process that has locked one of them may be judging a file by it, or
// committing into it. nullopt: a sidecar is busy. A sidecar that cannot be locked for another reason, for example because it is
// ruined, is renamed nevertheless.
using Locked = std::vector<std::unique_ptr<Sidecar>>;
std::optional<Locked> LockAll(FileSystem& fs, const Chain& chain) {
  Locked locked;
  const std::size_t moving = chain.names.size() - (chain.cycle ? 0 : 1);
  for (std::size_t i = 0; i < moving; ++i) {
    auto one = LockSidecar(fs, chain.names[i], nullptr, nullptr, 0);
    if (one.status().code() == Code::kBusy) return std::nullopt;
    if (one.ok()) locked.push_back(std::move(one).value());
  }
  return locked;
}

// Renames from the free end of the chain to its beginning, so each new name is free by then. In a cycle, the last sidecar
// first gets a temporary name, and takes the free name at the end. Returns false if a sidecar in the way must stay. kNotFound: what
// is there changed; look again.
Result<bool> Move(FileSystem& fs, const Chain& chain, Occupants occupants, Clock::time_point deadline) {
  const std::vector<std::string>& names = chain.names;
  const std::optional<Locked> locked = LockAll(fs, chain);
  if (!locked) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (Clock::now() < deadline) return Status(Code::kNotFound, "");
    return Status(Code::kBusy, fmt::format("{}: another process has locked a sidecar that belongs to another file", names.front()));
  }
  const std::string aside = TemporarySidecarPath(names.back());
  if (chain.cycle) LZY_RETURN_IF_ERROR(fs.Rename(names.back(), aside));
  Result<bool> moved = true;
  std::size_t hole = names.size() - 1;
  std::map<std::string, std::map<std::string, std::string>> renamed;  // by directory: old and new names
  const auto note = [&](const std::string& from, const std::string& to) {
    if (DirectoryOf(from) == DirectoryOf(to)) renamed[DirectoryOf(from)][BaseNameOf(from)] = BaseNameOf(to);
  };
  for (; hole > 0; --hole) {
    moved = MoveInto(fs, names[hole - 1], names[hole], occupants, deadline);
    if (!moved.ok() || !*moved) break;
    MoveIndex(fs, names[hole - 1], names[hole]);
    note(names[hole - 1], names[hole]);
  }
  if (chain.cycle) {
    LZY_RETURN_IF_ERROR(fs.Rename(aside, names[hole]));
    note(names.back(), names[hole]);
  }
  for (const auto& [directory, names_there] : renamed) RenameProven(fs, directory, names_there);
  // Sidecars of a set may go from one directory to another.
  std::set<std::string> directories;
  for (const std::string& name : names) directories.insert(DirectoryOf(name));
  for (const std::string& directory : directories) {
    LZY_RETURN_IF_ERROR(fs.SyncDirectory(directory));
    Neighbours::Forget(fs, directory);
  }
  return moved;
}

// The sidecar at `path`, if it is of `set`.
std::optional<Peek> PeekOfSet(FileSystem& fs, const std::string& path, const Uuid& set) {
  const auto peek = PeekSidecar(fs, path);
  const bool is_of_it = peek.ok() && peek->committed && peek->kind == DatasetKind::kSet && peek->uuid == set;
  return is_of_it ? std::optional(*peek) : std::nullopt;
}

// Sidecars of the set with the name of another member: from the present name to the right one. If several sidecars are of
// one member, only the newest.
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

// At most one sidecar goes to each name, so `next` consists of chains and cycles.
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

// The renames that are needed, as seen without the lock. Usually there are none, and no other process renames sidecars: then
// `settled` is true.
struct FirstLook {
  Moves next;
  bool settled = false;
};
Result<FirstLook> LookFirst(FileSystem& fs, const std::string& directory, const std::string& data, const std::string& own,
                            const RehomeOptions& options) {
  const auto somebody_moves = [&] { return fs.Stat(MoveLock::PathIn(directory), /*follow=*/false).ok(); };
  const bool moving = somebody_moves();
  FirstLook look;
  LZY_ASSIGN_OR_RETURN(look.next, NextMoves(fs, directory, data, own, options));
  if (!look.next.chain.empty()) return look;
  const bool absent = !fs.Stat(own, /*follow=*/false).ok();
  look.settled = look.next.sure || (absent && !moving && !somebody_moves());
  return look;
}

}  // namespace

Result<RehomeNeed> LookForRehome(FileSystem& fs, const std::string& data_path, const RehomeOptions& options) {
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(real));
  LZY_ASSIGN_OR_RETURN(const FirstLook look, LookFirst(fs, DirectoryOf(real), real, own, options));
  if (look.settled) return RehomeNeed::kNone;
  return look.next.chain.empty() ? RehomeNeed::kUnsure : RehomeNeed::kSome;
}

// If another process may be moving sidecars, Rehome waits for it.
Result<std::optional<std::string>> HomeIfSettled(FileSystem& fs, const std::string& data_path, const RehomeOptions& options) {
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(real));
  LZY_ASSIGN_OR_RETURN(const FirstLook look, LookFirst(fs, DirectoryOf(real), real, own, options));
  if (look.settled) return std::optional(own);
  if (!look.next.chain.empty()) return std::optional<std::string>();
  LZY_ASSIGN_OR_RETURN(std::string home, Rehome(fs, data_path, options));
  return std::optional(std::move(home));
}

// If there is something to move, looks again under the lock.
Result<std::string> Rehome(FileSystem& fs, const std::string& data_path, const RehomeOptions& options) {
  const auto deadline = Clock::now() + std::chrono::seconds(options.timeout_seconds);
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(real));
  const std::string directory = DirectoryOf(real);
  const auto where_it_is = [&]() -> Result<std::string> {
    auto found = FindSidecar(fs, real);
    return found.ok() ? *found : own;
  };
  std::set<std::vector<std::string>> done;  // chains
  for (;;) {
    LZY_ASSIGN_OR_RETURN(FirstLook first, LookFirst(fs, directory, real, own, options));
    if (first.settled) return own;
    Moves next = std::move(first.next);
    const auto lock = MoveLock::Take(fs, directory, deadline);
    // A leftover lock file that cannot be opened does not matter if nothing must move.
    if (!lock.ok() && lock.status().code() != Code::kBusy && next.chain.empty()) return own;
    if (!lock.ok()) return lock.status();
    LZY_ASSIGN_OR_RETURN(next, NextMoves(fs, directory, real, own, options));
    if (next.chain.empty()) return own;
    // Two files claim one sidecar, each with a reason that the other does not have. Renaming it to and fro ends nowhere.
    if (done.contains(next.chain.names)) return where_it_is();
    auto moved = Move(fs, next.chain, next.occupants, deadline);
    // If a sidecar is gone, a process without this lock took it, for example a program that deletes its files. Look again.
    if (moved.status().code() == Code::kNotFound && Clock::now() < deadline) continue;
    if (!moved.ok()) return moved.status();
    done.insert(next.chain.names);
    if (!*moved) return options.occupants == Occupants::kGo ? own : where_it_is();
  }
}

// As in Rehome, looks again under the locks of all directories. They are taken in the order of their names.
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
