// campaign FIRST COUNT: cases of so many seeds; tells every wrong verdict, and in the end what there was. Exit code 1:
// there was a wrong one.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "campaign/campaign.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: campaign FIRST-SEED COUNT\n");
    return 3;
  }
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 0), count = std::strtoull(argv[2], nullptr, 0);
  std::map<std::string, std::uint64_t> kinds;
  std::uint64_t wrong = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const lzy::campaign::Verdict verdict = lzy::campaign::RunCase(seed);
    for (const auto& [kind, times] : verdict.count) kinds[kind] += times;
    if (verdict.wrong.empty()) continue;
    ++wrong;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), verdict.wrong.c_str());
  }
  for (const auto& [kind, times] : kinds)
    std::printf("%10llu %s\n", static_cast<unsigned long long>(times), kind.c_str());
  std::printf("%llu cases, %llu wrong verdicts\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(wrong));
  return wrong == 0 ? 0 : 1;
}
