// Opens one member on its owner: data, sidecar, spare, parts, in this order. A missing or damaged file becomes a fact of the
// Summary. Errors are only what prevents opening at all: I/O errors, a lock that another process holds, a newer format.

#include "dataset/member.h"

#include <fmt/format.h>

#include "base/late_file.h"
#include "dataset/lock.h"
#include "dataset/parts.h"
#include "names/lookup.h"
#include "names/membership.h"
#include "names/set_names.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// How often to look for a sidecar again that was renamed between finding and opening it.
constexpr int kLooks = 5;

// One call of OpenMember.
class MemberOpener {
 public:
  MemberOpener(const Context& context, DatasetKind kind, const std::string& path, bool write, FileView& view, HeldLocks* held)
      : context_(context), kind_(kind), path_(path), write_(write), view_(view), held_locks_(held) {}

  Result<Summary> Run() {
    LZY_RETURN_IF_ERROR(OpenItsData());
    if (write_ && shared_ && view_.data) {
      LZY_ASSIGN_OR_RETURN(s_.recovered, RecoverSidecar(fs_, path_, *view_.data, context_.options));
    }
    LZY_RETURN_IF_ERROR(OpenItsSidecar());
    LZY_RETURN_IF_ERROR(TakeSpare());
    LZY_RETURN_IF_ERROR(Judge());
    return std::move(s_);
  }

 private:
  Status OpenItsData() {
    auto data = OpenData(fs_, kind_, path_, write_);
    if (data.status().code() == Code::kNotFound || (!data.ok() && IsReplaced())) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(view_.data, std::move(data));
    LZY_ASSIGN_OR_RETURN(s_.stat, view_.data->Stat());
    s_.present = true;
    return Status::Ok();
  }

  // True if a directory, a FIFO or a link has the name of the file. Then the file is lost. lzy does not touch what is there
  // (Repairer::MakeWayFor).
  bool IsReplaced() const {
    const auto there = fs_.Stat(path_, /*follow=*/shared_);
    return there.ok() && there->type != FileStat::Type::kRegular;
  }

  // True if the data file is lost and `sidecar`, which has its name, is the sidecar of another member, or of a single file that may
  // have the name of another member now. The owner of that member locks it.
  bool IsOfAnotherMember(const std::string& sidecar) const {
    if (!write_ || shared_ || view_.data) return false;
    const auto peek = PeekSidecar(fs_, sidecar);
    if (peek.ok() && peek->committed && peek->kind == DatasetKind::kShared) return true;
    return peek.ok() && peek->committed && PatternFromTail(path_, peek->name) &&
           !PatternFromTail(path_, peek->name, peek->rank);
  }

  // A single file that was given the name of a member does not make its own sidecar that of the member.
  Result<std::string> FindItsSidecar() const {
    auto found = FindSidecar(fs_, path_);
    if (!found.ok() || shared_) return found;
    auto own = SidecarOfDisplaced(fs_, path_, *found);
    return own ? *own : found;
  }

  // With write_, takes the lock. Readers need none: a sidecar is replaced by a rename, or updated copy by copy.
  Status OpenItsSidecar() {
    auto found = FindItsSidecar();
    if (found.ok() && IsOfAnotherMember(*found)) found = Status(Code::kNotFound, path_);
    sidecar_ = found.status();
    // Another process may rename the sidecar meanwhile.
    for (int again = 0; found.ok(); ++again) {
      s_.sidecar_path = *found;
      sidecar_ = write_ ? LockSidecar(fs_, *found, view_.data.get(), nullptr, context_.options.timeout_seconds,
                                      &view_.held, TakeHeld())
                        : Sidecar::Load(fs_, *found, OpenMode::kRead);
      if (sidecar_.status().code() != Code::kNotFound || again == kLooks) break;
      found = FindItsSidecar();
    }
    found_ = found.ok();
    if (!found_ && found.status().code() != Code::kNotFound) return found.status();
    // The previous holder of the lock may have changed the file.
    if (write_ && view_.data) {
      LZY_ASSIGN_OR_RETURN(s_.stat, view_.data->Stat());
    }
    return Status::Ok();
  }

