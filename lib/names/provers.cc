#include "names/provers.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "names/content_match.h"
#include "names/lookup.h"
#include "names/neighbours.h"
#include "names/peek.h"
#include "names/proven.h"
#include "names/reach.h"
#include "names/recorded.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// True if the other dataset is a copy of this file, or a link to it, that was protected after this file rotted. That proves
// nothing. By its own sidecar the file is as committed (inode, birth, size, mtime), and it was not changed since before the
// other commit (ctime). But the other dataset may have been committed before, and once more since. So the file must look
// rotten (`looks_rotten`). If it is repaired, the copy still has the content.
template <class Looks, class Holds>
bool WasCopiedSince(const FileStat& file, const Result<Peek>& own, std::int64_t other_commit_ns, const Looks& looks_rotten,
                    const Holds& copy_holds) {
  if (!own.ok() || !own->committed || !MayBe(file, own->stamp) || !HasSizeAndTime(file, own->stamp)) return false;
  return file.ctime_ns < other_commit_ns && own->commit_clock_ns < other_commit_ns && looks_rotten() && copy_holds();
}

// Members of other sets that had the present content of the file, and have no sidecar any more.
std::vector<Prover> RecordedProvers(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& own_path,
                                    const Result<Peek>& own, const std::shared_ptr<const Neighbours>& look, const LeafKey* key) {
  const std::string directory = DirectoryOf(data_path), real = RealDirectory(fs, directory);
  Surroundings& around = fs.Memo<Surroundings>();
  const Uuid set = own.ok() ? own->uuid : Uuid{};
  RootsOf roots(fs, data_path, key);
  std::vector<Prover> provers;
  const auto add = [&](const RecordedMember& record, bool beside) {
    if (!roots.Are(record) || RealPathOf(fs, record.path) == RealPathOf(fs, data_path)) return;
    const auto copy_holds = [&] {
      const auto copy = fs.Stat(record.path, /*follow=*/false);
      return copy.ok() && copy->size == record.size && RootsOf(fs, record.path, key).Are(record);
    };
    const auto looks_rotten = [&] { return MayBeRot(fs, data_path, own_path, key); };
    if (WasCopiedSince(stat, own, record.commit_clock_ns, looks_rotten, copy_holds)) return;
    provers.push_back({.sidecar = record.sidecar, .owner = record.path, .beside = beside, .named = around.IsNamed(fs, DirectoryOf(record.sidecar)),
                       .recorded = true});
  };
  const auto beside = look->HasSetBut(set) ? around.RecordedBeside(fs, directory, look)->OfSize(stat.size, set) : std::vector<RecordedMember>();
  for (const RecordedMember& one : beside) add(one, true);
  for (const RecordedMember& one : around.RecordedInReach(fs, real)->OfSize(stat.size, set)) {
    if (DirectoryOf(one.sidecar) != real) add(one, false);
  }
  return provers;
}

// All sidecars but `own` that were committed for the present content of the file. If there is none, sidecars that record it
// of a member without a sidecar. Does not set Prover::usable.
Result<std::vector<Prover>> ProversOf(FileSystem& fs, const std::string& data_path, const std::string& own, const LeafKey* key) {
  const std::string directory = DirectoryOf(data_path);
  std::vector<Prover> provers;
  const auto stat = fs.Stat(data_path, /*follow=*/false);
  if (!stat.ok() || stat->type != FileStat::Type::kRegular || stat->size == 0) return provers;
  const auto file = fs.Open(data_path, OpenMode::kRead, /*follow=*/false);
  if (!file.ok()) return file.status();
  const std::string real = RealDirectory(fs, directory);
  Surroundings& around = fs.Memo<Surroundings>();
  const auto look = Neighbours::For(fs, directory, BaseNameOf(data_path), *stat).look;
  LZY_ASSIGN_OR_RETURN(const auto beside, around.Beside(fs, directory, stat->size, look)->WithFirstBlockOf(**file, stat->size, key));
  LZY_ASSIGN_OR_RETURN(const auto others, around.InReach(fs, stat->size, real)->WithFirstBlockOf(**file, stat->size, key));
  std::vector<Prover> candidates;
  for (const std::string& path : beside) {
    if (BaseNameOf(path) != BaseNameOf(own)) candidates.push_back({.sidecar = path, .owner = OwnerOf(path), .beside = true});
  }
  for (const std::string& path : others) {
    if (DirectoryOf(path) != real) candidates.push_back({.sidecar = path, .owner = OwnerOf(path), .named = around.IsNamed(fs, DirectoryOf(path))});
  }
  const auto peek = own.empty() ? Result<Peek>(Code::kNotFound, own) : PeekSidecar(fs, own);
  for (Prover& one : candidates) {
    LZY_ASSIGN_OR_RETURN(const bool holds, HoldsCommitted(fs, data_path, one.sidecar, key));
    if (!holds) continue;
    const auto other = PeekSidecar(fs, one.sidecar);
    const auto copy_holds = [&] {
      const auto copy = HoldsCommitted(fs, one.owner, one.sidecar, key);
      return copy.ok() && *copy;
    };
    const auto looks_rotten = [&] { return MayBeRot(fs, data_path, own, key); };
    if (!other.ok() || !WasCopiedSince(*stat, peek, other->commit_clock_ns, looks_rotten, copy_holds)) provers.push_back(std::move(one));
  }
  return provers.empty() ? RecordedProvers(fs, data_path, *stat, own, peek, look, key) : provers;
}

