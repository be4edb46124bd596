#include "base/node.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <string>

namespace lzy {
namespace {

/// What a process that was told to `begin` takes for its node; none if it could not begin so.
std::optional<std::string> NodeOfAnother(const std::function<bool()>& begin) {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    const std::string node = begin() ? ThisNode() : "";
    _exit(write(pipe_ends[1], node.data(), node.size()) == static_cast<ssize_t>(node.size()) ? 0 : 1);
  }
  close(pipe_ends[1]);
  std::array<char, 4096> text{};
  const ssize_t length = read(pipe_ends[0], text.data(), text.size());
  close(pipe_ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || length <= 0) return std::nullopt;
  return std::string(text.data(), static_cast<std::size_t>(length));
}

TEST(ThisNode, IsTheSameForProcessesOfOneNode) {
  EXPECT_FALSE(ThisNode().empty());
  EXPECT_EQ(NodeOfAnother([] { return true; }), ThisNode());
}

TEST(ThisNode, DiffersInOtherNamespacesOfANode) {
  for (const int space : {CLONE_NEWUTS, CLONE_NEWIPC}) {
    const auto node = NodeOfAnother([space] { return unshare(space) == 0; });
    if (!node) GTEST_SKIP() << "no namespaces can be made here";
    EXPECT_NE(*node, ThisNode()) << std::hex << space;
  }
}

// A process namespace is that of the children, never one's own.
TEST(ThisNode, DiffersInAnotherProcessNamespace) {
  const auto node = NodeOfAnother([] {
    if (unshare(CLONE_NEWPID) != 0) return false;
    const pid_t inner = fork();
    if (inner == 0) return true;  // goes on in the namespace, as the one that writes
    int status = 0;
    _exit(waitpid(inner, &status, 0) == inner && status == 0 ? 0 : 1);
  });
  if (!node) GTEST_SKIP() << "no process namespaces can be made here";
  EXPECT_NE(*node, ThisNode());
}

TEST(ThisNode, IsTheSameInAnotherMountNamespace) {
  const auto node = NodeOfAnother([] { return unshare(CLONE_NEWNS) == 0; });
  if (!node) GTEST_SKIP() << "no namespaces can be made here";
  EXPECT_EQ(*node, ThisNode());
}

}  // namespace
}  // namespace lzy
