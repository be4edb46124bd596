#pragma once
// Calls from rank to rank: one rank asks for something that only another one can see, and goes on with the answer.
//
// Communicator::RunWithCalls lets all ranks call each other for a while. copy/remote.h uses it for copies between
// nodes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace lzy {

/// How this rank answers the calls of others.
struct CallHandler {
  /// Fills `answer` from its beginning, and returns how many bytes it filled. Several threads call it at once. It must
  /// not communicate and not throw.
  std::function<std::size_t(int from, ByteSpan call, MutableByteSpan answer)> answer;
  unsigned threads = 1;  ///< that call `answer`
  /// The room that `answer` gets, in bytes. The same on all ranks.
  std::size_t most_answer = 0;
};

/// Calls other ranks. Thread-safe.
class Caller {
 public:
  /// Bytes of a call at most.
  static constexpr std::size_t kMostCall = 32u << 10;
  /// Told of the length of the answer, or of what failed. Must be brief, and must not throw. It may begin other calls.
  using Done = std::function<void(Result<std::size_t> length)>;

  virtual ~Caller() = default;
  /// Sends `call` to rank `rank`, which may be this one, and returns at once. `answer` must have room for
  /// CallHandler::most_answer bytes, and must stay until `done` is called, from any thread. What arrives is proven: an
  /// answer that cannot be is kCorrupt.
  virtual void Begin(int rank, std::vector<std::uint8_t> call, MutableByteSpan answer, Done done) = 0;
  /// The same, and waits. Returns the length of the answer.
  Result<std::size_t> Call(int rank, std::vector<std::uint8_t> call, MutableByteSpan answer);
};

}  // namespace lzy
