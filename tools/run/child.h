#pragma once
// Runs a command for lzy-run and waits for it. lzy-run then behaves like the command: it passes signals on to the command,
// and ends as the command ended.

#include <functional>
#include <string>
#include <vector>

namespace lzy {

/// How a command ended.
struct ChildEnd {
  int error = 0;      ///< errno, if it could not be started; then the others say nothing
  int exit_code = 0;  ///< if no signal ended it
  int signal = 0;     ///< that ended it
};

/// Starts `words` (looked up in PATH) and waits for its end. Passes on signals that another process sends to this one
/// meanwhile; the terminal sends its signals to both anyway. If this process is killed, so is the command. `prepare`:
/// called in the new process just before it becomes the command; it may only make calls that are safe between fork and exec
/// in a program of one thread. Not thread-safe: one command at a time.
ChildEnd RunChild(std::vector<std::string> words, const std::function<void()>& prepare = {});

/// Ends this process as the command ended: by the same signal, or with the same exit code.
[[noreturn]] void EndLike(const ChildEnd& end);

}  // namespace lzy
