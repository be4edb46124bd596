#pragma once
// The program's buffers as the bytes of data that MPI moves from or to them, and where in the file those belong.

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
  /// False when its bytes cannot be told, or not in their order. `believe`: types that MPI libraries might take for others
  /// than the standard does, too (TypeMap::regular): what they have read shows whether they did.
  bool Open(const DataCall& call, bool believe = false);
  bool contiguous() const { return contiguous_; }
  /// Whether the processor may read the buffer's `bytes` bytes of data, as far as its ends tell: MPI libraries take
  /// buffers in the memory of other devices, too.
  bool IsReadable(std::uint64_t bytes) const;
  /// Whether all pages of it can be read (written), now and without a signal: a program may hand over memory that is not
  /// there, and get an error for it. No where the kernel cannot tell (before Linux 5.14).
  bool IsThere(std::uint64_t bytes, bool to_write = false) const;

  /// To be taken next: bytes [first, last) of the data. False when they are in too many pieces.
  bool Seek(std::uint64_t first, std::uint64_t last);
  /// At most `most` more bytes: in place where they lie together, else copied. Valid until the next call.
  ByteSpan Next(std::uint64_t most);
  /// The same, always in place, so less at a time: to be written to.
  MutableByteSpan NextInPlace(std::uint64_t most);

 private:
  const std::uint8_t* First() const;
  std::uint64_t Reach(std::uint64_t bytes) const;

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
  /// `bytes` bytes of data from etype number `position` of the view on, but for the first `skip` (whole etypes). `buffer`
  /// may be null: not to be looked at. Both outlive this.
  DataWalk(const View& view, MPI_Offset position, std::uint64_t bytes, UserBuffer* buffer, std::uint64_t skip = 0);
  /// Goes to the next stretch; false behind the last.
  bool Next();
  /// Where in the file the stretch's data are: exactly if InPieces(), else perhaps more than that. None: that cannot be told.
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

std::uint64_t TotalOf(const std::vector<Interval>& intervals);

}  // namespace lzy::hooks
