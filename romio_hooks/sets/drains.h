#pragma once
// Option drain: copies committed members to another place, in the background (docs/design/repair.md "Drains").
//
// sets/sets begins a copy after each commit of a member that option drain names, and waits for the copies in MPI_Finalize.
// Processes of low priority run lzy-copy, one after the other. The program waits for them only in MPI_Finalize, and does
// not notice them: they are not its children, so they cause no SIGCHLD, and the program's wait() does not find them.

#include <string>
#include <vector>

#include "base/descriptor.h"
#include "request/options.h"

namespace lzy::hooks {

/// The copies of this process. Not thread-safe.
class Drains {
 public:
  /// Starts a process that copies `from` to `to` (both absolute) after the copies before it. Reports a failure to start.
  void Begin(const Options& options, const std::string& from, const std::string& to);
  /// Waits for all copies, at most for option timeout, and reports copies that failed or have not ended.
  void Finish(const Options& options);
  bool empty() const { return drains_.empty(); }

 private:
  struct Drain {
    std::string from, to;
    int exit_code = kNone;
    std::string told;  ///< its stderr output
  };
  static constexpr int kNone = -1;  ///< not ended

  /// Reads the output of the processes, without waiting. False at the end of the output.
  bool Take();
  void Understand();
  std::string Resume(const Drain& drain) const;

  std::string program_;  // lzy-copy
  std::vector<Drain> drains_;
  /// The last process writes the output of all processes here.
  Descriptor output_;
  std::string text_;
};

}  // namespace lzy::hooks
