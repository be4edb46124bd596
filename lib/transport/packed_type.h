#pragma once
// Any buffer that MPI can send, as a stream of bytes: the bytes of its datatype in the order of the type map, without gaps.
// Any range can be copied out or in, so a message can be cut anywhere, and needs memory only for the pieces under way.
// MPI_Pack takes only whole elements, and one element may be as large as the message (a subarray).

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.h"
#include "base/status.h"

namespace lzy::datatypes {
struct DataLayout;
}

namespace lzy::validated {

class Payload {
 public:
  Payload() = default;
  /// `count` elements of `type` at `buffer`, which must outlive this; `type` may be freed. kInvalidArgument for arguments
  /// that MPI would refuse (but accepts types that are not committed), and for datatypes whose definition MPI does not
  /// report.
  static Result<Payload> Of(const void* buffer, MPI_Count count, MPI_Datatype type);
  /// A buffer of contiguous bytes.
  static Payload Of(MutableByteSpan bytes);

  /// The same payload at an address that is `bytes` higher.
  Payload Moved(std::ptrdiff_t bytes) const;

  std::uint64_t bytes() const { return bytes_; }
  /// The address of all bytes if they are contiguous; else null.
  std::uint8_t* contiguous() const { return contiguous_; }

  /// Copies bytes from `offset` of the stream on; the size of `to` or `from` is their number. Precondition: they are within
  /// it.
  void CopyOut(std::uint64_t offset, MutableByteSpan to) const;
  void CopyIn(std::uint64_t offset, ByteSpan from) const;
  /// The bytes in place if they are contiguous, else copied to `scratch`, which has room for them.
  ByteSpan View(std::uint64_t offset, std::uint64_t size, std::uint8_t* scratch) const;

 private:
  /// Calls visit(address, size) for the pieces of memory of these bytes of the stream, in order.
  template <class Visit>
  void ForRuns(std::uint64_t offset, std::uint64_t size, const Visit& visit) const;

  std::uint8_t* base_ = nullptr;
  std::uint8_t* contiguous_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::shared_ptr<const datatypes::DataLayout> map_;  // null: contiguous
};

}  // namespace lzy::validated
