// campaign [--tools [--ranks P]] FIRST COUNT: cases of so many seeds; tells every wrong verdict, and in the end what
// there was. With --tools the built programs do the work, with --ranks each run by mpiexec. Exit code 1: there was one.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "campaign/campaign.h"

namespace {

int Usage() {
  std::fprintf(stderr, "usage: campaign [--tools [--ranks P]] FIRST-SEED COUNT\n");
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  bool tools = false;
  int ranks = 0;
  int at = 1;
  if (at < argc && std::strcmp(argv[at], "--tools") == 0) {
    tools = true;
    ++at;
    if (at + 1 < argc && std::strcmp(argv[at], "--ranks") == 0) {
      ranks = std::atoi(argv[at + 1]);
      if (ranks < 1) return Usage();
      at += 2;
    }
  }
  if (argc - at != 2) return Usage();
  const std::uint64_t first = std::strtoull(argv[at], nullptr, 0), count = std::strtoull(argv[at + 1], nullptr, 0);
  std::map<std::string, std::uint64_t> kinds;
  std::uint64_t wrong = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const auto driver =
        tools ? lzy::campaign::ToolsDriver({.seed = seed, .ranks = ranks}) : lzy::campaign::EngineDriver();
    const lzy::campaign::Verdict verdict = lzy::campaign::RunCase(seed, *driver);
    for (const auto& [kind, times] : verdict.count) kinds[kind] += times;
    if (verdict.wrong.empty()) continue;
    ++wrong;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), verdict.wrong.c_str());
    std::fflush(stdout);
  }
  for (const auto& [kind, times] : kinds)
    std::printf("%10llu %s\n", static_cast<unsigned long long>(times), kind.c_str());
  std::printf("%llu cases, %llu wrong verdicts\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(wrong));
  return wrong == 0 ? 0 : 1;
}
