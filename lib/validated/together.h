#pragma once
// The end of every validated collective call: ranks that lack data ask, ranks that have them answer, until all are done.
// Used by broadcast.cc, all_gather.cc and proven_records.cc.
//
// A rank does not know how many requests it will get. A rank that has all its data enters a nonblocking barrier, and
// continues to answer until the barrier is complete: then all ranks have entered it, and no further request can come. This
// is the nonblocking consensus of Hoefler, Siebert and Lumsdaine. A barrier has no content that could arrive wrong.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/task.h"
#include "validated/dialogue.h"
#include "validated/link.h"

namespace lzy::validated {

/// One rank's side of one collective call. Call Serve once, ask others, then Finish once. Serve and the tasks run
/// under the mutex of the Pump; it must also be held for the destruction if the call has not been finished. Must
/// outlive its tasks.
class Together {
 public:
  /// Takes the next call number of `link`, so all ranks must make them in the same order.
  explicit Together(Link& link)
      : link_(link), request_tag_(0), reply_tag_(0) {
    const std::uint64_t call = link.NextCall();
    request_tag_ = Link::TogetherRequestTag(call);
    reply_tag_ = Link::TogetherReplyTag(call);
  }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  /// The peer for requests to rank `rank` in this call. Requests are synchronous: a request that is done has arrived. So no
  /// request is on its way when this rank enters the barrier.
  Peer Ask(int rank) { return {&link_, rank, request_tag_, reply_tag_, true}; }

  /// Answers requests from here on by `answers`, which must outlive Finish. Null: refuses everything, because this
  /// rank has nothing proven.
  void Serve(Answers* answers);
  /// Sends "given up" to `rank`, the owner of bytes that could not be proven. Run it before Finish.
  Task GiveUp(int rank);
  /// The ranks that gave up and reported this to this rank. Complete after Finish.
  const std::vector<int>& gave_up() const { return gave_up_; }
  /// Announces that this rank needs nothing more, and waits until this is so on all ranks. kCorrupt, with their names, if
  /// other ranks gave up on bytes of this rank.
  Task Finish();

 private:
  Task Answer();
  /// True if a request is there (then it is in request_), or if no more requests will come.
  bool Found();

  Link& link_;
  int request_tag_;
  int reply_tag_;
  Answers* answers_ = nullptr;
  /// Runs from Serve to Finish.
  Task answering_{nullptr};
  /// The barrier is complete.
  bool ended_ = false;
  MPI_Message request_ = MPI_MESSAGE_NULL;
  MPI_Status envelope_{};
  Status trouble_;
  /// For the error message: the ranks that gave up, and the bytes.
  std::string given_up_;
  std::vector<int> gave_up_;
};

}  // namespace lzy::validated
