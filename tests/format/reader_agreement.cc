// Makes datasets for tests/format/reader_agreement.py: random geometries, sizes and histories, protected by the engine.
//
//   reader_agreement DIRECTORY SEED COUNT
//
// Prints a line for each: the root, then the paths of its files, all separated by tabs.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "engine_fixture.h"
#include "sidecar/names.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

/// What a dataset may have gone through since its first commit. False: it went wrong.
bool Live(Rng& rng, const Sample& sample, DatasetReport& report) {
  auto self = SelfCommunicator();
  const Context context{PosixFileSystem(), *self, sample.options};
  switch (Below(rng, 4)) {
    case 0:
      return true;
    case 1: {  // epochs, committed in place where that can be done
      const int ranks = sample.kind == DatasetKind::kSet ? static_cast<int>(sample.files.size()) : 1;
      for (std::uint64_t epochs = 1 + Below(rng, 3); epochs > 0; --epochs) {
        std::vector<Edits> edits(static_cast<std::size_t>(ranks));
        for (std::uint32_t f = 0; f < sample.files.size(); ++f) {
          if (!BeginEpoch(PosixFileSystem(), sample.options, sample.files[f],
                          sample.kind == DatasetKind::kSet ? sample.path : "")
                   .ok())
            return false;
          EditFile(rng, sample.files[f], sample.options.block_size, edits[f % edits.size()][f]);
        }
        RunRanks(ranks, [&](Communicator& comm) {
          ProtectRequest request;
          request.touched = edits[static_cast<std::size_t>(comm.rank())];
          DatasetReport one =
              Protect(Context{PosixFileSystem(), comm, sample.options}, RefOf(comm, sample.path), request);
          if (comm.rank() == 0) report = std::move(one);
        });
      }
      return report.status.ok();
    }
    case 2: {  // a device lost and brought back
      if (sample.options.parity == 0) return true;
      if (sample.kind == DatasetKind::kSet) {
        const std::string& lost = sample.files[Below(rng, sample.files.size())];
        if (OneIn(rng, 2)) std::filesystem::remove(lost);
        std::filesystem::remove(*SidecarPath(lost));
      } else {
        Rot(rng, sample.path, Below(rng, ReadFile(sample.path).size()), 1);
      }
      const DatasetReport restored = Restore(context, RefOf(*self, sample.path), {});
      return ExitCodeOf(restored) == 0;
    }
    default: {  // an edit, refreshed by lzy-protect
      IntervalSet ignored;
      EditFile(rng, sample.files[Below(rng, sample.files.size())], sample.options.block_size, ignored);
      report = Protect(context, RefOf(*self, sample.path), {});
      return report.status.ok();
    }
  }
}

int Main(int argc, char** argv) {
  if (argc != 4) return 3;
  const std::string directory = argv[1];
  const std::uint64_t seed = std::strtoull(argv[2], nullptr, 0), count = std::strtoull(argv[3], nullptr, 0);
  auto self = SelfCommunicator();
  for (std::uint64_t i = 0; i < count; ++i) {
    Rng rng(seed + i);
    const std::string place = directory + "/" + std::to_string(i);
    std::filesystem::create_directories(place);
    SampleLimits limits;
    limits.bytes = 256u << 10;
    Sample sample = MakeSample(rng, place, limits);
    const bool in_directories = sample.kind == DatasetKind::kShared && OneIn(rng, 3);
    for (std::uint64_t d = in_directories ? sample.options.parity + 1 + Below(rng, 5) : 0; d > 0; --d) {
      sample.options.device_dirs.push_back(place + "/device" + std::to_string(d));
      std::filesystem::create_directory(sample.options.device_dirs.back());
    }
    DatasetReport report =
        Protect({PosixFileSystem(), *self, sample.options}, RefOf(*self, sample.path, Resolve::kProtectable), {});
    if (!report.status.ok() || !Live(rng, sample, report)) {
      std::fprintf(stderr, "seed %llu: %s: %s\n", static_cast<unsigned long long>(seed + i), sample.Describe().c_str(),
                   report.status.message().c_str());
      return 1;
    }
    std::printf("%s", report.root.Hex().c_str());
    for (const std::string& file : sample.files) std::printf("\t%s", file.c_str());
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace lzy::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return lzy::testing::Main(argc, argv);
}
