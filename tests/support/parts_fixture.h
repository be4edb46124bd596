#pragma once
// A shared file with device directories: real files, protected and verified with one rank or several.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "sidecar/names.h"
#include "thread_communicator.h"

namespace lzy::testing {

namespace fs = std::filesystem;

class PartsTest : public ::testing::Test {
 protected:
  PartsTest() {
    options_.block_size = 512;
    options_.stripe = 2048;
    options_.threads = 1;
    options_.given = {"block-size", "stripe", "parity", "group", "device-dirs"};
    path_ = scratch_ / "f";
    other_.block_size = options_.block_size;
  }

  void UseDirectories(std::uint32_t count, std::uint32_t parity, std::uint32_t group = 8) {
    options_.device_dirs.clear();
    for (std::uint32_t d = 0; d < count; ++d) {
      options_.device_dirs.push_back(scratch_ / fmt::format("dev{}", d));
      fs::create_directories(options_.device_dirs.back());
    }
    options_.parity = parity;
    options_.group = group;
  }
  void MakeFile(std::uint64_t size) {
    WriteFile(path_, RandomBytes(rng_, size));
    SetMtime(path_, 1'600'000'000'000'000'000);
  }

  template <class Work>
  DatasetReport On(int ranks, const Work& work) {
    DatasetReport made;
    std::mutex mutex;
    RunRanks(ranks, [&](Communicator& comm) {
      const DatasetReport report = work(comm);
      const std::lock_guard lock(mutex);
      if (comm.rank() == 0) made = report;
    });
    return made;
  }
  DatasetReport ProtectIt(int ranks = 1, const ProtectRequest& request = {}) {
    return On(ranks, [&](Communicator& comm) { return Protect({PosixFileSystem(), comm, options_}, Ref(), request); });
  }
  DatasetReport VerifyIt(const Options& options, bool repair = false, int ranks = 1) {
    VerifyRequest request;
    request.repair = repair;
    return On(ranks, [&](Communicator& comm) { return Verify({PosixFileSystem(), comm, options}, Ref(), request); });
  }
  DatasetReport RestoreIt(const Options& options, std::vector<std::uint32_t> devices = {}, int ranks = 1) {
    RestoreRequest request;
    request.devices = std::move(devices);
    return On(ranks, [&](Communicator& comm) { return Restore({PosixFileSystem(), comm, options}, Ref(), request); });
  }
  /// A few bytes written, and committed as the hooks do.
  DatasetReport SmallEpoch() {
    WriteAt(path_, 100, Bytes(50, 7));
    IntervalSet touched;
    AddTouched(touched, 100, 50);
    ProtectRequest request;
    request.touched = Edits{{0, touched}};
    return ProtectIt(1, request);
  }
  DatasetRef Ref() const { return {DatasetKind::kShared, path_, {}}; }
  std::vector<std::string> Parts(std::uint32_t device) const {
    std::vector<std::string> parts;
    for (const auto& entry : fs::directory_iterator(options_.device_dirs[device])) parts.push_back(entry.path());
    return parts;
  }
  std::string Part(std::uint32_t device) const {
    const auto parts = Parts(device);
    EXPECT_EQ(parts.size(), 1u);
    return parts.empty() ? "" : parts[0];
  }
  std::string SidecarOf(const std::string& path) const { return *SidecarPath(path); }
  /// The device's units of the file, and its part, are gone.
  void LoseDevice(const DatasetReport& report, std::uint32_t device) {
    const std::uint64_t size = fs::file_size(path_), unit = report.unit;
    for (std::uint64_t x = device; x * unit < size; x += report.devices) {
      Rot(rng_, path_, x * unit, std::min(unit, size - x * unit));
    }
    fs::remove(Part(device));
  }
  static std::string StateOf(const DatasetReport& report) {
    return report.status.ok() ? Name(report.state) : report.status.message();
  }

  Rng rng_{SeedOf(1)};
  Scratch scratch_;
  std::string path_;
  Options options_;
  Options other_;  // who is not told of directories
};

}  // namespace lzy::testing
