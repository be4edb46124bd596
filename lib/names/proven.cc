#include "names/proven.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "names/lookup.h"
#include "names/membership.h"
#include "names/peek.h"
#include "names/reach.h"
#include "names/set_names.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

bool IsUnchanged(const FileStat& now, const FileStat& then) {
  return now.inode == then.inode && now.size == then.size && now.mtime_ns == then.mtime_ns && now.ctime_ns == then.ctime_ns;
}

// The sidecars of files that were proven by content.
class ProvenOwners {
 public:
  void Remember(FileSystem& fs, const std::string& directory, const std::string& name, const std::string& sidecar) {
    const auto file = fs.Stat(JoinPath(directory, name), /*follow=*/false);
    const auto made = fs.Stat(JoinPath(directory, sidecar), /*follow=*/false);
    if (!file.ok() || !made.ok()) return;
    const std::lock_guard lock(mutex_);
    owners_[RealDirectory(fs, directory)][name] = {sidecar, made->inode, *file};
    any_ = true;
  }
  std::optional<std::string> SidecarOf(FileSystem& fs, const std::string& directory, const std::string& name) {
    return Find(fs, directory, [&](const auto& entry) { return entry.first == name; },
                [](const auto& entry) { return entry.second.sidecar; });
  }
  std::optional<std::string> HomeOf(FileSystem& fs, const std::string& directory, const std::string& sidecar) {
    return Find(fs, directory, [&](const auto& entry) { return entry.second.sidecar == sidecar; },
                [](const auto& entry) { return entry.first; });
  }
  void Rename(FileSystem& fs, const std::string& directory, const std::map<std::string, std::string>& names) {
    if (!any_) return;
    const std::lock_guard lock(mutex_);
    const auto known = owners_.find(RealDirectory(fs, directory));
    if (known == owners_.end()) return;
    for (auto& [name, proof] : known->second) {
      if (const auto renamed = names.find(proof.sidecar); renamed != names.end()) proof.sidecar = renamed->second;
    }
  }
  void RememberUser(const LeftBare& user) {
    const std::lock_guard lock(mutex_);
    users_.try_emplace(user.path, user);
  }
  std::map<std::string, LeftBare> Users(bool take) {
    const std::lock_guard lock(mutex_);
    return take ? std::exchange(users_, {}) : users_;
  }

 private:
  struct Proof {
    std::string sidecar;
    std::uint64_t inode = 0;  // of the sidecar
    FileStat file;
  };
  // An entry is valid until the file changes or the sidecar is renamed.
  template <class Is, class Answer>
  std::optional<std::string> Find(FileSystem& fs, const std::string& directory, const Is& is, const Answer& answer) {
    if (!any_) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto known = owners_.find(RealDirectory(fs, directory));
    if (known == owners_.end()) return std::nullopt;
    const auto at = std::ranges::find_if(known->second, is);
    if (at == known->second.end()) return std::nullopt;
    const auto& [name, proof] = *at;
    const auto file = fs.Stat(JoinPath(directory, name), /*follow=*/false);
    const auto sidecar = fs.Stat(JoinPath(directory, proof.sidecar), /*follow=*/false);
    if (!file.ok() || !sidecar.ok() || sidecar->inode != proof.inode || !IsUnchanged(*file, proof.file)) return std::nullopt;
    return answer(*at);
  }

  std::atomic<bool> any_ = false;
  std::mutex mutex_;
  std::map<std::string, std::map<std::string, Proof>> owners_;  // by directory and file
  std::map<std::string, LeftBare> users_;  // by path: users of sidecars that content gave to others
};

// Whether anything tells of a file: a sidecar of its own, or the set that it is a member of.
bool IsToldOf(FileSystem& fs, const std::string& path) {
  const auto peek = FindAndPeek(fs, path);
  if (!peek.ok()) return peek.status().code() != Code::kNotFound;
  return peek->kind == DatasetKind::kShared || PatternFromTail(path, peek->name, peek->rank).has_value();
}

}  // namespace

std::optional<std::string> ProvenSidecar(FileSystem& fs, const std::string& directory, const std::string& name) {
  return fs.Memo<ProvenOwners>().SidecarOf(fs, directory, name);
}

std::optional<std::string> ProvenHome(FileSystem& fs, const std::string& directory, const std::string& sidecar) {
  return fs.Memo<ProvenOwners>().HomeOf(fs, directory, sidecar);
}

void RememberProven(FileSystem& fs, const std::string& directory, const std::string& name, const std::string& sidecar) {
  fs.Memo<ProvenOwners>().Remember(fs, directory, name, sidecar);
}

void RenameProven(FileSystem& fs, const std::string& directory, const std::map<std::string, std::string>& names) {
  fs.Memo<ProvenOwners>().Rename(fs, directory, names);
}

void RememberLeftBare(FileSystem& fs, const LeftBare& file) {
  fs.Memo<ProvenOwners>().RememberUser(file);
}

namespace {

// A new sidecar, a record of a set, or a set that has the file as a member tells of it.
std::vector<LeftBare> LeftBareOf(FileSystem& fs, bool take) {
  std::vector<LeftBare> bare;
  for (auto& [path, user] : fs.Memo<ProvenOwners>().Users(take)) {
    const auto own = SidecarPath(path);
    const bool has_own = own.ok() && *own != user.sidecar && fs.Stat(*own, /*follow=*/false).ok();
    if (!has_own && fs.Stat(path, /*follow=*/false).ok() && !IsToldOf(fs, path) && !IsClaimedByASet(fs, path)) {
      bare.push_back(std::move(user));
    }
  }
  return bare;
}

}  // namespace

std::vector<LeftBare> FindLeftBare(FileSystem& fs) {
  return LeftBareOf(fs, /*take=*/false);
}

std::vector<LeftBare> TakeLeftBare(FileSystem& fs) {
  return LeftBareOf(fs, /*take=*/true);
}

}  // namespace lzy
