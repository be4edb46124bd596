#pragma once
// Any buffer that MPI can send, as a stream of bytes: those of its datatype in the order of the type map, without gaps.
// Any range of them can be copied out or in, so that a message is cut where it suits, with no memory but for the pieces
// under way. MPI_Pack takes only whole elements, and one may be as large as the message (a subarray).

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.h"
#include "base/status.h"

namespace lzy::datatypes {
struct Layout;
}

namespace lzy::validated {

class Payload {
 public:
  Payload() = default;
  /// `count` elements of `type` at `buffer`, which must outlive this; `type` may be freed. kInvalidArgument for what MPI
  /// would not take, a type that is not committed excepted, and for datatypes whose making MPI does not tell.
  static Result<Payload> Of(const void* buffer, MPI_Count count, MPI_Datatype type);
  /// So many bytes, without gaps.
  static Payload Of(MutableByteSpan bytes);

  /// The same, so many bytes further on.
  Payload Moved(std::ptrdiff_t bytes) const;

  std::uint64_t bytes() const { return bytes_; }
  /// Where all of them lie one after the other; null if they do not.
  std::uint8_t* contiguous() const { return contiguous_; }

  /// Bytes `offset`.. of the stream, as many as `to` and `from` have. Precondition: they are within it.
  void CopyOut(std::uint64_t offset, MutableByteSpan to) const;
  void CopyIn(std::uint64_t offset, ByteSpan from) const;
  /// The same bytes where they lie if they are contiguous, else copied to `scratch`, which has room for them.
  ByteSpan View(std::uint64_t offset, std::uint64_t size, std::uint8_t* scratch) const;

 private:
  /// Calls visit(address, size) for the pieces of memory that these bytes of the stream lie in, in order.
  template <class Visit>
  void ForRuns(std::uint64_t offset, std::uint64_t size, const Visit& visit) const;

  std::uint8_t* base_ = nullptr;
  std::uint8_t* contiguous_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::shared_ptr<const datatypes::Layout> map_;  // null: contiguous
};

}  // namespace lzy::validated
