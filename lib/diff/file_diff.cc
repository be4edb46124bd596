#include "diff/file_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/numbers.h"
#include "diff/tree_diff.h"
#include "remote/files.h"
#include "request/report.h"
#include "sidecar/contents.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

constexpr int kExitChanged = 9;

// One of the two files.
struct Side : DiffSide {
  FileStat stat;
  std::unique_ptr<Sidecar> sidecar;
  const SidecarContents& contents() const { return sidecar->contents(); }
};

Status Changed(const std::string& path) {
  return {Code::kBusy, fmt::format("{}: it was changed since its last commit, so its hashes tell nothing. Commit the changes with: "
                                   "lzy-protect; or compare the data: --deep", path)};
}

Result<std::string> SidecarOf(const Side& side) {
  if (side.directory == nullptr) return FindSidecar(side.fs, side.path);
  const std::string name = side.directory->SidecarOf(BaseNameOf(side.path));
  if (name.empty()) return Status(Code::kNotFound, side.path);
  return side.directory->PathOf(name);
}

// The seal covers all hashes, so with a key all of them are read.
Result<std::unique_ptr<Sidecar>> LoadFor(FileSystem& fs, const Options& options, const std::string& path) {
  LZY_ASSIGN_OR_RETURN(auto sidecar, Sidecar::LoadPaged(fs, path));
  if (options.key && sidecar->contents().superblock.sealed()) {
    LZY_ASSIGN_OR_RETURN(sidecar, Sidecar::Load(fs, path, OpenMode::kRead));
  }
  LZY_RETURN_IF_ERROR(sidecar->Unseal(options.key));
  LZY_RETURN_IF_ERROR(CheckContents(sidecar->contents()).WithContext(path));
  return sidecar;
}

// True if the file is as committed, so that its hashes describe it. A stamp within the clock tick of the commit proves
// nothing (docs/design/repair.md §8).
bool IsAsStamped(const Side& side) {
  const Superblock& sb = side.contents().superblock;
  return side.sidecar->committed() && !side.sidecar->intent() && sb.stamp.size == side.stat.size &&
         sb.stamp.mtime_ns == side.stat.mtime_ns && !IsRacy(sb.stamp, sb.commit_clock_ns);
}

Status LoadSide(const Options& options, Side& side) {
  const auto path = SidecarOf(side);
  if (path.status().code() == Code::kNotFound) {
    return {Code::kUnprotected, fmt::format("{}: it is not protected, so there are no hashes to compare. Protect it with: lzy-protect; "
                                            "or compare the data: --deep", side.path)};
  }
  LZY_RETURN_IF_ERROR(path.status());
  auto loaded = LoadFor(side.fs, options, *path);
  if (loaded.status().code() == Code::kUnprotected || loaded.status().code() == Code::kCorrupt) {
    return {loaded.status().code(), fmt::format("{}: its sidecar cannot be used: {}. Compare the data: --deep", side.path,
                                                loaded.status().message())};
  }
  LZY_RETURN_IF_ERROR(loaded.status());
  side.sidecar = std::move(loaded).value();
  return IsAsStamped(side) ? Status::Ok() : Changed(side.path);
}

// Leaves can be compared only if they were made in the same way.
Status CheckComparable(const Side& a, const Side& b) {
  const Superblock &in_a = a.contents().superblock, &in_b = b.contents().superblock;
  if (in_a.block_size != in_b.block_size) {
    return {Code::kInvalidArgument,
            fmt::format("{} has blocks of {} bytes, {} blocks of {} bytes, so their hashes cannot be compared. Compare the data: --deep", a.path,
                        in_a.block_size, b.path, in_b.block_size)};
  }
  if (in_a.key_id != in_b.key_id) {
    return {Code::kInvalidArgument, fmt::format("{} and {} are not sealed with the same key, so their hashes cannot be compared. Compare "
                                                "the data: --deep", a.path, b.path)};
  }
  return Status::Ok();
}

/// Compares the data of two files, and collects ranges that differ. `apart`: one of the files is another rank's. Then each
/// is hashed where it is, and bytes travel only where hashes differ.
class DataComparison {
 public:
  DataComparison(File& a, File& b, bool apart, const FileDiffRequest& request) : a_(a), b_(b), apart_(apart), request_(request) {}

  // `size`: of the shorter file.
  Status Run(std::uint64_t size) {
    size_ = size;
    // A thread that waits for another rank needs no core.
    const unsigned threads = apart_ ? std::max(request_.threads, kLeastApart) : request_.threads;
    ParallelParts(CeilDiv(size, kPiece), threads, [&](std::size_t first, std::size_t last) {
      AlignedBuffer in_a(kPiece), in_b(kPiece);
      for (std::size_t i = first; i < last; ++i) {
        const Status done = Piece(i * kPiece, std::min(size, (i + 1) * kPiece), in_a, in_b);
        if (done.ok()) continue;
        const std::lock_guard lock(mutex_);
        if (status_.ok()) status_ = done;
        return;
      }
    });
    return status_;
  }
  std::vector<Interval> TakeFound() {
    if (!found_.empty()) SortAndJoin(found_);
    return std::move(found_);
  }

