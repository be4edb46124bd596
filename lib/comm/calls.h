#pragma once
// Calls from rank to rank: one rank asks another for data that only the other rank can see, and continues with the answer.
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

/// Answers the calls of other ranks on this rank.
struct CallHandler {
  /// Fills `answer` from its beginning, and returns the number of bytes. Several threads call it at once. It must neither
  /// communicate nor throw.
  std::function<std::size_t(int from, ByteSpan call, MutableByteSpan answer)> answer;
  unsigned threads = 1;  ///< threads that call `answer`
  /// Size of the buffer `answer`, in bytes. The same on all ranks.
  std::size_t most_answer = 0;
};

/// Calls other ranks. Thread-safe.
class Caller {
 public:
  /// The most bytes of a call.
  static constexpr std::size_t kMostCall = 32u << 10;
  /// Receives the length of the answer, or an error. Must be brief, and must not throw. May begin other calls.
  using Done = std::function<void(Result<std::size_t> length)>;

  virtual ~Caller() = default;
  /// Sends `call` to rank `rank`, which may be this one, and returns at once. `answer` must have room for
  /// CallHandler::most_answer bytes, and must exist until `done` is called, from any thread. Answers are proven; an answer
  /// that cannot be proven is kCorrupt.
  virtual void Begin(int rank, std::vector<std::uint8_t> call, MutableByteSpan answer, Done done) = 0;
  /// The same, and waits. Returns the length of the answer.
  Result<std::size_t> Call(int rank, std::vector<std::uint8_t> call, MutableByteSpan answer);
};

}  // namespace lzy
