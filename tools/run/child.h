#pragma once
// Runs a command for lzy-run and waits for it. lzy-run then behaves like the command: it passes signals on to the command,
// and ends as the command ended.

#include <functional>
#include <string>
#include <vector>

namespace lzy {

/// How a command ended.
struct ChildEnd {
  int error = 0;      ///< errno, if the command could not be started; then the other fields have no meaning
  int exit_code = 0;  ///< valid if no signal ended the command
  int signal = 0;     ///< the signal that ended the command; 0: none
};

/// Starts `words` (looked up in PATH) and waits for its end. Meanwhile passes on signals from other processes; the terminal
/// sends its signals to both processes anyway. If this process is killed, the command is killed, too. `prepare`: called in
/// the new process just before exec; it may only make calls that are safe between fork and exec in a program with one
/// thread. Not thread-safe: one command at a time.
ChildEnd RunChild(std::vector<std::string> words, const std::function<void()>& prepare = {});

/// Ends this process as the command ended: by the same signal, or with the same exit code.
[[noreturn]] void EndLike(const ChildEnd& end);

}  // namespace lzy
