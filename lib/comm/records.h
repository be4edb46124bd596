#pragma once
// Records (base/record.h) between ranks: every rank's on every rank, or one rank's on all. All collective. A rank that runs out of
// memory takes part all the same, and the others see a malformed record; where all ranks must go the same way afterwards, Agree on
// the status.

#include <iterator>
#include <vector>

#include "base/record.h"
#include "comm/communicator.h"

namespace lzy {

/// What each rank brings, by rank.
template <class T>
Result<std::vector<T>> AllGatherRecords(Communicator& comm, const T& mine) {
  Communicator::Bytes bytes;
  Status status = NoThrow([&] { bytes = EncodeRecord(mine); });
  const auto all = comm.AllGather(bytes);
  if (status.ok()) status = all.status();
  std::vector<T> out;
  if (status.ok()) {
    status = NoThrow([&]() -> Status {
      for (const auto& one : *all) {
        LZY_ASSIGN_OR_RETURN(T theirs, DecodeRecord<T>(one));
        out.push_back(std::move(theirs));
      }
      return Status::Ok();
    });
  }
  LZY_RETURN_IF_ERROR(status);
  return out;
}

/// What all ranks list, one after the other.
template <class T>
Result<std::vector<T>> UniteRecords(Communicator& comm, const std::vector<T>& mine) {
  LZY_ASSIGN_OR_RETURN(auto lists, AllGatherRecords(comm, mine));
  std::vector<T> out;
  for (auto& list : lists) std::move(list.begin(), list.end(), std::back_inserter(out));
  return out;
}

/// `value` of rank `root` replaces `value` on the others. May be a tuple of references (std::tie).
template <class T>
Status BroadcastRecord(Communicator& comm, T& value, int root = 0) {
  const bool speaks = comm.rank() == root;
  Communicator::Bytes bytes;
  Status status = NoThrow([&] {
    if (speaks) bytes = EncodeRecord(value);
  });
  const Status sent = comm.Broadcast(bytes, root);
  if (status.ok()) status = sent;
  LZY_RETURN_IF_ERROR(status);
  if (speaks) return Status::Ok();
  return NoThrow([&] { return DecodeRecord(bytes, value); });
}

}  // namespace lzy
