#pragma once
// Sends records (base/record.h) between ranks: those of all ranks to all, or that of one rank to all. All calls are
// collective. A rank that runs out of memory still takes part, and the others get a malformed record. If all ranks must
// continue in the same way, Agree on the status.

#include <iterator>
#include <vector>

#include "base/record.h"
#include "comm/communicator.h"

namespace lzy {

/// Returns the record of each rank, by rank.
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

/// Returns the lists of all ranks, one after the other.
template <class T>
Result<std::vector<T>> UniteRecords(Communicator& comm, const std::vector<T>& mine) {
  LZY_ASSIGN_OR_RETURN(auto lists, AllGatherRecords(comm, mine));
  std::vector<T> out;
  for (auto& list : lists) std::move(list.begin(), list.end(), std::back_inserter(out));
  return out;
}

/// Replaces `value` on the other ranks by that of rank `root`. May be a tuple of references (std::tie).
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
