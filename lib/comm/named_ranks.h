#pragma once
// Names of ranks for messages. Ranks of most communicators have numbers only.

#include <string>

#include "comm/communicator.h"

namespace lzy {

/// A base for communicators that know better names.
class NamedRanks {
 public:
  virtual ~NamedRanks() = default;
  /// Empty: messages do not name the rank.
  virtual std::string name_of(int rank) const = 0;
};

/// What messages call a rank: "rank 3", or its name. Local.
inline std::string NameOfRank(const Communicator& comm, int rank) {
  const auto* const named = dynamic_cast<const NamedRanks*>(&comm);
  return named == nullptr ? "rank " + std::to_string(rank) : named->name_of(rank);
}

}  // namespace lzy
