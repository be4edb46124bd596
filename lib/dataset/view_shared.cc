// Opens a shared file. Rank 0 locks it, and its facts count. The other ranks open the same files and check that they see the
// same sidecar. They do not if the directory is not shared by all nodes.
//
// Rank 0 opens first, so that the others do not read a sidecar that a commit is about to replace. If rank 0 fails, the
// others open nothing.

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "comm/records.h"
#include "dataset/by_servers.h"
#include "dataset/member.h"
#include "dataset/parts.h"
#include "dataset/seen_late.h"
#include "names/lookup.h"
#include "names/proven.h"
#include "names/set_names.h"
#include "sidecar/contents.h"
#include "storage/past_cache.h"

namespace lzy {

namespace {

/// Warns if option device-dirs does not fit a file with parity in `recorded`. This is no error: parity exists for the loss
/// of a directory.
void WarnOfDirectories(const Context& context, const std::vector<std::string>& recorded, std::vector<std::string>& warnings) {
  const std::vector<std::string>& named = context.options.device_dirs;
  if (named.empty() || recorded.empty()) return;
  if (named.size() != recorded.size()) {
    warnings.push_back(fmt::format("device-dirs names {} directories and the parity is in {}: the names are not used", named.size(),
                                   recorded.size()));
    return;
  }
  std::set<std::string> places;
  for (const std::string& directory : named) {
    const auto real = context.fs.RealPath(directory);
    if (!IsDirectory(context.fs, directory)) {
      warnings.push_back(fmt::format("device-dirs: '{}' is not a directory", directory));
    } else if (real.ok() && !places.insert(*real).second) {
      warnings.push_back(fmt::format("device-dirs: '{}' is named twice", directory));
    }
  }
}

bool IsSidecarOf(const Summary& first, const FileView& file) {
  if (!file.sidecar) return false;
  const Superblock& here = file.sidecar->contents().superblock;
  return here.uuid == first.superblock.uuid && here.generation == first.superblock.generation;
}

/// Directories in which waiting for the files of other ranks did not help.
class InVain {
 public:
  bool Has(const std::string& directory) {
    const std::lock_guard lock(mutex_);
    return directories_.contains(directory);
  }
  void Add(const std::string& directory) {
    const std::lock_guard lock(mutex_);
    directories_.insert(directory);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> directories_;
};

/// If rank 0 has a sidecar that this rank does not see, looks for it again past the page cache: no page of this node may
/// have the last commit yet. The caller finds out whether it helped (SeeTheSame). `patiently`: looks for some seconds, else
/// once.
void LookForSidecar(const Context& context, const Summary& first, bool patiently, FileView& file) {
  const bool whole = first.fault == SidecarFault::kNone && first.superblock.state == SidecarState::kCommitted;
  if (!whole || first.superblock.parted() || IsSidecarOf(first, file)) return;
  const std::string directory = DirectoryOf(FollowLink(context.fs, file.data ? file.data->path() : file.path));
  const std::string path = JoinPath(directory, BaseNameOf(first.sidecar_path));
  const auto look_once = [&]() -> Status {
    LZY_ASSIGN_OR_RETURN(auto opened, OpenNewest(context.fs, path, OpenMode::kRead));
    LZY_ASSIGN_OR_RETURN(auto sidecar, Sidecar::Load(std::shared_ptr<File>(ReadPastCache(std::move(opened))), OpenMode::kRead));
    LZY_RETURN_IF_ERROR(CheckContents(sidecar->contents()));
    LZY_RETURN_IF_ERROR(sidecar->Unseal(context.options.key));
    file.sidecar = std::move(sidecar);
    return IsSidecarOf(first, file) ? Status::Ok() : SeesAnotherSidecar(path);
  };
  // If a node has another directory of this name, it waits only for one file of it.
  auto& in_vain = context.fs.Memo<InVain>();
  const bool waits = patiently && !in_vain.Has(directory);
  const Status seen = waits ? LookAgain(context.fs, directory, look_once) : look_once();
  if (patiently && !seen.ok()) in_vain.Add(directory);
}

/// Opens the file. If rank 0 has it open and this rank does not see it yet, looks again.
Status OpenSeenLate(const Context& context, const DatasetRef& ref, FileView& file) {
  LZY_RETURN_IF_ERROR(OpenMember(context, ref.kind, ref.path, false, file).status());
  const std::string directory = DirectoryOf(ref.path);
  auto& in_vain = context.fs.Memo<InVain>();
  if (file.data || in_vain.Has(directory)) return Status::Ok();
  Status opened;
  const Status seen = LookAgain(context.fs, directory, [&] {
    file = FileView();
    opened = OpenMember(context, ref.kind, ref.path, false, file).status();
    return opened.ok() && !file.data ? Status(Code::kNotFound, ref.path) : Status::Ok();
  });
  if (!seen.ok()) in_vain.Add(directory);
  return opened;
}

constexpr int kLooks = 3;  // attempts if ranks see different sidecars

// One attempt of all ranks to open the file. Rank 0 takes the lock, if it does not have it already. The others read
// afterwards.
Status OpenOnAllRanks(const Context& context, const DatasetRef& ref, const OpenRequest& request, int look, FileView& file, Summary& summary) {
  const bool first = context.comm.rank() == 0;
  const bool again = look > 0, locked = again && request.write;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&]() -> Status {
    if (again && !(first && locked)) file = FileView();
    if (!first || locked) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(summary, OpenMember(context, ref.kind, ref.path, request.write, file, request.held));
    if (request.stripes) summary.stripes = StripesOfFile(context.fs, file);
    return Status::Ok();
  }));
  // Rank 0 may know by content which sidecar belongs to the file.
  LZY_RETURN_IF_ERROR(BroadcastRecord(context.comm, summary));
  return AgreeOn(context.comm, [&]() -> Status {
    if (first) return Status::Ok();
    const std::string real = FollowLink(context.fs, ref.path);
    const auto found = FindSidecar(context.fs, ref.path);
    if (summary.present && summary.fault == SidecarFault::kNone && (!found.ok() || BaseNameOf(*found) != BaseNameOf(summary.sidecar_path))) {
      RememberProven(context.fs, DirectoryOf(real), BaseNameOf(real), BaseNameOf(summary.sidecar_path));
    }
    LZY_RETURN_IF_ERROR(summary.present ? OpenSeenLate(context, ref, file) : OpenMember(context, ref.kind, ref.path, false, file).status());
    if (again) LookForSidecar(context, summary, /*patiently=*/look == kLooks - 1, file);
    if (!request.write || file.data == nullptr) return Status::Ok();
    if (auto writable = OpenData(context.fs, ref.kind, ref.path, true); writable.ok())
      file.data = std::move(writable).value();
    return Status::Ok();
  });
}

