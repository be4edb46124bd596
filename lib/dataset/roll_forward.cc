// Decides from summaries which generation of a set counts, alike on every rank, and completes interrupted commits. Only the
// owner of a member writes.

#include "dataset/roll_forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dataset/lock.h"
#include "names/lookup.h"
#include "names/peek.h"
#include "names/set_claim.h"
#include "names/set_names.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// The first of the longest lists. `lists` is not empty.
template <class Lists>
auto MostOf(const Lists& lists) {
  return std::ranges::max_element(lists, {}, [](const auto& one) { return one.second.size(); });
}

// A member of the generation of `newest` that has the dataset root of most such members.
const Summary* SpokesmanOf(const std::map<std::uint32_t, Summary>& members, const Summary& newest) {
  std::map<std::array<std::uint8_t, 16>, std::vector<const Summary*>> by_root;
  for (const auto& [rank, s] : members) {
    const Superblock& sb = s.superblock;
    const bool of_it = s.fault == SidecarFault::kNone && sb.state == SidecarState::kCommitted && sb.rank == rank &&
                       sb.uuid == newest.superblock.uuid && sb.generation == newest.superblock.generation;
    if (of_it) by_root[sb.dataset_root.bytes].push_back(&s);
  }
  return by_root.empty() ? &newest : MostOf(by_root)->second.front();
}

// A hash of what a sidecar records about its group, for comparison.
Hash GroupAccount(const InfoRecord& info) {
  InfoRecord account;
  for (const MemberRecord& one : info.members) {
    account.members.push_back({.rank = one.rank, .size = one.size, .data_root = one.data_root, .parity_size = one.parity_size,
                               .parity_root = one.parity_root, .domain = {}});
  }
  return HashBytes(HashTag::kInfo, 0, EncodeInfo(account));
}

// True if a sidecar is of the generation that counts. An abandoned commit may have had the same number.
bool IsOf(Sidecar& sidecar, const Superblock& newest, std::uint32_t rank, const std::shared_ptr<const LeafKey>& key) {
  const Superblock& sb = sidecar.contents().superblock;
  return CheckContents(sidecar.contents()).ok() && sb.uuid == newest.uuid && sb.generation == newest.generation &&
         sb.rank == rank && sb.dataset_root == newest.dataset_root && sb.wall_time_ns == newest.wall_time_ns &&
         sidecar.Unseal(key).ok();
}

// Loads the sidecar of a member with its prepared metadata. With `write`, uses the file that is already locked. If that
// fails, the file stays in file.held.
Result<std::unique_ptr<Sidecar>> LoadPrepared(FileSystem& fs, FileView& file, const std::string& path, bool write) {
  if (!write) return Sidecar::Load(fs, path, OpenMode::kRead, /*accept_prepared=*/true);
  if (file.sidecar) file.held = Sidecar::ReleaseFile(std::move(file.sidecar));
  if (!file.held) return {Code::kNotFound, path};
  auto sidecar = Sidecar::Load(std::move(file.held), OpenMode::kReadWrite, /*accept_prepared=*/true);
  if (sidecar.ok()) (*sidecar)->MayReplaceFileIn(fs);
  return sidecar;
}

// Copies the intent of the previous generation into the new sidecar. A process that did not see the new one may have set it
// after the new one was prepared. The copy is made before the new sidecar counts, so an intent is set at every moment.
Status CarryIntent(const std::optional<Intent>& intent, Sidecar& to) {
  if (!intent || to.intent()) return Status::Ok();
  return to.SetIntent(*intent);
}

// True if a sidecar records the name that its member has by `pattern`.
bool RecordsItsName(const std::string& pattern, const Summary& s) {
  const auto info = s.fault == SidecarFault::kNone ? DecodeInfo(s.info) : Result<InfoRecord>(Code::kNotFound, "");
  return info.ok() && s.superblock.kind == DatasetKind::kSet && s.superblock.state == SidecarState::kCommitted && s.superblock.rank == s.rank &&
         PatternFromTail(ExpandPattern(pattern, s.rank), info->name, s.rank).has_value();
}

}  // namespace

