// The owner's look at one member: data, sidecar, spare, parts, in this order. Absence and damage become facts of the
// Summary. Errors are only what keeps anybody from looking: I/O trouble, a lock that is held, a newer format.

#include "dataset/member.h"

#include <fmt/format.h>

#include "base/late_file.h"
#include "dataset/lock.h"
#include "dataset/parts.h"
#include "names/lookup.h"
#include "names/set_names.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// A sidecar may be renamed between finding and opening it. So often it is looked for again.
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

  // A directory, a FIFO or a link has its name. So the file is lost; what is there stays (Mender::MakeWayFor).
  bool IsReplaced() const {
    const auto there = fs_.Stat(path_, /*follow=*/shared_);
    return there.ok() && there->type != FileStat::Type::kRegular;
  }

  // Of a lost member: what has its name is another member's, which locks it.
  bool IsOfAnotherMember(const std::string& sidecar) const {
    if (!write_ || shared_ || view_.data) return false;
    const auto peek = PeekSidecar(fs_, sidecar);
    return peek.ok() && peek->committed && peek->kind == DatasetKind::kSet && PatternFromTail(path_, peek->name) &&
           !PatternFromTail(path_, peek->name, peek->rank);
  }

  // To write, under its lock. Readers take no lock: a sidecar is replaced by a rename, or updated copy by copy.
  Status OpenItsSidecar() {
    auto found = FindSidecar(fs_, path_);
    if (found.ok() && IsOfAnotherMember(*found)) found = Status(Code::kNotFound, path_);
    sidecar_ = found.status();
    // Somebody may give it another name just now.
    for (int again = 0; found.ok(); ++again) {
      s_.sidecar_path = *found;
      sidecar_ = write_ ? LockSidecar(fs_, *found, view_.data.get(), nullptr, context_.options.timeout_seconds,
                                      &view_.held, TakeHeld())
                        : Sidecar::Load(fs_, *found, OpenMode::kRead);
      if (sidecar_.status().code() != Code::kNotFound || again == kLooks) break;
      found = FindSidecar(fs_, path_);
    }
    found_ = found.ok();
    if (!found_ && found.status().code() != Code::kNotFound) return found.status();
    // Whoever had the lock until now may have changed the file.
    if (write_ && view_.data) {
      LZY_ASSIGN_OR_RETURN(s_.stat, view_.data->Stat());
    }
    return Status::Ok();
  }

  std::shared_ptr<File> TakeHeld() {
    auto held = held_locks_ != nullptr ? held_locks_->extract(path_) : HeldLocks::node_type();
    return held ? std::move(held.mapped()) : nullptr;
  }

  // To look at, a spare will do.
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

  // Whether there is a sidecar, and whether it can be used. One that is not keeps its lock (FileView::held), so that
  // nobody replaces it while this rank works on the dataset. Without its seal a sidecar proves nothing, so with a key,
  // ruins count as unsealed.
  Status Judge() {
    if (!stands_in_ && (!found_ || sidecar_.status().code() == Code::kNotFound)) return TellWhyNone();
    Status sound = sidecar_.ok() ? CheckContents((*sidecar_)->contents()) : sidecar_.status();
    // The sidecar of a member of a set has a rank, too. It says what was committed of this file.
    const Superblock* sb = sound.ok() ? &(*sidecar_)->contents().superblock : nullptr;
    const bool is_part = sb != nullptr && shared_ && sb->rank != 0 && sb->kind == DatasetKind::kShared;
    if (is_part) sound = {Code::kCorrupt, "is a part of a file's parity, and not its sidecar"};
    const Status unsealed = sound.ok() && !stands_in_ ? (*sidecar_)->Unseal(context_.options.key) : Status::Ok();
    if (sound.ok() && unsealed.ok()) return Accept();
    if (sound.code() == Code::kIo || sound.code() == Code::kBusy || sound.code() == Code::kNewerFormat) return sound;
    // The other members of a set still know what this one was. Of a shared file nobody does, as long as the device fails.
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

  // Most often there is nothing. Something else under the name should be told.
  Status TellWhyNone() {
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

  // A usable sidecar: what it says becomes part of the facts. A spare takes no room beside the file, so it counts as
  // none.
  Status Accept() {
    view_.sidecar = std::move(sidecar_).value();
    LZY_RETURN_IF_ERROR(TellSidecar(view_, s_));
    s_.prepared = view_.sidecar->prepared_generation();
    if (stands_in_) s_.sidecar_bytes = 0;
    return s_.superblock.parted() ? OpenItsParts() : Status::Ok();
  }

  // The parity of a file with device directories is in parts there, and none of it beside the file.
  Status OpenItsParts() {
    s_.part_base = std::exchange(s_.parity_base, 0);
    s_.part_paths = PartPaths(fs_, view_.sidecar->contents().info.parts, context_.options.device_dirs);
    LZY_ASSIGN_OR_RETURN(view_.parts, OpenParts(fs_, *view_.sidecar, s_.part_paths, /*write=*/false));
    for (std::size_t d = 0; d < s_.part_paths.size(); ++d) {
      s_.parts_there.push_back(view_.parts->part(d) != nullptr);
      s_.part_obstacles.push_back(write_ ? WhyNotMended(fs_, path_, *view_.sidecar, s_.part_paths, d) : std::string());
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
  bool found_ = false;  // where the sidecar is
  Result<std::unique_ptr<Sidecar>> sidecar_{Code::kNotFound, ""};
  bool stands_in_ = false;  // sidecar_ is a spare
};

}  // namespace

Result<std::unique_ptr<File>> OpenData(FileSystem& fs, DatasetKind kind, const std::string& path, bool write) {
  const bool follow = kind == DatasetKind::kShared;
  auto file = OpenRefreshed(fs, path, write ? OpenMode::kReadWrite : OpenMode::kRead, follow);
  // Restoring parity of a read-only file needs no more than reading it; a repair will say what it lacks.
  if (!file.ok() && write && file.status().code() == Code::kIo) return fs.Open(path, OpenMode::kRead, follow);
  return file;
}

Result<Summary> OpenMember(const Context& context, DatasetKind kind, const std::string& path, bool write,
                           FileView& view, HeldLocks* held) {
  return MemberOpener(context, kind, path, write, view, held).Run();
}

Status TellSidecar(const FileView& view, Summary& s) {
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

// The stamp is a part of the superblock, so it travels with that.
void Fill(FileView& view, const Summary& s) {
  static_cast<FileFacts&>(view) = s;
  view.seen = s.present || s.fault != SidecarFault::kMissing;
  view.stamp = s.superblock.stamp;
  view.commit_clock_ns = s.superblock.commit_clock_ns;
  view.opened = {s.superblock.uuid, s.superblock.generation, s.superblock.wall_time_ns};
}

}  // namespace lzy
