#include "common/mpi_session.h"

#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/launcher_variables.h"
#include "mpi/finalize_progress.h"
#include "mpi/mpi_communicator.h"
#include "mpi/versions.h"

namespace lzy {

namespace {

/// True if the environment has what MPI launchers (PMI, PMIx, Open MPI, hydra) leave there.
bool UnderMpiLauncher() {
  for (const char* name : kLauncherVariables) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// By the variables of hydra and of Open MPI. One process reports for all.
int StartedApart() {
  const std::pair<const char*, const char*> kLaunchers[] = {{"PMI_SIZE", "PMI_RANK"},
                                                            {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}};
  for (const auto& [size, rank] : kLaunchers) {
    const char* processes = std::getenv(size);
    const char* own = std::getenv(rank);
    if (processes != nullptr && own != nullptr && std::strcmp(own, "0") == 0 && std::atoi(processes) > 1) {
      return std::atoi(processes);
    }
  }
  return 0;
}

}  // namespace

MpiSession::MpiSession() {
  if (UnderMpiLauncher()) {
    int provided = MPI_THREAD_SINGLE;
    ServeNetworkInFinalize();
    // The engine has threads, but only one at a time calls MPI.
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
      status_ = Status(Code::kMpi, "MPI_Init_thread failed");
    } else {
      initialized_ = true;
      auto comm = MpiCommunicator(MPI_COMM_WORLD);
      status_ = comm.status();
      if (comm.ok()) comm_ = std::move(comm).value();
      if (status_.ok()) status_ = CompareVersions(MPI_COMM_WORLD, OwnVersion(), versions_);
      if (comm_ && comm_->size() == 1) started_apart_ = StartedApart();
    }
  }
  if (!comm_) comm_ = SelfCommunicator();
}

MpiSession::~MpiSession() {
  // The communicator must be freed before MPI_Finalize.
  comm_.reset();
  if (initialized_) MPI_Finalize();
}

void MpiSession::AbortOthers(int exit_code) {
  if (initialized_ && comm_->size() > 1) MPI_Abort(MPI_COMM_WORLD, exit_code);
}

}  // namespace lzy
