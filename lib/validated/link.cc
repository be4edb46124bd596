#include "validated/link.h"

#include <algorithm>
#include <atomic>

#include "transport/mpi_call.h"

namespace lzy::validated {
namespace {

std::atomic<FaultHook> fault_hook{nullptr};

}  // namespace

// Only tests set it. Without a hook, an arrival costs one relaxed load.
void SetFaultHook(FaultHook hook) {
  fault_hook = hook;
}

void Link::Arrived(MessagePart part, int from, MutableByteSpan content) const {
  if (const FaultHook hook = fault_hook.load(std::memory_order_relaxed); hook != nullptr && !content.empty()) {
    hook({part, from, rank_}, content);
  }
}

Result<std::shared_ptr<Link>> Link::Make(MPI_Comm comm, const Sizes& sizes) {
  MPI_Comm outer = MPI_COMM_NULL;
  LZY_RETURN_IF_ERROR(CopyComm(comm, outer));
  std::shared_ptr<Link> link(new Link(outer, SizesFor(0, sizes)));
  LZY_RETURN_IF_ERROR(link->Prepare());
  return link;
}

// No outer communicator and no tags of a program: only collective calls go over it.
std::unique_ptr<Link> Link::Over(MPI_Comm comm, int rank, int size) {
  std::unique_ptr<Link> link(new Link(MPI_COMM_NULL, SizesFor(0, {})));
  link->inner_ = comm;
  link->rank_ = rank;
  link->size_ = size;
  return link;
}

Status Link::Prepare() {
  LZY_RETURN_IF_ERROR(CopyComm(outer_, inner_));
  LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Comm_rank(outer_, &rank_), "MPI_Comm_rank"));
  LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Comm_size(outer_, &size_), "MPI_Comm_size"));
  int* most = nullptr;
  int found = 0;
  LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Comm_get_attr(outer_, MPI_TAG_UB, &most, &found), "MPI_Comm_get_attr"));
  // The last tag on the inner communicator, 4t + 3, must not exceed MPI's largest. The standard guarantees 32767.
  most_tag_ = ((found != 0 ? *most : 32767) - 3) / 4;
  return Status::Ok();
}

// After MPI_Finalize, no communicator may be freed.
Link::~Link() {
  if (outer_ == MPI_COMM_NULL) return;
  int finalized = 0;
  if (PMPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  if (inner_ != MPI_COMM_NULL) PMPI_Comm_free(&inner_);
  PMPI_Comm_free(&outer_);
}

// Tickets ascend over all lanes. A queue lives as long as somebody is in it.
Link::Turn::Turn(Link& link, const Lane& lane) : link_(link), lane_(lane), ticket_(link.tickets_++) {
  link_.lanes_[lane_].push_back(ticket_);
}

bool Link::Turn::come() const {
  return link_.lanes_.find(lane_)->second.front() == ticket_;
}

// The ticket need not be the first: a task may be destroyed while it waits for its turn.
Link::Turn::~Turn() {
  const auto queue = link_.lanes_.find(lane_);
  std::erase(queue->second, ticket_);
  if (queue->second.empty()) link_.lanes_.erase(queue);
}

Link::Expected::Expected(Link& link, int source, int tag)
    : link_(link), place_(link.expected_.insert(link.expected_.end(), {source, tag})) {}

Link::Expected::~Expected() {
  link_.expected_.erase(place_);
}

// Walks through the receives that were posted before this one and have not found their announcement yet.
bool Link::Expected::FirstFor(int source, int tag) const {
  return std::none_of(link_.expected_.begin(), place_, [&](const auto& earlier) {
    return (earlier.first == source || earlier.first == MPI_ANY_SOURCE) && (earlier.second == tag || earlier.second == MPI_ANY_TAG);
  });
}

}  // namespace lzy::validated
