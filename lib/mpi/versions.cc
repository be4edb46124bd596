#include "mpi/versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "base/bytes.h"
#include "base/printable.h"
#include "transport/mpi_call.h"

namespace lzy {
namespace {

// The note of a rank: its version, its node, each cut off and filled up with zeros, and the number of its messages.
constexpr std::size_t kVersionBytes = 56, kNodeBytes = 256, kNoteBytes = kVersionBytes + kNodeBytes + 8;
constexpr std::size_t kMostRanksListed = 8, kMostNodesListed = 4;

// 1.2.3 is 1002003. Two versions with the same number count as the same.
int NumberOf(const std::string& text) {
  int number = 0;
  const char* at = text.c_str();
  for (int part = 0; part < 3; ++part) {
    char* end = nullptr;
    const unsigned long value = std::strtoul(at, &end, 10);
    number = number * 1000 + static_cast<int>(std::min(value, 999UL));
    at = *end == '.' ? end + 1 : end;
  }
  return number;
}

std::vector<std::uint8_t> VersionNoteOf(const LzyVersion& own) {
  std::string node(MPI_MAX_PROCESSOR_NAME + 1, '\0');
  int length = 0;
  if (PMPI_Get_processor_name(node.data(), &length) != MPI_SUCCESS) length = 0;
  std::vector<std::uint8_t> note(kNoteBytes);
  std::memcpy(note.data(), own.text.data(), std::min(own.text.size(), kVersionBytes - 1));
  std::memcpy(note.data() + kVersionBytes, node.data(), std::min(static_cast<std::size_t>(length), kNodeBytes - 1));
  ByteWriter number;
  number.Put<std::uint64_t>(own.messages);
  std::ranges::copy(number.bytes(), note.begin() + kVersionBytes + kNodeBytes);
  return note;
}

// A field of a note. Its last byte is zero, unless the note does not come from lzy.
std::string FieldAt(const std::uint8_t* at, std::size_t most) {
  const auto* end = std::find(at, at + most, std::uint8_t{0});
  return {at, end};
}

struct Users {
  std::set<int> ranks;
  std::set<std::string> nodes;
};

}  // namespace

VersionVote VoteOf(const LzyVersion& version) {
  const int number = NumberOf(version.text), messages = static_cast<int>(version.messages);
  return {messages, -messages, number, -number};
}

Mixture JudgeVotes(const VersionVote& least) {
  if (least[0] != -least[1]) return Mixture::kApart;
  return least[2] != -least[3] ? Mixture::kMixed : Mixture::kSame;
}

std::string DescribeVersions(MPI_Comm comm, const LzyVersion& own, Mixture mixture) {
  int rank = 0;
  int size = 0;
  if (PMPI_Comm_rank(comm, &rank) != MPI_SUCCESS || PMPI_Comm_size(comm, &size) != MPI_SUCCESS) return {};
  const std::vector<std::uint8_t> mine = VersionNoteOf(own);
  std::vector<std::uint8_t> all(rank == 0 ? kNoteBytes * static_cast<std::size_t>(size) : 0);
  const int bytes = static_cast<int>(kNoteBytes);
  if (PMPI_Gather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, 0, comm) != MPI_SUCCESS || rank != 0) return {};
  std::map<std::pair<std::string, std::uint64_t>, Users> versions;
  for (int r = 0; r < size; ++r) {
    const std::uint8_t* const note = all.data() + kNoteBytes * static_cast<std::size_t>(r);
    ByteReader number(ByteSpan(note + kVersionBytes + kNodeBytes, sizeof(std::uint64_t)));
    Users& users = versions[{FieldAt(note, kVersionBytes), number.Get<std::uint64_t>()}];
    users.ranks.insert(r);
    users.nodes.insert(FieldAt(note + kVersionBytes, kNodeBytes));
  }
  std::string text;
  for (const auto& [version, users] : versions) {
    const std::string messages = mixture == Mixture::kApart ? fmt::format(" (messages of form {})", version.second) : "";
    text += fmt::format("{}{}{} on {} {} ({})", text.empty() ? "" : "; ", version.first, messages, users.ranks.size() == 1 ? "rank" : "ranks",
                        FirstOf(users.ranks, kMostRanksListed), FirstOf(users.nodes, kMostNodesListed));
  }
  return text;
}

Status CompareVersions(MPI_Comm comm, const LzyVersion& own, std::string& mixed) {
  const VersionVote mine = VoteOf(own);
  VersionVote least = mine;
  LZY_RETURN_IF_ERROR(CallMpi("MPI_Iallreduce", [&](MPI_Request* request) {
    return PMPI_Iallreduce(mine.data(), least.data(), static_cast<int>(mine.size()), MPI_INT, MPI_MIN, comm, request);
  }));
  const Mixture mixture = JudgeVotes(least);
  if (mixture == Mixture::kSame) return Status::Ok();
  const std::string versions = DescribeVersions(comm, own, mixture);
  if (mixture == Mixture::kMixed) {
    mixed = versions;
    return Status::Ok();
  }
  return {Code::kIo, fmt::format("the ranks run versions of lzy that do not understand each other: {}. Install one version on all nodes", versions)};
}

}  // namespace lzy
