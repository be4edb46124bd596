#pragma once
// A command that runs beside this process, with a stream to its standard input and output: ssh, for lzy-copy.

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"

namespace lzy {

/// One command. Its functions may be called from several threads. The destructor ends it if it does not end by itself in some seconds, so first close what it reads from.
class ChildProcess {
 public:
  /// What the command does if this process is ended: it goes on as long as it likes, or ends. Start it with kEnd only from a thread that
  /// lives as long as the process, because the command ends with the thread.
  enum class WhenThisEnds { kGoOn, kEnd };
  /// Starts `words`, with words[0] from PATH. Its standard error is that of this process. It ignores SIGINT: if the user types
  /// Ctrl-C, this process ends the work in order, and needs the command for that. kNotFound: there is no such program.
  static Result<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& words, WhenThisEnds then = WhenThisEnds::kGoOn);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Descriptor output;  ///< what the command prints
  Descriptor input;   ///< its standard input
  /// Waits for the end of the command, at most for `seconds`. Returns the exit code, 128 + number of the signal that ended the
  /// command, or -1 if it still runs.
  int Wait(double seconds);
  /// "ssh ended with exit code 255", or nothing if it still runs after a second.
  std::string HowItEnded();
  /// Ends `input` and `output`, also while a thread uses them.
  void Disconnect();
  /// The command reads the end of its standard input. `input` stays open, because other threads may use it.
  void EndInput();
  /// Ends the command.
  void Stop();

 private:
  ChildProcess() = default;
  pid_t pid_ = -1;
  std::mutex mutex_;  // for code_
  int code_ = -1;     // once it has ended
  std::string name_;
};

}  // namespace lzy
