#include "hooks/ranges/user_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/program_memory.h"
#include "datatypes/type_map.h"

namespace lzy::hooks {
namespace {

// Bytes in a stretch, if the buffer or its place in the file is in pieces; fewer if the pieces are small. The limit of
// pieces bounds the memory for a stretch.
constexpr std::uint64_t kStretch = 8u << 20;
constexpr std::uint64_t kLeastStretch = 32u << 10;
constexpr std::size_t kMostPieces = 16384;
// Pieces of the buffer are put together up to this many bytes.
constexpr std::size_t kPacked = 1u << 20;
// For the kernel, one more piece costs more than copying this many bytes.
constexpr std::uint64_t kNear = 1024;
constexpr std::uint64_t kLeastPage = 4096;

std::uint8_t* Pointer(std::uint64_t address) {
  return reinterpret_cast<std::uint8_t*>(address);
}

/// True if a gap is small and lies in pages that also have data, so that it is readable if the data are.
bool IsNear(std::uint64_t end, std::uint64_t next) {
  return next - end <= kNear && next / kLeastPage - (end - 1) / kLeastPage <= 1;
}

}  // namespace

std::uint64_t TotalOf(const std::vector<Interval>& intervals) {
  std::uint64_t total = 0;
  for (const Interval& one : intervals) total += one.end - one.begin;
  return total;
}

bool UserBuffer::Open(const DataCall& call, Belief belief) {
  const auto type = As<MPI_Datatype>(call.type);
  datatypes::TypeShape shape;
  if (!shape.Read(type)) return false;
  const datatypes::TypeMap map = datatypes::MapOf(type);
  tile_ = map.layout;
  extent_ = shape.extent;
  count_ = static_cast<std::uint64_t>(call.count);
  origin_ = reinterpret_cast<std::uintptr_t>(call.buffer);
  const bool sure = !map.doubtful || (belief == Belief::kDefined && map.defined);
  contiguous_ = sure && tile_.begin >= 0 && tile_.IsRun() &&
                (count_ == 1 || tile_.size == static_cast<std::uint64_t>(extent_));
  if (contiguous_) return true;
  // Intel MPI 2021 writes other bytes for buffers with other gaps, or with data below the origin.
  const bool known = belief == Belief::kRegular ? map.regular : sure;
  return known && shape.lower == 0 && tile_.begin >= 0 && tile_.InOrder() && extent_ >= tile_.end - tile_.begin &&
         extent_ > 0;
}

const std::uint8_t* UserBuffer::First() const {
  return Pointer(origin_ + static_cast<std::uint64_t>(tile_.begin));
}

// Distance from the first byte of `bytes` bytes of data to the last.
std::uint64_t UserBuffer::Reach(std::uint64_t bytes) const {
  if (contiguous_) return bytes;
  return static_cast<std::uint64_t>(extent_) * (count_ - 1) + static_cast<std::uint64_t>(tile_.end - tile_.begin);
}

// The kernel maps the pages as at a first access, and returns an error instead of sending a signal.
bool UserBuffer::IsWritable(std::uint64_t bytes) const {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers do not have
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(First());
  const auto begin = first / page * page;
  const auto end = (first + Reach(bytes) + page - 1) / page * page;
  return madvise(reinterpret_cast<void*>(begin), end - begin, kPopulateWrite) == 0;
}

bool UserBuffer::Seek(std::uint64_t first, std::uint64_t last) {
  at_ = 0;
  if (contiguous_) {
    const std::uint64_t base = origin_ + static_cast<std::uint64_t>(tile_.begin);
    pieces_.assign(1, {base + first, base + last});
    return true;
  }
  pieces_ = datatypes::BytesOf(tile_, count_, extent_, origin_, first, last, kMostPieces);
  return TotalOf(pieces_) == last - first;
}

std::optional<ByteSpan> UserBuffer::Next(std::uint64_t most) {
  const Interval& piece = pieces_[at_];
  const std::uint64_t here = piece.end - piece.begin;
  if (here >= most || here >= kPacked || at_ + 1 == pieces_.size()) return NextInPlace(most);
  return Pack(std::min<std::uint64_t>(most, kPacked));
}

// The kernel copies pieces that are near each other together with the gaps; then the gaps are removed.
std::optional<ByteSpan> UserBuffer::Pack(std::uint64_t most) {
  std::vector<iovec> stretches;
  std::vector<Interval> data;  // places of the data in the copy
  std::uint64_t bytes = 0, copied = 0, end = 0;
  while (bytes < most && copied < kPacked && at_ < pieces_.size()) {
    const MutableByteSpan piece = NextInPlace(most - bytes);
    const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(piece.data());
    if (stretches.empty() || !IsNear(end, begin)) {
      stretches.push_back({piece.data(), 0});
      end = begin;
    }
    const std::uint64_t more = begin - end + piece.size();
    stretches.back().iov_len += more;
    copied += more;
    data.push_back({copied - piece.size(), copied});
    bytes += piece.size();
    end = begin + piece.size();
  }
  if (packed_.size() < copied) packed_.resize(copied);
  if (!ReadProgramMemory(stretches, {packed_.data(), copied})) return std::nullopt;
  std::uint64_t to = 0;
  for (const Interval& one : data) {
    std::memmove(packed_.data() + to, packed_.data() + one.begin, one.end - one.begin);
    to += one.end - one.begin;
  }
  return ByteSpan(packed_.data(), bytes);
}

MutableByteSpan UserBuffer::NextInPlace(std::uint64_t most) {
  Interval& piece = pieces_[at_];
  const MutableByteSpan bytes(Pointer(piece.begin), std::min(piece.end - piece.begin, most));
  piece.begin += bytes.size();
  if (piece.begin == piece.end) ++at_;
  return bytes;
}

DataWalk::DataWalk(const MpiView& view, MPI_Offset position, std::uint64_t bytes, UserBuffer* buffer, std::uint64_t skip)
    : view_(view), position_(position), bytes_(bytes), buffer_(buffer), done_(skip) {
  stretch_ = view.IsContiguous() && buffer != nullptr && buffer->contiguous() ? bytes : InEtypes(kStretch);
}

std::uint64_t DataWalk::InEtypes(std::uint64_t size) const {
  const std::uint64_t etype = view_.etype_size();
  return std::max<std::uint64_t>(1, size / etype) * etype;
}

// A stretch with too many pieces is tried again with fewer bytes. If the shortest stretch still has too many, it is
// returned without pieces.
bool DataWalk::Next() {
  while (done_ < bytes_) {
    const std::uint64_t length = std::min(stretch_, bytes_ - done_);
    ranges_ = view_.Ranges(position_ + static_cast<MPI_Offset>(done_ / view_.etype_size()), length, kMostPieces);
    in_pieces_ = ranges_ && buffer_ != nullptr && TotalOf(*ranges_) == length && buffer_->Seek(done_, done_ + length);
    if (ranges_ && buffer_ != nullptr && !in_pieces_ && stretch_ > InEtypes(kLeastStretch)) {
      stretch_ = InEtypes(std::max(kLeastStretch, stretch_ / 8));  // there may be too many pieces
      continue;
    }
    done_ += length;
    return true;
  }
  return false;
}

}  // namespace lzy::hooks