 private:
  static constexpr std::uint64_t kPiece = 1u << 20, kPage = 4096;
  static constexpr unsigned kLeastApart = 4;

  Status Piece(std::uint64_t begin, std::uint64_t end, AlignedBuffer& in_a, AlignedBuffer& in_b) {
    if (request_.stop && request_.stop()) return {Code::kInterrupted, "interrupted"};
    const std::size_t length = end - begin;
    // If both files have a hole, both have zeros. Data that are not synced may look like a hole (File::NextData).
    const bool hole = a_.NextData(begin) >= end && b_.NextData(begin) >= end && Synced();
    if (!hole) LZY_RETURN_IF_ERROR(apart_ ? ByHashes(begin, end, in_a, in_b) : ByBytes(begin, end, in_a, in_b));
    if (request_.progress) request_.progress(length);
    return Status::Ok();
  }

  Status ByBytes(std::uint64_t begin, std::uint64_t end, AlignedBuffer& in_a, AlignedBuffer& in_b) {
    const std::size_t length = end - begin;
    LZY_RETURN_IF_ERROR(ReadExactly(a_, begin, {in_a.data(), length}));
    LZY_RETURN_IF_ERROR(ReadExactly(b_, begin, {in_b.data(), length}));
    for (std::size_t at = 0; at < length; at += kPage) {
      ComparePage(begin + at, {in_a.data() + at, std::min<std::size_t>(kPage, length - at)}, in_b.data() + at);
    }
    return Status::Ok();
  }

  // Compares first the hash of the whole piece, then those of its pages.
  Status ByHashes(std::uint64_t begin, std::uint64_t end, AlignedBuffer& in_a, AlignedBuffer& in_b) {
    LZY_ASSIGN_OR_RETURN(const std::vector<bool> piece, Differ(kPiece, begin / kPiece, 1));
    if (!piece[0]) return Status::Ok();
    const std::uint64_t first = begin / kPage, count = CeilDiv(end - begin, kPage);
    LZY_ASSIGN_OR_RETURN(const std::vector<bool> pages, Differ(kPage, first, count));
    for (std::uint64_t i = 0; i < count;) {
      std::uint64_t next = i + 1;
      if (!pages[i]) {
        i = next;
        continue;
      }
      while (next < count && pages[next]) ++next;
      LZY_RETURN_IF_ERROR(ByBytes((first + i) * kPage, std::min(end, (first + next) * kPage), in_a, in_b));
      i = next;
    }
    return Status::Ok();
  }

  // Which of these blocks differ, or cannot be read.
  Result<std::vector<bool>> Differ(std::uint64_t block_size, std::uint64_t first, std::uint64_t count) {
    const BlockHashing how{.block_size = block_size, .size = size_};
    LZY_ASSIGN_OR_RETURN(const auto of_a, HashBlocks(a_, how, nullptr, first, count, 1, request_.stop));
    LZY_ASSIGN_OR_RETURN(const auto of_b, HashBlocks(b_, how, nullptr, first, count, 1, request_.stop));
    std::vector<bool> differ;
    for (std::uint64_t i = 0; i < count; ++i) differ.push_back(of_a[i] != of_b[i] || of_a[i].IsZero());
    return differ;
  }

  bool Synced() {
    std::call_once(sync_once_, [&] { synced_ = a_.Sync().ok() && b_.Sync().ok(); });
    return synced_;
  }

  void ComparePage(std::uint64_t offset, ByteSpan a, const std::uint8_t* b) {
    if (std::memcmp(a.data(), b, a.size()) == 0) return;
    std::size_t first = 0, last = a.size();
    while (a[first] == b[first]) ++first;
    while (a[last - 1] == b[last - 1]) --last;
    const std::lock_guard lock(mutex_);
    found_.push_back({offset + first, offset + last});
  }

  File& a_;
  File& b_;
  const bool apart_;
  const FileDiffRequest& request_;
  std::uint64_t size_ = 0;
  std::once_flag sync_once_;
  bool synced_ = false;
  std::mutex mutex_;  // for the fields below
  std::vector<Interval> found_;
  Status status_;
};

/// One call of DiffFiles.
class Comparison {
 public:
  Comparison(const Options& options, const FileDiffRequest& request, FileDiff& diff)
      : options_(options), request_(request), diff_(diff) {}

