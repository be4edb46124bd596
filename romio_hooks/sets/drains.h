#pragma once
// Copies of committed members to another place, in the background (option drain; docs/design/repair.md "Drains").
//
// sets/sets begins one after each commit of a member that option drain names, and waits for them in MPI_Finalize. The
// copies are made by lzy-copy in processes of low priority, one after the other. The program never waits for them
// before MPI_Finalize, and does not notice them: they are not its children, so no SIGCHLD comes, and wait() of the
// program does not find them.

#include <string>
#include <vector>

#include "base/descriptor.h"
#include "request/options.h"

namespace lzy::hooks {

/// The drains of this process. Not thread-safe.
class Drains {
 public:
  /// Begins to copy `from` to `to`, both absolute, when the drains before it have ended. Says what keeps it from that.
  void Begin(const Options& options, const std::string& from, const std::string& to);
  /// Waits for all, for option timeout at most, and says which failed, and which go on.
  void Finish(const Options& options);
  bool empty() const { return drains_.empty(); }

 private:
  struct Drain {
    std::string from, to;
    int exit_code = kNone;
    std::string told;  ///< on its standard error
  };
  static constexpr int kNone = -1;  ///< it has not ended

  /// Takes what the processes have written, without waiting. False at the end.
  bool Take();
  void Understand();
  std::string Resume(const Drain& drain) const;

  std::string program_;  // lzy-copy
  std::vector<Drain> drains_;
  /// Where the last process writes what all of them had to say.
  Descriptor output_;
  std::string text_;
};

}  // namespace lzy::hooks