  std::shared_ptr<File> TakeHeld() {
    auto held = held_locks_ != nullptr ? held_locks_->extract(path_) : HeldLocks::node_type();
    return held ? std::move(held.mapped()) : nullptr;
  }

  // Readers use a spare if the sidecar is lost or outdated.
  Status TakeSpare() {
    if (write_ || !shared_) return Status::Ok();
    const bool outdated = sidecar_.ok() && (*sidecar_)->contents().superblock.parted() &&
                          CheckContents((*sidecar_)->contents()).ok() &&
                          IsOutdated(fs_, path_, **sidecar_, context_.options);
    if (!outdated && !IsLost(sidecar_.status())) return Status::Ok();
    auto spare = FindSpare(fs_, path_, outdated ? WithItsDirectories(context_.options, **sidecar_) : context_.options);
    if (spare.status().code() == Code::kInvalidArgument) return spare.status();
    stands_in_ = spare.ok() && !(outdated && (*spare)->generation() <= (*sidecar_)->generation());
    if (!stands_in_) return Status::Ok();
    if (!found_) {
      LZY_ASSIGN_OR_RETURN(s_.sidecar_path, SidecarPath(path_));
    }
    sidecar_ = std::move(spare);
    return Status::Ok();
  }

  // Decides whether there is a usable sidecar. Keeps the lock of an unusable one (FileView::held), so that no other process
  // replaces it during the operation. With a key, a ruined sidecar counts as unsealed, because without a seal it proves
  // nothing.
  Status Judge() {
    if (!stands_in_ && (!found_ || sidecar_.status().code() == Code::kNotFound)) return FillFaultText();
    Status sound = sidecar_.ok() ? CheckContents((*sidecar_)->contents()) : sidecar_.status();
    // Only in a sidecar of a shared file, a rank other than 0 means a part. The sidecar of a member has a rank, too.
    const Superblock* sb = sound.ok() ? &(*sidecar_)->contents().superblock : nullptr;
    const bool is_part = sb != nullptr && shared_ && sb->rank != 0 && sb->kind == DatasetKind::kShared;
    if (is_part) sound = {Code::kCorrupt, "is a part of a file's parity, and not its sidecar"};
    const Status unsealed = sound.ok() && !stands_in_ ? (*sidecar_)->Unseal(context_.options.key) : Status::Ok();
    if (sound.ok() && unsealed.ok()) return Accept();
    if (sound.code() == Code::kIo || sound.code() == Code::kBusy || sound.code() == Code::kNewerFormat) return sound;
    // The other members of a set know what this sidecar contained. For a shared file, nothing else does while the storage
    // fails.
    const bool unreadable = sound.code() == Code::kUnreadable;
    if (unreadable && shared_) return sound;
    if (!unsealed.ok()) {
      s_.fault = SidecarFault::kUnsealed;
      s_.other_key = unsealed.code() == Code::kInvalidArgument;
      s_.fault_text = unsealed.message();
      if (write_) view_.held = Sidecar::ReleaseFile(std::move(sidecar_).value());
    } else {
      s_.fault = unreadable             ? SidecarFault::kUnreadable
                 : context_.options.key ? SidecarFault::kUnsealed
                                        : SidecarFault::kDestroyed;
      s_.fault_text = sidecar_.ok() ? fmt::format("{}: {}", s_.sidecar_path, sound.message()) : sound.message();
    }
    return Status::Ok();
  }

  // Usually nothing has the name of the sidecar. If something else has it, says so.
  Status FillFaultText() {
    LZY_ASSIGN_OR_RETURN(s_.sidecar_path, SidecarPath(path_));
    const auto there = fs_.Stat(s_.sidecar_path, /*follow=*/false);
    if (!there.ok()) return Status::Ok();
    const std::string real = FollowLink(fs_, path_);
    if (there->type != FileStat::Type::kRegular) {
      s_.fault_text = fmt::format("{}: it is not a regular file, so {} can have no sidecar", s_.sidecar_path, path_);
    } else if (real != path_) {
      s_.fault_text = fmt::format("{}: it is a symbolic link to {}, which is not protected; {} is of a file that had this name before", path_,
                                  real, s_.sidecar_path);
    } else {
      s_.fault_text = fmt::format("{}: it is the sidecar of another file in this directory, not that of {}", s_.sidecar_path, path_);
    }
    return Status::Ok();
  }