// True if all ranks have the sidecar of rank 0, or rank 0 has none. They may differ if a commit happens while they open it,
// or if a network file system shows a node an old state for a second or so.
Result<bool> SeeTheSame(Communicator& comm, const FileView& file, const Summary& summary) {
  const bool other = summary.fault == SidecarFault::kNone && !IsSidecarOf(summary, file);
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any, comm.AllReduceMax(other));
  return any == 0;
}

}  // namespace

Result<DatasetView> OpenShared(const Context& context, const DatasetRef& ref, const OpenRequest& request) {
  DatasetView view;
  view.ref = ref;
  Ensemble& ensemble = view.ensembles.emplace_back();
  ensemble.key = context.options.key;
  FileView& file = ensemble.files.emplace_back();
  Summary summary;
  bool same = false;
  for (int look = 0; !same && look < kLooks; ++look) {
    if (look > 1) std::this_thread::sleep_for(std::chrono::milliseconds(50) * (1 << look));
    LZY_RETURN_IF_ERROR(OpenOnAllRanks(context, ref, request, look, file, summary));
    LZY_ASSIGN_OR_RETURN(same, SeeTheSame(context.comm, file, summary));
  }
  Fill(file, summary);
  file.path = ref.path;
  view.recovered = summary.recovered;
  if (view.recovered) view.warnings.push_back(kRecovered);
  if (summary.other_key) return {Code::kInvalidArgument, file.fault_text};
  if (!file.sidecar_usable()) {
    if (!file.fault_text.empty()) view.unusable = {Code::kUnprotected, file.fault_text};
    return view;
  }
  view.superblock = summary.superblock;
  LZY_ASSIGN_OR_RETURN(view.info, DecodeInfo(summary.info));
  view.committed = view.superblock.state == SidecarState::kCommitted && view.superblock.kind == DatasetKind::kShared;
  if (view.superblock.kind == DatasetKind::kSet && view.superblock.state == SidecarState::kCommitted) {
    // A sidecar under the name of its own member is left over from an older set (names/resolve).
    const bool own_name = PatternFromTail(ref.path, view.info.name, view.superblock.rank).has_value();
    view.unusable = {Code::kUnprotected,
                     own_name ? fmt::format("{}: it is left over from an older set {} of {} files, and nothing protects it", ref.path,
                                            view.info.name, view.superblock.members)
                              : fmt::format("{}: it is the sidecar of rank {} of the set {}, not that of {}", file.sidecar_path,
                                            view.superblock.rank, view.info.name, ref.path)};
  }
  if (!view.committed) return view;
  WarnOfDirectories(context, view.info.parts.directories, view.warnings);
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&]() -> Status {
    if (!same) {
      return SeesAnotherSidecar(ref.path);
    }
    for (std::size_t d = 0; file.parts && d < file.part_paths.size(); ++d) {
      if (!summary.parts_there[d] || file.parts->part(d) != nullptr) continue;
      return {Code::kIo, fmt::format("{}: rank 0 sees it, and rank {} does not: all ranks must see all device directories",
                                     file.part_paths[d], context.comm.rank())};
    }
    if (auto layout = LayoutOf(file.sidecar->contents()); layout.ok()) {
      ensemble.layout = std::move(layout).value();
    } else {
      view.committed = false;
      view.unusable = {Code::kUnprotected, layout.status().message()};
    }
    return Status::Ok();
  }));
  return view;
}

}  // namespace lzy
