#pragma once
// The end of every validated collective call: a rank that lacks something asks, a rank that has it answers, until all
// are done. Used by broadcast.cc, all_gather.cc and records.cc.
//
// A rank does not know how many requests it will get, and nobody counts them. A rank that has all it needs enters a
// nonblocking barrier, and goes on answering until the barrier is complete: then all ranks have entered it, and
// nobody can ask any more. This is the nonblocking consensus of Hoefler, Siebert and Lumsdaine. A barrier has no
// content that could arrive wrong.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/task.h"
#include "validated/link.h"
#include "validated/mend.h"

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

  /// How to ask rank `rank` in this call. Requests are synchronous: a request has arrived when it is done. So no
  /// request is on its way when this rank enters the barrier.
  Peer Ask(int rank) { return {&link_, rank, request_tag_, reply_tag_, true}; }

  /// Answers requests from here on by `answers`, which must outlive Finish. Null: refuses everything, because this
  /// rank has nothing proven.
  void Serve(Answers* answers);
  /// Tells `rank`, the owner of the bytes, that they could not be proven. To be done before Finish.
  Task GiveUp(int rank);
  /// The ranks that gave up and told this one. Complete after Finish.
  const std::vector<int>& gave_up() const { return gave_up_; }
  /// Says that this rank needs nothing more, and waits until no rank does. kCorrupt if others gave up on bytes of
  /// this rank; names them.
  Task Finish();

 private:
  Task Answer();
  /// True if a request is there (then in request_), or if there will be none any more.
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
  /// For the error message: who gave up, and on what.
  std::string given_up_;
  std::vector<int> gave_up_;
};

}  // namespace lzy::validated
