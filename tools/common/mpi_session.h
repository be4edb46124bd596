#pragma once
// MPI for the lifetime of a tool, if an MPI launcher started it; otherwise this process alone. RunTool creates it first and
// destroys it last.

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace lzy {

/// One for each process. Construction and destruction are collective.
class MpiSession {
 public:
  /// Initialises MPI only under a launcher, because that takes 40 to 140 ms and more.
  MpiSession();
  /// Frees the communicator, then finalizes MPI.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Not ok: MPI did not start, and comm() has only this process. Or: the ranks run versions of lzy that do not understand
  /// each other, and only comm().rank() may be used.
  const Status& status() const { return status_; }
  /// Valid until this session is destroyed.
  Communicator& comm() { return *comm_; }
  /// The number of processes that the launcher started, if MPI connects none of them, because launcher and program use
  /// different MPI libraries. Set only on the first of these processes; otherwise 0.
  int started_apart() const { return started_apart_; }
  /// On rank 0, if the ranks run several versions of lzy: which ranks run which. Otherwise empty.
  const std::string& versions() const { return versions_; }
  /// Ends all ranks with this code. Call it after a failure of this rank that it cannot report to the others. Does nothing
  /// if there are no others.
  void AbortOthers(int exit_code);

 private:
  bool initialized_ = false;
  int started_apart_ = 0;
  std::string versions_;
  Status status_;
  std::unique_ptr<Communicator> comm_;
};

}  // namespace lzy
