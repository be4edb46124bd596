#pragma once
// The end of every validated collective call: whoever lacks something asks, whoever has it answers, until all are done.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/task.h"
#include "validated/link.h"
#include "validated/mend.h"

namespace lzy::validated {

/// A rank in one collective call. It answers requests from Serve on, while it does whatever else; Finish waits until
/// nobody can ask any more. Nobody counts answers: who has all it needs enters a barrier, which nobody passes before all have entered
/// it, and goes on answering meanwhile (the nonblocking consensus of Hoefler, Siebert and Lumsdaine). A barrier has no content that a fault could
/// change.
class Together {
 public:
  explicit Together(Link& link)
      : link_(link), request_tag_(0), reply_tag_(0) {
    const std::uint64_t call = link.NextCall();
    request_tag_ = Link::TogetherRequestTag(call);
    reply_tag_ = Link::TogetherReplyTag(call);
  }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  /// How to ask rank `rank` in this call.
  Peer Ask(int rank) { return {&link_, rank, request_tag_, reply_tag_, true}; }

  /// Answers from here on by `answers`, which must outlive Finish; without any, says that there is nothing to be had.
  void Serve(Answers* answers);
  /// Tells rank `rank`, whose bytes they are, that they could not be proven.
  Task GiveUp(int rank);
  /// Who gave up, whosever bytes it was about; complete after Finish.
  const std::vector<int>& gave_up() const { return gave_up_; }
  /// This rank needs nothing more. kCorrupt when others gave up on what this one answers for.
  Task Finish();

 private:
  Task Answer();
  /// Whether a request is there, which `request_` then is, or there will be none.
  bool Found();

  Link& link_;
  int request_tag_;
  int reply_tag_;
  Answers* answers_ = nullptr;
  Task answering_{nullptr};
  bool ended_ = false;
  MPI_Message request_ = MPI_MESSAGE_NULL;
  MPI_Status envelope_{};
  Status trouble_;
  std::string given_up_;  // who, and on what
  std::vector<int> gave_up_;
};

}  // namespace lzy::validated