  // Takes the facts of a usable sidecar. A spare uses no space beside the file, so its size is 0.
  Status Accept() {
    view_.sidecar = std::move(sidecar_).value();
    LZY_RETURN_IF_ERROR(FillFromSidecar(view_, s_));
    s_.prepared = view_.sidecar->prepared_generation();
    if (stands_in_) s_.sidecar_bytes = 0;
    return s_.superblock.parted() ? OpenItsParts() : Status::Ok();
  }

  // All parity of a file with device directories is in its parts.
  Status OpenItsParts() {
    s_.part_base = std::exchange(s_.parity_base, 0);
    s_.part_paths = PartPaths(fs_, view_.sidecar->contents().info.parts, context_.options.device_dirs);
    LZY_ASSIGN_OR_RETURN(view_.parts, OpenParts(fs_, *view_.sidecar, s_.part_paths, /*write=*/false));
    for (std::size_t d = 0; d < s_.part_paths.size(); ++d) {
      s_.parts_there.push_back(view_.parts->part(d) != nullptr);
      s_.part_obstacles.push_back(write_ ? WhyNotRepaired(fs_, path_, *view_.sidecar, s_.part_paths, d) : std::string());
    }
    LZY_ASSIGN_OR_RETURN(const FileStat all, view_.parts->Stat());
    s_.sidecar_bytes += all.size;
    return Status::Ok();
  }

  const Context& context_;
  FileSystem& fs_ = context_.fs;
  const DatasetKind kind_;
  const bool shared_ = kind_ == DatasetKind::kShared;
  const std::string& path_;
  const bool write_;
  FileView& view_;
  HeldLocks* const held_locks_;
  Summary s_;
  bool found_ = false;  // FindSidecar found a sidecar
  Result<std::unique_ptr<Sidecar>> sidecar_{Code::kNotFound, ""};
  bool stands_in_ = false;  // sidecar_ is a spare
};

}  // namespace

Result<std::unique_ptr<File>> OpenData(FileSystem& fs, DatasetKind kind, const std::string& path, bool write) {
  const bool follow = kind == DatasetKind::kShared;
  auto file = OpenRefreshed(fs, path, write ? OpenMode::kReadWrite : OpenMode::kRead, follow);
  // To restore parity, it is enough to read the file. A repair of data reports what it cannot write.
  if (!file.ok() && write && file.status().code() == Code::kIo) return fs.Open(path, OpenMode::kRead, follow);
  return file;
}

Result<Summary> OpenMember(const Context& context, DatasetKind kind, const std::string& path, bool write,
                           FileView& view, HeldLocks* held) {
  return MemberOpener(context, kind, path, write, view, held).Run();
}

Status FillFromSidecar(const FileView& view, Summary& s) {
  Sidecar& sidecar = *view.sidecar;
  s.fault = SidecarFault::kNone;
  s.fault_text.clear();
  s.superblock = sidecar.contents().superblock;
  s.superblock.copy = 0;
  s.superblock.extents.clear();
  s.info = EncodeInfo(sidecar.contents().info);
  s.written_on = sidecar.contents().info.written_on;
  s.intent = sidecar.intent();
  LZY_ASSIGN_OR_RETURN(const FileStat made, sidecar.file().Stat());
  s.sidecar_bytes = sidecar.file_size();
  s.sidecar_uid = made.uid;
  s.sidecar_gid = made.gid;
  s.parity_base = sidecar.ParityFileOffset(0);
  return Status::Ok();
}

// The stamp travels as a part of the superblock.
void Fill(FileView& view, const Summary& s) {
  static_cast<FileFacts&>(view) = s;
  view.seen = s.present || s.fault != SidecarFault::kMissing;
  view.stamp = s.superblock.stamp;
  view.commit_clock_ns = s.superblock.commit_clock_ns;
  view.opened = {s.superblock.uuid, s.superblock.generation, s.superblock.wall_time_ns};
}

}  // namespace lzy
