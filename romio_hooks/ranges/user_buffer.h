#pragma once
// The program's buffers as the bytes of data that MPI moves, and the places of these bytes in the file.
//
// transfers/ uses this to capture written data and to check read data. Invariants:
//
// - The layer uses a byte of the buffer only if MPI moves the same byte in this call. If that is not sure (an unusual
// datatype), the buffer counts as unknown, and the layer does without its content.
//
// - The layer reads and writes buffers only by base/program_memory.h. They may be in the memory of a device, such as a GPU,
// or not accessible at all; only an MPI library can use such buffers. The layer does without bytes that it cannot read.
//
// Everything is local. After Open, no MPI is called, so other threads may go on with a buffer.

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "hooks/contract/layer.h"
#include "hooks/ranges/mpi_view.h"

namespace lzy::hooks {

/// The buffer of a call as a stream of bytes of data. Keeps no MPI handles, so the datatype may be freed.
class UserBuffer {
 public:
  /// Which datatypes Open accepts.
  enum class Belief {
    kRegular,   ///< datatypes that all MPI libraries treat as the standard says (TypeMap::regular)
    kUndoubted, ///< also those that a few libraries treat otherwise. For reads: the data show it
    kDefined,   ///< all that the standard defines. For comparing written data with what should be there
  };
  /// False if it is not known which bytes of the buffer are the data, in which order.
  bool Open(const DataCall& call, Belief belief = Belief::kRegular);
  bool contiguous() const { return contiguous_; }
  /// True if all pages with the `bytes` bytes of data can be written now. False also if the kernel cannot tell (before
  /// Linux 5.14).
  bool IsWritable(std::uint64_t bytes) const;

  /// Goes to bytes [first, last) of the data. False if they are in too many pieces.
  bool Seek(std::uint64_t first, std::uint64_t last);
  /// Returns at most `most` more bytes. If they are contiguous, they are returned in place and are not read; else they are
  /// copied. Valid until the next call. nullopt: some of them cannot be read.
  std::optional<ByteSpan> Next(std::uint64_t most);
  /// The same, but always in place, so it may return fewer bytes.
  MutableByteSpan NextInPlace(std::uint64_t most);

 private:
  const std::uint8_t* First() const;
  std::uint64_t Reach(std::uint64_t bytes) const;
  std::optional<ByteSpan> Pack(std::uint64_t most);

  datatypes::DataLayout tile_;
  std::int64_t extent_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t origin_ = 0;
  bool contiguous_ = false;
  std::vector<Interval> pieces_;
  std::size_t at_ = 0;
  std::vector<std::uint8_t> packed_;
};

/// Walks through the data of a call in stretches, so that memory is bounded for any buffer and view.
class DataWalk {
 public:
  /// Walks `bytes` bytes of data from etype number `position` of the view on, without the first `skip` (whole etypes).
  /// `buffer` may be null: then only the places in the file are computed. View and buffer must outlive this object.
  DataWalk(const MpiView& view, MPI_Offset position, std::uint64_t bytes, UserBuffer* buffer, std::uint64_t skip = 0);
  /// Goes to the next stretch; false behind the last.
  bool Next();
  /// Byte ranges of this stretch in the file: exact if InPieces(), else perhaps a superset. nullopt: not known.
  const std::optional<std::vector<Interval>>& ranges() const { return ranges_; }
  /// True if the buffer is at the first byte of this stretch, and gives its bytes in the order of ranges().
  bool InPieces() const { return in_pieces_; }

 private:
  std::uint64_t InEtypes(std::uint64_t size) const;

  const MpiView& view_;
  const MPI_Offset position_;
  const std::uint64_t bytes_;
  UserBuffer* const buffer_;
  std::uint64_t stretch_;
  std::uint64_t done_;  // bytes of all stretches so far, including this one
  std::optional<std::vector<Interval>> ranges_;
  bool in_pieces_ = false;
};

/// Number of bytes in disjoint intervals.
std::uint64_t TotalOf(const std::vector<Interval>& intervals);

}  // namespace lzy::hooks
