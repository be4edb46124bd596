#include "comm/calls.h"

#include <condition_variable>
#include <mutex>
#include <optional>

namespace lzy {

Result<std::size_t> Caller::Call(int rank, std::vector<std::uint8_t> call, MutableByteSpan answer) {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<std::size_t>> result;
  Begin(rank, std::move(call), answer, [&](Result<std::size_t> length) {
    // Notify under the mutex: `changed` may be destroyed as soon as the waiting thread continues.
    const std::lock_guard lock(mutex);
    result = std::move(length);
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return result.has_value(); });
  return std::move(*result);
}

}  // namespace lzy
