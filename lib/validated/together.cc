#include "validated/together.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "transport/mpi_call.h"

namespace lzy::validated {

// A matched probe takes the request out of MPI's queue, so no other receive can get it. The test for `found` comes
// before that for the end: requests that have arrived are answered.
bool Together::Found() {
  int found = 0;
  const int error = PMPI_Improbe(MPI_ANY_SOURCE, request_tag_, link_.inner(), &found, &request_, &envelope_);
  if (error != MPI_SUCCESS) trouble_ = CheckMpi(error, "MPI_Improbe");
  return found != 0 || ended_ || !trouble_.ok();
}

void Together::Serve(Answers* answers) {
  answers_ = answers;
  answering_ = Answer();
  answering_.Start();
}

// The loop that answers, one request after the other. It may wait for its own reply to be sent: the other side has
// posted the receive before it asked (Ask in dialogue.cc).
Task Together::Answer() {
  Pump& pump = Pump::OfProcess();
  Bytes content(kMostRequest);
  // The last request of each rank: if the rank gives up, it could not prove these bytes.
  std::map<int, std::vector<Interval>> doubts;
  for (;;) {
    request_ = MPI_MESSAGE_NULL;
    co_await pump.Until([this] { return Found(); });
    if (request_ == MPI_MESSAGE_NULL) co_return trouble_;
    Message came, answer;
    came.Begin("MPI_Imrecv", [&](MPI_Request* r) {
      return PMPI_Imrecv(content.data(), static_cast<int>(content.size()), MPI_BYTE, &request_, r);
    });
    LZY_CO_RETURN_IF_ERROR(co_await pump.Done(came));
    const int from = came.source();
    const MutableByteSpan request(content.data(), static_cast<std::size_t>(came.length()));
    // An end without a reply.
    if (request.size() == kGivenUp) {
      gave_up_.push_back(from);
      given_up_ += fmt::format("{}rank {} could not prove {} of this rank's", given_up_.empty() ? "" : "; ", from,
                               doubts.contains(from) ? RangesText(doubts[from]) : "any");
      continue;
    }
    if (request.size() > kMostSignal) link_.Arrived(MessagePart::kRequest, from, request);
    if (answers_ != nullptr) answers_->ForgetDoubts();
    // Refuses if there are no data to answer from, or no memory for a reply. The asking rank must get a reply in any case.
    Bytes reply = SignalOf(kRefused);
    if (answers_ != nullptr) (void)NoThrow([&] { reply = answers_->To(request); });
    if (answers_ != nullptr && !answers_->in_doubt().empty()) doubts[from] = answers_->in_doubt();
    answer.Send(reply, from, reply_tag_, link_.inner());
    LZY_CO_RETURN_IF_ERROR(co_await pump.Done(answer));
  }
}

Task Together::GiveUp(int rank) {
  return SendSignal(Ask(rank), kGivenUp);
}

// `ended_` makes the answering task return. It is awaited before this returns, because it refers to this object.
Task Together::Finish() {
  Pump& pump = Pump::OfProcess();
  Message barrier;
  barrier.Begin("MPI_Ibarrier", [&](MPI_Request* r) { return PMPI_Ibarrier(link_.inner(), r); });
  Status status = co_await pump.Done(barrier);
  ended_ = true;
  if (!answering_.done()) co_await pump.Until([this] { return answering_.done(); });
  if (status.ok()) status = answering_.status();
  if (status.ok() && !given_up_.empty()) status = Status(Code::kCorrupt, given_up_);
  co_return status;
}

}  // namespace lzy::validated
