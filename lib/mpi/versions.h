#pragma once
// Compares the versions of lzy on all ranks of a job. They differ if the nodes of a job have different installations.
//
// Ranks of different versions must be able to make this comparison, so its two messages are the same in all versions, for
// ever: the numbers of a VersionVote, and the note of DescribeVersions. Later messages between ranks may change, and
// kMessages counts these changes.

#include <mpi.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace lzy {

/// Increase it whenever a message between ranks changes, or a result that all ranks compute alike: records, the order of
/// collective calls, plans, placement. Not for sidecars, which have a version of their own.
inline constexpr std::uint32_t kMessages = 14;

struct LzyVersion {
  std::string text;            ///< MAJOR.MINOR.PATCH
  std::uint32_t messages = 0;  ///< kMessages
};
/// The version of this process. In a file of its own, so that tests can link programs with another version.
LzyVersion OwnVersion();

enum class Mixture : std::uint8_t {
  kSame,
  kMixed,  ///< several versions with the same messages
  kApart,  ///< their messages differ: lzy must not send any
};

/// The contribution of a rank to a reduction by MPI_MIN: each of two numbers and its negation. The minima are equal only if
/// all ranks have the same number. A reduction that is needed anyway also carries these.
using VersionVote = std::array<int, 4>;
VersionVote VoteOf(const LzyVersion& version);
/// `least`: the result of the reduction.
Mixture JudgeVotes(const VersionVote& least);

/// The ranks and nodes of each version, on rank 0; an empty text on other ranks. Collective over `comm`. Call it only if
/// versions differ, so that other jobs do not pay for it. "1.0.0 on ranks 0, 1 (node1); 1.1.0 on rank 2 (node2)". With
/// kApart, also has the numbers of the messages.
std::string DescribeVersions(MPI_Comm comm, const LzyVersion& own, Mixture mixture);

/// For programs in which all ranks come to the same place: one reduction. Returns kIo on all ranks for kApart. For kMixed,
/// sets `mixed` to the description on rank 0. Collective over `comm`.
Status CompareVersions(MPI_Comm comm, const LzyVersion& own, std::string& mixed);

}  // namespace lzy
