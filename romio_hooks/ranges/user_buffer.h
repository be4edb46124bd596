#pragma once
// The program's buffers as the bytes of data that MPI moves from or to them, and where in the file those belong.
//
// transfers/ uses this to capture what is written and to check what was read. Invariants:
// - The layer uses a byte of the buffer only if MPI moves the same byte in this call. Where the two might differ (an
//   unusual datatype), the buffer counts as unknown, and the layer does without its content.
// - The layer reads and writes buffers only by base/program_memory.h. They may be in the memory of a device, such as a
//   GPU, or may not be there, and only an MPI library that can use them knows. The layer does without what cannot be read.
//
// Everything is local. After Open, no MPI is called, so other threads may go on with a buffer.

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "hooks/layer/layer.h"
#include "hooks/ranges/view.h"

namespace lzy::hooks {

/// The buffer of a call as a stream of bytes of data. No handles: the datatype may be freed.
class UserBuffer {
 public:
  /// Which types are accepted.
  enum class Belief {
    kRegular,   ///< those that all MPI libraries treat as the standard says (TypeMap::regular)
    kUndoubted, ///< also those that hardly any does not. For reads: what was read shows whether the library did so
    kDefined,   ///< all that the standard defines. For comparing what a library wrote with what it should have
  };
  /// False if it is not known which bytes belong to the data, in their order.
  bool Open(const DataCall& call, Belief belief = Belief::kRegular);
  bool contiguous() const { return contiguous_; }
  /// Whether all pages of the buffer's `bytes` bytes of data can be written now. False also if the kernel cannot tell
  /// (before Linux 5.14).
  bool IsWritable(std::uint64_t bytes) const;

  /// Goes to bytes [first, last) of the data. False if they are in too many pieces.
  bool Seek(std::uint64_t first, std::uint64_t last);
  /// At most `most` more bytes. If they lie together, they are in place and not read; else they are copied. Valid until
  /// the next call. None: some of them cannot be read.
  std::optional<ByteSpan> Next(std::uint64_t most);
  /// The same, but always in place. It may be less at a time.
  MutableByteSpan NextInPlace(std::uint64_t most);

 private:
  const std::uint8_t* First() const;
  std::uint64_t Reach(std::uint64_t bytes) const;
  std::optional<ByteSpan> Pack(std::uint64_t most);

  datatypes::Layout tile_;
  std::int64_t extent_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t origin_ = 0;
  bool contiguous_ = false;
  std::vector<Interval> pieces_;
  std::size_t at_ = 0;
  std::vector<std::uint8_t> packed_;
};

/// The data of a call, stretch by stretch: bounded memory, whatever the buffer and the view are like.
class DataWalk {
 public:
  /// Walks `bytes` bytes of data from etype number `position` of the view on, without the first `skip` (whole etypes).
  /// `buffer` may be null; then only the places in the file are found. View and buffer must outlive this.
  DataWalk(const View& view, MPI_Offset position, std::uint64_t bytes, UserBuffer* buffer, std::uint64_t skip = 0);
  /// Goes to the next stretch; false behind the last.
  bool Next();
  /// Where in the file the stretch's data are: exactly if InPieces(), else perhaps a superset. None: it is not known.
  const std::optional<std::vector<Interval>>& ranges() const { return ranges_; }
  /// The buffer stands at the stretch's first byte, and gives its bytes in the order of ranges().
  bool InPieces() const { return in_pieces_; }

 private:
  std::uint64_t InEtypes(std::uint64_t size) const;

  const View& view_;
  const MPI_Offset position_;
  const std::uint64_t bytes_;
  UserBuffer* const buffer_;
  std::uint64_t stretch_;
  std::uint64_t done_;  // bytes of the stretches before, this one's too once Next() has returned
  std::optional<std::vector<Interval>> ranges_;
  bool in_pieces_ = false;
};

/// The bytes of disjoint intervals together.
std::uint64_t TotalOf(const std::vector<Interval>& intervals);

}  // namespace lzy::hooks