// The file that is judged by the sidecar of the prover, for all that stamps tell.
std::optional<std::string> UserOf(FileSystem& fs, const Prover& prover) {
  const std::string directory = DirectoryOf(prover.sidecar);
  const auto user = Directory(fs, directory).UserOf(BaseNameOf(prover.sidecar));
  return user ? std::optional(JoinPath(directory, *user)) : std::nullopt;
}

// True if the sidecar may be used for another file than that of its name. Sidecars of members are not free, because a set is
// protected as a whole, nor is that of a file that was edited in place.
Result<bool> IsFree(FileSystem& fs, const Prover& prover, const std::string& data_path, const LeafKey* key) {
  const auto peek = PeekSidecar(fs, prover.sidecar);
  if (!peek.ok() || peek->kind == DatasetKind::kSet) return false;
  // Sidecars may have been exchanged: it is that of a third file, which is as it was committed.
  if (const auto user = UserOf(fs, prover); user && *user != prover.owner) {
    LZY_ASSIGN_OR_RETURN(const bool holds, HoldsCommitted(fs, *user, prover.sidecar, key));
    if (holds) return false;
  }
  // The file that had its name at the commit goes before a copy of that file.
  const std::string named = JoinPath(DirectoryOf(prover.sidecar), peek->name);
  if (BaseNameOf(named) != BaseNameOf(data_path) && named != prover.owner) {
    LZY_ASSIGN_OR_RETURN(const bool holds, HoldsCommitted(fs, named, prover.sidecar, key));
    if (holds) return false;
  }
  const auto owner = fs.Stat(prover.owner, /*follow=*/false);
  if (!owner.ok() || owner->type != FileStat::Type::kRegular) return true;
  if (MayBe(*owner, peek->stamp)) return false;
  LZY_ASSIGN_OR_RETURN(const bool holds, HoldsCommitted(fs, prover.owner, prover.sidecar, key));
  if (holds || !HasSizeAndTime(*owner, peek->stamp)) return !holds;
  // The owner may be the rotten original, put back from a backup, and the other file a copy of it.
  LZY_ASSIGN_OR_RETURN(const auto others, ProversOf(fs, prover.owner, prover.sidecar, key));
  return !others.empty();
}
}  // namespace

Result<std::optional<Prover>> FindProver(FileSystem& fs, const std::string& data_path, const std::string& own,
                                         const LeafKey* key) {
  LZY_ASSIGN_OR_RETURN(auto provers, ProversOf(fs, data_path, own, key));
  std::optional<Prover> other;
  for (Prover& prover : provers) {
    if (prover.beside && !prover.recorded) {
      const bool is_own = BaseNameOf(prover.owner) == BaseNameOf(data_path);
      LZY_ASSIGN_OR_RETURN(prover.usable, is_own ? Result<bool>(true) : IsFree(fs, prover, data_path, key));
    }
    if (prover.usable) return std::optional(prover);
    if (!other) other = std::move(prover);
  }
  return other;
}
// Goes on with each file that loses its sidecar, because files may have been swapped or rotated.
Result<bool> AdoptByContent(FileSystem& fs, const std::string& data_path, const LeafKey* key) {
  const std::string directory = DirectoryOf(data_path);
  std::set<std::string> asked;
  bool any = false;
  for (std::string path = data_path; asked.insert(path).second;) {
    const auto own = FindSidecar(fs, path);
    if (!own.ok() && own.status().code() != Code::kNotFound) break;
    const auto file = fs.Stat(path, /*follow=*/false);
    const auto peek = own.ok() ? PeekSidecar(fs, *own) : Result<Peek>(own.status());
    if (!file.ok() || (own.ok() && !peek.ok())) break;
    if (peek.ok() && peek->kind == DatasetKind::kSet) break;
    LZY_ASSIGN_OR_RETURN(const auto prover, FindProver(fs, path, own.ok() ? *own : "", key));
    if (!prover || !prover->usable) break;
    if (own.ok()) {
      LZY_ASSIGN_OR_RETURN(const bool right, HoldsCommitted(fs, path, *own, key));
      if (right) break;
    }
    const auto user = UserOf(fs, *prover);
    RememberProven(fs, directory, BaseNameOf(path), BaseNameOf(prover->sidecar));
    if (user && *user != path) RememberLeftBare(fs, {*user, path, prover->sidecar});
    any = true;
    path = prover->owner;
  }
  return any;
}

}  // namespace lzy