// Judges by the newest generation of the set that counts. The dataset root of most of its members wins, so one forged or
// rotten sidecar does not decide for all.
void JudgeGenerations(DatasetView& view, std::map<std::uint32_t, Summary>& members,
                      std::set<std::uint32_t>& roll_forward) {
  std::vector<SetClaim> claims;
  std::vector<const Summary*> claimants;
  for (const auto& [rank, s] : members) {
    if (s.fault != SidecarFault::kNone || s.superblock.kind != DatasetKind::kSet) continue;
    if (s.superblock.state != SidecarState::kCommitted) continue;
    const Superblock& sb = s.superblock;
    const bool same_file = s.present && IsSameFile(s.stat, sb.stamp);
    const bool named = RecordsItsName(view.ref.path, s);
    claims.push_back({sb.uuid, sb.rank, sb.members, sb.generation, sb.wall_time_ns, same_file, named, s.present});
    claimants.push_back(&s);
  }
  const auto counts = WhichSetCounts(claims);
  if (!counts) return;
  const Summary* const newest = SpokesmanOf(members, *claimants[*counts]);
  view.committed = true;
  view.superblock = newest->superblock;
  const Uuid uuid = newest->superblock.uuid;
  const std::uint64_t generation = newest->superblock.generation;
  const Hash root = newest->superblock.dataset_root;
  for (auto& [rank, s] : members) {
    if (s.fault != SidecarFault::kNone) continue;
    if (s.superblock.state == SidecarState::kNeverCommitted || s.superblock.kind != DatasetKind::kSet) {
      s.fault = SidecarFault::kMissing;  // it records nothing about a set (yet)
    } else if (s.superblock.uuid != uuid || s.superblock.rank != rank) {
      s.fault = SidecarFault::kForeign;
      s.fault_text = s.superblock.uuid == uuid
                         ? fmt::format("is that of rank {} of this set", s.superblock.rank)
                         : fmt::format("belongs to another set (uuid {}, rank {})", UuidText(s.superblock.uuid), s.superblock.rank);
    } else if (s.superblock.generation != generation || s.superblock.state != SidecarState::kCommitted) {
      if (s.prepared == generation) {
        roll_forward.insert(rank);
      } else {
        s.fault = SidecarFault::kOutdated;
        const Superblock& sb = s.superblock;
        const bool racy = sb.commit_clock_ns == 0 || IsRacy(sb.stamp, sb.commit_clock_ns);
        if (sb.generation < generation && !racy) s.past = sb.stamp;
        s.fault_text = fmt::format("is of generation {}, the set of {}", s.superblock.generation, generation);
      }
    } else if (s.superblock.dataset_root != root) {
      s.fault = SidecarFault::kOutdated;
      s.fault_text = "has another root of the dataset than most members have";
    }
  }
}

// The members of a group record each other's sizes and roots. The most frequent record wins.
Status DropDissenters(std::map<std::uint32_t, Summary>& members) {
  std::map<std::vector<std::uint32_t>, std::map<std::array<std::uint8_t, 16>, std::vector<Summary*>>> accounts;
  for (auto& [rank, s] : members) {
    if (s.fault != SidecarFault::kNone) continue;
    LZY_ASSIGN_OR_RETURN(const InfoRecord info, DecodeInfo(s.info));
    if (info.groups.size() == 1) accounts[info.groups[0]][GroupAccount(info).bytes].push_back(&s);
  }
  for (auto& [group, by_account] : accounts) {
    const auto most = MostOf(by_account)->first;
    for (auto& [account, tellers] : by_account) {
      if (account == most) continue;
      for (Summary* s : tellers) {
        s->fault = SidecarFault::kOutdated;
        s->fault_text = "says something else about its group than most of it";
      }
    }
  }
  return Status::Ok();
}

// A prepared member has one of two forms, tried in this order: a sidecar that is prepared in place, and a complete sidecar
// with a temporary name (docs/format.md §9). In both cases, the previous intent is set in the new one before that counts.
Result<bool> RollForward(const Context& context, FileView& file, Summary& s, const std::string& data_path,
                         const Superblock& newest, bool write) {
  FileSystem& fs = context.fs;
  const std::optional<Intent> before = s.intent;
  std::string path = s.sidecar_path;
  auto sidecar = LoadPrepared(fs, file, path, write);
  if (sidecar.ok() && IsOf(**sidecar, newest, s.rank, context.options.key)) {
    if (write) {
      LZY_RETURN_IF_ERROR(CarryIntent(before, **sidecar));
      LZY_RETURN_IF_ERROR((*sidecar)->CompletePrepared());
    }
  } else {
    if (write && sidecar.ok()) file.held = Sidecar::ReleaseFile(std::move(sidecar).value());
    const std::string fresh = NewSidecarPath(data_path);
    sidecar = Sidecar::Load(fs, fresh, write ? OpenMode::kReadWrite : OpenMode::kRead);
    if (!sidecar.ok() || !IsOf(**sidecar, newest, s.rank, context.options.key)) return false;
    path = fresh;
    if (write) {
      LZY_ASSIGN_OR_RETURN(path, SidecarPath(data_path));
      LZY_RETURN_IF_ERROR(CarryIntent(before, **sidecar));
      LZY_RETURN_IF_ERROR(fs.Rename(fresh, path));
      LZY_RETURN_IF_ERROR(fs.SyncDirectory(DirectoryOf(path)));
      sidecar = LockSidecar(fs, path, file.data.get(), nullptr, context.options.timeout_seconds);
      if (!sidecar.ok()) return sidecar.status();
      LZY_RETURN_IF_ERROR((*sidecar)->Unseal(context.options.key));
      file.held.reset();
    }
  }
  file.sidecar = std::move(sidecar).value();
  LZY_RETURN_IF_ERROR(FillFromSidecar(file, s));
  s.sidecar_path = path;
  s.superblock.state = SidecarState::kCommitted;
  if (!s.intent) s.intent = before;
  s.prepared = 0;
  return true;
}

std::vector<std::uint32_t> UnknownRanks(const std::set<std::uint32_t>& known, std::uint32_t members) {
  constexpr std::size_t kMost = 65536;
  std::vector<std::uint32_t> out;
  for (std::uint32_t rank = 0; rank < members && out.size() < kMost; ++rank) {
    if (!known.contains(rank)) out.push_back(rank);
  }
  return out;
}

}  // namespace lzy
