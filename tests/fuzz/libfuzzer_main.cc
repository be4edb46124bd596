// One target (FUZZ_TARGET) for libFuzzer. With --seeds DIR alone: writes the target's seeds there.
#include <cstring>
#include <fstream>
#include <string>

#include "fuzz/targets.h"

namespace {
const lzy::fuzz::Target& target = lzy::fuzz::FUZZ_TARGET;
}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::strcmp((*argv)[1], "--seeds") != 0) return 0;
  int number = 0;
  for (const lzy::fuzz::Input& seed : target.seeds()) {
    std::ofstream file(std::string((*argv)[2]) + "/seed" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
    if (!file.flush()) std::exit(1);
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  target.run(bytes, size);
  return 0;
}
