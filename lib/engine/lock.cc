// Sidecars under their commit lock, and their making where there is none yet.

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "engine/view.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// A sidecar that says nothing yet, where there is none or only the ruins of one. Built aside and renamed, so that nobody ever sees
// half of it.
Status CreateIfMissing(FileSystem& fs, const std::string& path, File& like, const SidecarContents& contents) {
  auto existing = Sidecar::Load(fs, path, OpenMode::kRead);
  if (existing.ok()) return Status::Ok();
  if (existing.status().code() != Code::kNotFound && existing.status().code() != Code::kUnprotected) return existing.status();
  const std::string temporary = TemporarySidecarPath(path);
  LZY_ASSIGN_OR_RETURN(auto fresh, Sidecar::Create(fs, temporary, contents, like));
  Status written = fresh->WriteAll(contents);
  if (written.ok()) written = fs.Rename(temporary, path);
  if (!written.ok()) {
    (void)fs.Remove(temporary);
    return written;
  }
  return fs.SyncDirectory(DirectoryOf(path));
}

}  // namespace

Result<std::unique_ptr<Sidecar>> LockSidecar(FileSystem& fs, const std::string& path, File* create_for,
                                             const SidecarContents* create_contents, std::uint32_t timeout_seconds,
                                             bool accept_prepared) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_seconds);
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    if (create_for != nullptr) LZY_RETURN_IF_ERROR(CreateIfMissing(fs, path, *create_for, *create_contents));
    LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kReadWrite, /*follow=*/false));
    const Status locked = file->Lock();
    if (locked.ok()) {
      // A commit by rename may have happened between open and lock: the name must still mean this file.
      LZY_ASSIGN_OR_RETURN(const FileStat held, file->Stat());
      auto named = fs.Stat(path, false);
      if (named.ok() && named->inode == held.inode && named->device == held.device) {
        return Sidecar::Load(std::move(file), OpenMode::kReadWrite, accept_prepared);  // read under the lock, so that nothing in it is old
      }
    } else if (locked.code() != Code::kBusy) {
      return locked;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return {Code::kBusy, fmt::format("{}: another process is committing or repairing this dataset", path)};
    }
  }
}

SidecarContents EmptyContents(const Options& options, DatasetKind kind, const std::string& name, std::uint32_t rank) {
  SidecarContents contents;
  Superblock& sb = contents.superblock;
  sb.uuid = NewUuid();
  sb.state = SidecarState::kNeverCommitted;
  sb.kind = kind;
  sb.placement = kind == DatasetKind::kSet ? ParityPlacement::kPerDevice : ParityPlacement::kPooled;
  sb.block_size = options.block_size;
  sb.unit = options.block_size;
  sb.members = 1;
  sb.largest_group = 1;
  sb.rank = rank;
  contents.info.name = name;
  contents.info.stripe_option = options.stripe;
  contents.info.group_option = options.group;
  return contents;
}

}  // namespace lzy
