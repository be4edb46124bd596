#include "copy/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/numbers.h"
#include "base/printable.h"
#include "copy/member.h"
#include "dataset/lock.h"
#include "names/former_names.h"
#include "names/lookup.h"
#include "repair/heal.h"
#include "sidecar/contents.h"
#include "storage/parallel.h"

namespace lzy {

Status MayBeEdited(const std::string& path, const std::string& what) {
  return {Code::kBusy, fmt::format("{}: {} from its last commit: an edit, or damage. So it was not copied. What to do: lzy-verify {}", path,
                                   what, ShellQuote(path))};
}

Result<std::unique_ptr<CopySource>> LocalSource::Open(FileSystem& fs, const Options& options, const std::string& path,
                                                      SourceRules rules, Wait wait) {
  auto source = std::unique_ptr<LocalSource>(new LocalSource(fs, options, path, rules, std::move(wait)));
  LZY_ASSIGN_OR_RETURN(source->file_, fs.Open(path, OpenMode::kRead));
  source->file_->ExpectReading();
  LZY_RETURN_IF_ERROR(source->Settle());
  // A file that the kernel generates while it is read (/proc) has size 0.
  std::uint8_t byte = 0;
  const auto got = source->stat_.size == 0 ? source->file_->ReadAt(0, {&byte, 1}) : std::size_t{0};
  if (got.ok() && *got > 0) {
    return Status(Code::kUnreadable, fmt::format("{}: has bytes, but says that it is empty, so it cannot be copied", path));
  }
  LZY_RETURN_IF_ERROR(source->LoadSidecar());
  LZY_RETURN_IF_ERROR(source->AskItsSet());
  return std::unique_ptr<CopySource>(std::move(source));
}

// A file that was written in this tick of the clock could be written again without another mtime. The wait is bounded,
// because an mtime in the future was not set by this clock.
Status LocalSource::Settle() {
  const std::int64_t limit = std::max<std::int64_t>(100'000'000, 4 * CoarseGranularityNs());
  LZY_ASSIGN_OR_RETURN(stat_, file_->Stat());
  while (CoarseNowNs() <= stat_.mtime_ns && stat_.mtime_ns - CoarseNowNs() <= limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  LZY_ASSIGN_OR_RETURN(stat_, file_->Stat());
  return Status::Ok();
}

// Without a usable sidecar, the file is copied like any other. A key means that the user expects a seal: it is reported if
// the file has none, and nothing sealed may be replaced by it or contain it (Copier). A wrong seal is an error.
Status LocalSource::LoadSidecar() {
  auto path = FindSidecar(fs_, path_);
  if (!path.ok() && stat_.links > 1) {
    if (auto other = SidecarOfOtherName()) path = std::move(*other);
  }
  if (!path.ok()) {
    unsealed_ = options_.key != nullptr;
    return RefuseRotten();
  }
  auto loaded = Sidecar::Load(fs_, *path, OpenMode::kRead);
  unsealed_ = options_.key != nullptr && loaded.ok() && !(*loaded)->contents().superblock.sealed();
  if (unsealed_) options_.key = nullptr;
  if (loaded.ok()) LZY_RETURN_IF_ERROR((*loaded)->Unseal(options_.key));
  Status usable = loaded.ok() ? CheckContents((*loaded)->contents()) : loaded.status();
  if (usable.ok() && !(*loaded)->knows_all_leaves())
    usable = {Code::kCorrupt, "some of its hashes are damaged in all copies"};
  if (!usable.ok()) {
    // A sidecar that cannot be read now may be right.
    const bool for_ever = IsRuined(usable) || usable.code() == Code::kCorrupt || usable.code() == Code::kNewerFormat;
    if (options_.key || !for_ever) return usable;
    unjudged_ = true;
    notes_.push_back(
        fmt::format("{}: its sidecar cannot be used, so it was copied without a check: {}", path_, usable.message()));
    return Status::Ok();
  }
  if (!(*loaded)->committed()) {
    notes_.push_back(fmt::format("{}: it was never committed, so it was copied as it is, without a check", path_));
    return Status::Ok();
  }
  // Also if its times differ: what has its hash is right, and what has not is no less suspect.
  sidecar_ = std::move(loaded).value();
  commit_ = {sidecar_->contents().superblock, sidecar_->contents().info};
  return Status::Ok();
}

// A file without a sidecar may be a protected one that was renamed or moved, and is damaged. The sidecar of its copy would call the damage
// intact.
Status LocalSource::RefuseRotten() {
  const auto was = rules_.salvage ? std::nullopt : RottenAs(fs_, FollowLink(fs_, path_), options_.key.get());
  if (!was) return Status::Ok();
  return {Code::kBusy, fmt::format("{}: by its size and time, and by its inode or most of its content, it was '{}' at the last commit, and not all of it "
                                   "is as it was then: it was renamed or moved, and is damaged. So it was not copied. Give it that name back, then "
                                   "repair it; or --salvage copies it as it is", path_, *was)};
}

// Without a sidecar of the last commit of its set, only the other members know what is right in a member.
Status LocalSource::AskItsSet() {
  if (rules_.salvage || (sidecar_ && commit_.superblock.kind != DatasetKind::kSet)) return Status::Ok();
  const auto judged = rules_.judged ? Result<ByItsSet>(ByItsSet::kRight)
                                    : JudgeByItsSet(fs_, options_, path_, sidecar_ ? &commit_.superblock : nullptr);
  if (!judged.ok() && sidecar_) return Status::Ok();
  LZY_RETURN_IF_ERROR(judged.status());
  switch (*judged) {
    case ByItsSet::kNotAsked:
      break;
    case ByItsSet::kRight:
      unjudged_ = false;
      notes_.clear();
      break;
    case ByItsSet::kUnknown:
      notes_.push_back(fmt::format("{}: is a member of a set, and the sidecars that record its content are lost, so it was copied without a check", path_));
      break;
    case ByItsSet::kWrong:
      return {Code::kBusy, fmt::format("{}: is a member of a set, and its content is not that of the set's last commit: damage, or an older version. So "
                                       "it was not copied. What to do: lzy-verify {}", path_, ShellQuote(path_))};
  }
  return Status::Ok();
}

// The sidecar of a file with several names has one of them.
std::optional<std::string> LocalSource::SidecarOfOtherName() {
  const auto real = fs_.RealPath(path_);
  if (!real.ok()) return std::nullopt;
  Directory directory(fs_, DirectoryOf(*real));
  for (const std::string& sidecar : directory.Sidecars()) {
    const Result<Peek>& peek = directory.PeekAt(sidecar);
    if (!peek.ok() || peek->stamp.inode != stat_.inode) continue;
    const auto home = directory.HomeOf(sidecar);
    if (!home) continue;
    const auto stat = fs_.Stat(directory.PathOf(*home), /*follow=*/false);
    if (!stat.ok() || stat->inode != stat_.inode || stat->file_system != stat_.file_system) continue;
    protected_as_ = directory.PathOf(*home);
    return directory.PathOf(sidecar);
  }
  return std::nullopt;
}

Status LocalSource::Changed(const char* how) {
  changed_ = true;
  return {Code::kBusy, fmt::format("{}: {}; copy it again when no program writes it", path_, how)};
}

Status LocalSource::CheckUnchanged(FileSystem& fs, const std::string& path, const FileStat& then) {
  const auto now = fs.Stat(path);
  const bool same = now.ok() && now->inode == then.inode && now->size == then.size && now->mtime_ns == then.mtime_ns;
  if (same) return Status::Ok();
  return {Code::kBusy, fmt::format("{}: somebody changed it while it was being copied; copy it again when no program "
                                   "writes it", path)};
}

Status LocalSource::CheckUnchanged() {
  const Status same = CheckUnchanged(fs_, path_, stat_);
  if (!same.ok()) changed_ = true;
  return same;
}

// The file system may report wrong holes for data that were not synced. So the file is synced first, but only if there seems
// to be a hole.
bool LocalSource::IsHole(std::uint64_t offset, std::uint64_t length) {
  const auto says_so = [&] { return file_->NextData(offset) >= offset + length; };
  if (!says_so()) return false;
  std::call_once(synced_once_, [&] { synced_ = file_->Sync().ok(); });
  return synced_ && says_so();
}

Status LocalSource::Read(std::uint64_t offset, MutableByteSpan to) {
  if (wait_) wait_(to.size());
  return sidecar_ ? ReadHeld(offset, to) : ReadUnproven(offset, to);
}

Status LocalSource::ReadPlain(std::uint64_t offset, MutableByteSpan to) {
  if (IsHole(offset, to.size())) {
    std::ranges::fill(to, std::uint8_t{0});
    return Status::Ok();
  }
  LZY_ASSIGN_OR_RETURN(const std::size_t got, file_->ReadAt(offset, to));
  return got == to.size() ? Status::Ok() : Changed("it became shorter while it was being copied");
}

// Nothing records what unreadable bytes were. With salvage, zeros take their place, page by page.
Status LocalSource::ReadUnproven(std::uint64_t offset, MutableByteSpan to) {
  const Status read = ReadPlain(offset, to);
  if (read.code() != Code::kUnreadable || !rules_.salvage) return read;
  constexpr std::uint64_t kPage = 4096;
  for (std::uint64_t at = 0; at < to.size(); at += kPage) {
    const MutableByteSpan page = to.subspan(at, std::min<std::uint64_t>(kPage, to.size() - at));
    const Status one = ReadPlain(offset + at, page);
    if (one.code() == Code::kUnreadable) {
      LZY_RETURN_IF_ERROR(TakeLost(offset + at, page, one.message()));
    } else {
      LZY_RETURN_IF_ERROR(one);
    }
  }
  return Status::Ok();
}

// Only whole blocks of the source have hashes. `to` is whole blocks unless the copy has smaller ones.
Status LocalSource::ReadHeld(std::uint64_t offset, MutableByteSpan to) {
  const SidecarContents& contents = sidecar_->contents();
  const std::uint64_t block = contents.superblock.block_size;
  const std::uint64_t begin = offset / block * block, end = std::min(RoundUp(offset + to.size(), block), stat_.size);
  if (begin != offset || end != offset + to.size()) {
    AlignedBuffer whole(end - begin);
    LZY_RETURN_IF_ERROR(ReadHeld(begin, {whole.data(), end - begin}));
    std::copy_n(whole.data() + (offset - begin), to.size(), to.begin());
    return Status::Ok();
  }
  const Status read = ReadPlain(offset, to);
  if (!read.ok() && read.code() != Code::kUnreadable) return read;
  std::vector<std::uint64_t> wrong;
  for (std::uint64_t at = 0; at < to.size(); at += block) {
    const std::uint64_t index = (offset + at) / block;
    const auto bytes = to.subspan(at, std::min<std::uint64_t>(block, to.size() - at));
    const bool right = read.ok() && index < contents.data_tree.leaf_count() &&
                       LeafHash(contents.key.get(), HashTag::kDataLeaf, index, bytes) == contents.data_tree.leaf(index);
    if (!right) wrong.push_back(index);
  }
  return wrong.empty() ? Status::Ok() : Heal(wrong, offset, to);
}

// True if nobody committed the member since its sidecar was read: it came back with it from a backup, and its set has a newer
// commit.
bool LocalSource::IsOfOlderCommit() {
  const Superblock& read = commit_.superblock;
  const auto now = FindAndPeek(fs_, protected_as_);
  return read.kind == DatasetKind::kSet && now.ok() && now->uuid == read.uuid && now->generation == read.generation;
}

// `to` begins with the block at `offset`. A block that may have been edited is not judged. A copy with it may have rot, and its
// sidecar would prove that.
Status LocalSource::Heal(const std::vector<std::uint64_t>& blocks, std::uint64_t offset, MutableByteSpan to) {
  LZY_RETURN_IF_ERROR(CheckUnchanged());
  const Superblock& sb = sidecar_->contents().superblock;
  const HealRequest request{
      .path = protected_as_, .inode = stat_.inode, .uuid = sb.uuid, .generation = sb.generation, .blocks = blocks};
  Result<HealReport> healed = [&] {
    const std::lock_guard lock(healing_);
    return HealBlocks(fs_, options_, request);
  }();
  // Without its dataset, nothing can be rebuilt. Any other failure may be temporary, so the block is not lost.
  if (!healed.ok() && healed.status().code() != Code::kUnprotected) return healed.status();
  const bool older = healed.ok() && healed->other_commit && IsOfOlderCommit();
  if (healed.ok() && healed->other_commit && !older) return Changed("somebody committed it while it was being copied");
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::uint64_t begin = blocks[i] * sb.block_size,
                        length = std::min<std::uint64_t>(sb.block_size, stat_.size - begin);
    const MutableByteSpan bytes = to.subspan(begin - offset, length);
    if (older) {
      LZY_RETURN_IF_ERROR(TakeUnproven(begin, bytes));
      continue;
    }
    if (!healed.ok()) {  // its dataset cannot be opened
      LZY_RETURN_IF_ERROR(TakeLost(begin, bytes, healed.status().message()));
      continue;
    }
    const HealedBlock& one = healed->blocks[i];
    if (one.verdict == HealedBlock::Verdict::kNotJudged) {
      LZY_RETURN_IF_ERROR(CheckUnchanged());
      LZY_RETURN_IF_ERROR(TakeUnproven(begin, bytes));
      continue;
    }
    if (one.verdict == HealedBlock::Verdict::kLost) {
      const bool of_set = sb.kind == DatasetKind::kSet;
      LZY_RETURN_IF_ERROR(TakeLost(
          begin, bytes, one.why + (of_set ? "; if members are on other nodes, repair the set first: lzy-verify --repair " + ShellQuote(path_) : "")));
      continue;
    }
    std::ranges::copy(one.bytes, bytes.begin());
    (one.damaged ? healed_ : reread_) += length;
  }
  return Status::Ok();
}

// Bytes that cannot be rebuilt: an error, or with salvage, the bytes that can be read.
Status LocalSource::TakeLost(std::uint64_t begin, MutableByteSpan bytes, const std::string& why) {
  if (!rules_.salvage) {
    return {Code::kBeyondRepair, fmt::format("{}: bytes {} to {} are damaged, and cannot be rebuilt: {}", path_, begin,
                                             begin + bytes.size() - 1, why)};
  }
  return TakeAsItIs(begin, bytes);
}

// Only verify can say what it is, and what to do.
Status LocalSource::TakeUnproven(std::uint64_t begin, MutableByteSpan bytes) {
  if (rules_.salvage) return TakeAsItIs(begin, bytes);
  changed_ = true;
  return MayBeEdited(path_, fmt::format("bytes {} to {} differ", begin, begin + bytes.size() - 1));
}

Status LocalSource::TakeAsItIs(std::uint64_t begin, MutableByteSpan bytes) {
  const auto got = file_->ReadAt(begin, bytes);
  if (!got.ok() || *got < bytes.size()) std::ranges::fill(bytes.subspan(got.ok() ? *got : 0), std::uint8_t{0});
  AddLost({begin, begin + bytes.size()});
  return Status::Ok();
}

}  // namespace lzy
