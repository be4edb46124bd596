#pragma once
// MPI for as long as a tool runs, if it was started by an MPI launcher; otherwise this process alone.

#include <memory>

#include "comm/communicator.h"

namespace lzy {

/// True when the environment has what MPI launchers (PMI, PMIx, Open MPI, hydra) leave there.
bool UnderMpiLauncher();

class MpiSession {
 public:
  /// Initialises MPI under a launcher only: it costs 40-140 ms and more.
  MpiSession();
  /// Finalizes MPI; the communicator goes before.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Not ok: MPI did not start; comm() is this process then.
  const Status& status() const { return status_; }
  Communicator& comm() { return *comm_; }
  /// For failures of this rank alone, which the others cannot learn of otherwise: ends all ranks, with this code.
  void AbortOthers(int exit_code);

 private:
  bool initialized_ = false;
  Status status_;
  std::unique_ptr<Communicator> comm_;
};

}  // namespace lzy
