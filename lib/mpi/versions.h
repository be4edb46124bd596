#pragma once
// Whether all ranks of a job run the same version of lzy. They do not if the nodes of a job have different installations.
//
// Ranks of different versions must get through this comparison, so its two messages are the same in all versions, for ever:
// the numbers of a VersionVote, and the note of DescribeVersions. What ranks tell each other afterwards may change, and
// kMessages counts that.

#include <mpi.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace lzy {

/// To be counted up whenever what ranks send each other changes, or what all of them work out alike: records, the order of
/// collective calls, plans, placement. Not for sidecars, which have a version of their own.
inline constexpr std::uint32_t kMessages = 8;

struct LzyVersion {
  std::string text;            ///< MAJOR.MINOR.PATCH
  std::uint32_t messages = 0;  ///< kMessages
};
/// That of this process. In a file of its own: tests link programs that tell another one.
LzyVersion OwnVersion();

enum class Mixture : std::uint8_t {
  kSame,
  kMixed,  ///< several versions, whose messages are the same
  kApart,  ///< their messages differ: lzy must not send any
};

/// What a rank brings to a reduction by MPI_MIN: each of two numbers and its negation. The least of these are equal only if
/// all ranks have the same number. A reduction that is needed anyway takes them along.
using VersionVote = std::array<int, 4>;
VersionVote VoteOf(const LzyVersion& version);
/// `least`: the result of the reduction.
Mixture JudgeVotes(const VersionVote& least);

/// Which ranks and nodes have which version, on rank 0; elsewhere an empty text. Collective over `comm`; only for mixtures, so
/// that a job of one version does not pay for it. "1.0.0 on ranks 0, 1 (node1); 1.1.0 on rank 2 (node2)". With kApart, the
/// numbers of the messages, too.
std::string DescribeVersions(MPI_Comm comm, const LzyVersion& own, Mixture mixture);

/// For programs in which all ranks come to the same place: one reduction. kIo, on all ranks, for kApart. `mixed` becomes the
/// description, on rank 0, for kMixed. Collective over `comm`.
Status CompareVersions(MPI_Comm comm, const LzyVersion& own, std::string& mixed);

}  // namespace lzy
