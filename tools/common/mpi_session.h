#pragma once
// MPI for as long as a tool runs, if an MPI launcher started it; otherwise this process alone. Made first and
// destroyed last in RunTool.

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace lzy {

/// One for each process. Collective to make and to destroy.
class MpiSession {
 public:
  /// Initialises MPI only under a launcher, because that takes 40 to 140 ms and more.
  MpiSession();
  /// Frees the communicator, then finalizes MPI.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// If not ok, MPI did not start, and comm() is this process alone; or the ranks run versions of lzy that do not understand
  /// each other, and only comm().rank() may be relied on.
  const Status& status() const { return status_; }
  /// Valid as long as the session.
  Communicator& comm() { return *comm_; }
  /// How many processes the launcher started, if MPI sees only this one of them and this is the first; otherwise 0. Then
  /// launcher and program are of different MPIs.
  int started_apart() const { return started_apart_; }
  /// On rank 0, which ranks have which version of lzy, if there are several; otherwise empty.
  const std::string& versions() const { return versions_; }
  /// Ends all ranks with this code, after a failure of this rank alone that the others cannot learn of. Does nothing
  /// without others.
  void AbortOthers(int exit_code);

 private:
  bool initialized_ = false;
  int started_apart_ = 0;
  std::string versions_;
  Status status_;
  std::unique_ptr<Communicator> comm_;
};

}  // namespace lzy
