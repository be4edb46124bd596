#include "hooks/sets/outbox.h"

namespace lzy::hooks {

// Splicing allocates nothing and keeps the address of the bytes that MPI will read.
void Outbox::SendFirst(int to, std::list<Sending>& messages) {
  (void)IsEmpty();
  sending_.splice(sending_.end(), messages, messages.begin());
  Sending& sending = sending_.back();
  if (PMPI_Isend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE, to, tag_, comm_, &sending.request) != MPI_SUCCESS) {
    sending_.pop_back();
  }
}

bool Outbox::IsEmpty() {
  sending_.remove_if([](Sending& one) {
    int done = 0;
    return PMPI_Test(&one.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
  });
  return sending_.empty();
}

void Outbox::GiveUp() {
  if (IsEmpty()) return;
  for (Sending& sending : sending_) {
    PMPI_Cancel(&sending.request);
    PMPI_Request_free(&sending.request);
  }
  sending_.clear();
}

}  // namespace lzy::hooks