  Status Run(Side& a, Side& b) {
    LZY_ASSIGN_OR_RETURN(a.stat, a.fs.Stat(a.path));
    LZY_ASSIGN_OR_RETURN(b.stat, b.fs.Stat(b.path));
    diff_.bytes_a = a.stat.size;
    diff_.bytes_b = b.stat.size;
    if (a.stat.file_system == b.stat.file_system && a.stat.inode == b.stat.inode) {
      diff_.verdict = DiffVerdict::kSame;
      return Status::Ok();
    }
    // Files of different sizes differ, whatever else is found.
    if (a.stat.size != b.stat.size) {
      diff_.verdict = DiffVerdict::kDifferent;
      diff_.ranges_known = false;
    }
    const Status compared = NoThrow([&] { return request_.deep ? CompareData(a, b) : CompareTrees(a, b); });
    LZY_RETURN_IF_ERROR(CheckUnchanged(a));
    LZY_RETURN_IF_ERROR(CheckUnchanged(b));
    LZY_RETURN_IF_ERROR(compared);
    diff_.ranges_known = true;
    diff_.verdict = diff_.ranges.empty() && a.stat.size == b.stat.size ? DiffVerdict::kSame : DiffVerdict::kDifferent;
    return Status::Ok();
  }

 private:
  Status CompareTrees(Side& a, Side& b) {
    LZY_RETURN_IF_ERROR(LoadSide(options_, a));
    LZY_RETURN_IF_ERROR(LoadSide(options_, b));
    LZY_RETURN_IF_ERROR(CheckComparable(a, b));
    const std::uint64_t block = diff_.block_size = a.contents().superblock.block_size;
    std::vector<Interval> leaves;
    Status status = NoThrow([&]() -> Status {
      leaves = DifferingLeaves(a.contents().data_tree, b.contents().data_tree);
      return Status::Ok();
    });
    // kBusy does not prove a commit: the pages are read only when they are needed, and may be damaged.
    if (status.code() == Code::kBusy) {
      status = {Code::kCorrupt, status.message() + ". Run the same command again; if that does not help: lzy-verify tells what "
                                                   "is damaged, and --deep compares the data"};
    }
    LZY_RETURN_IF_ERROR(status);
    const std::uint64_t size = std::max(a.stat.size, b.stat.size);
    for (const Interval& leaf : leaves) diff_.ranges.push_back({leaf.begin * block, std::min(leaf.end * block, size)});
    return Status::Ok();
  }

  Status CompareData(const Side& a, const Side& b) {
    diff_.by_data = true;
    LZY_ASSIGN_OR_RETURN(const auto in_a, a.fs.Open(a.path, OpenMode::kRead));
    LZY_ASSIGN_OR_RETURN(const auto in_b, b.fs.Open(b.path, OpenMode::kRead));
    in_a->ExpectReading();
    in_b->ExpectReading();
    DataComparison data(*in_a, *in_b, a.elsewhere || b.elsewhere, request_);
    const auto [shorter, longer] = std::minmax(a.stat.size, b.stat.size);
    LZY_RETURN_IF_ERROR(data.Run(shorter));
    diff_.ranges = data.TakeFound();
    if (shorter < longer) diff_.ranges.push_back({shorter, longer});
    if (!diff_.ranges.empty()) SortAndJoin(diff_.ranges);
    return Status::Ok();
  }

  Status CheckUnchanged(const Side& side) {
    const auto now = side.fs.Stat(side.path);
    const bool same = now.ok() && now->inode == side.stat.inode && now->size == side.stat.size && now->mtime_ns == side.stat.mtime_ns;
    if (same) return Status::Ok();
    diff_.ranges.clear();
    return {Code::kBusy, fmt::format("{}: it was changed while it was compared; compare it again when no program writes it", side.path)};
  }

  const Options& options_;
  const FileDiffRequest& request_;
  FileDiff& diff_;
};

}  // namespace

std::uint64_t FileDiff::DifferentBytes() const {
  std::uint64_t bytes = 0;
  for (const Interval& range : ranges) bytes += range.end - range.begin;
  return bytes;
}

int ExitCodeOf(const FileDiff& diff) {
  if (diff.verdict == DiffVerdict::kSame) return 0;
  if (diff.verdict != DiffVerdict::kUnknown) return 1;
  return diff.status.code() == Code::kBusy ? kExitChanged : ExitCodeOf(diff.status);
}

FileDiff DiffFiles(const Options& options, const DiffSide& a, const DiffSide& b, const FileDiffRequest& request) {
  FileDiff diff;
  diff.a = a.path;
  diff.b = b.path;
  Side side_a{a, {}, nullptr}, side_b{b, {}, nullptr};
  diff.status = NoThrow([&] { return Comparison(options, request, diff).Run(side_a, side_b); });
  return diff;
}

}  // namespace lzy
