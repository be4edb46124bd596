#pragma once
// Messages on their way, sent without waiting. For rendezvous and announcements, which send in calls that must not wait for other ranks.

#include <mpi.h>

#include <cstdint>
#include <list>
#include <vector>

namespace lzy::hooks {

/// One thread at a time.
class Outbox {
 public:
  /// MPI reads `bytes` until `request` is done, so a list holds these: addresses in it never change.
  struct Sending {
    std::vector<std::uint8_t> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  Outbox(MPI_Comm comm, int tag) : comm_(comm), tag_(tag) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  /// Takes the first of `messages` and sends it to rank `to`. Needs no memory, and never throws.
  void SendFirst(int to, std::list<Sending>& messages);
  /// True if all messages have left.
  bool IsEmpty();
  /// Gives up what has not left. Most MPIs send small messages at once, so a message can only be left if its receiver never looked for it;
  /// waiting for it could hang MPI_Finalize.
  void GiveUp();

 private:
  const MPI_Comm comm_;
  const int tag_;
  std::list<Sending> sending_;
};

}  // namespace lzy::hooks
