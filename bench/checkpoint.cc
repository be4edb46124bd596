// What protection costs a program that writes checkpoints through MPI-IO.
//
// Two kinds of runs take turns, --repeat times each. `bare` writes a shared file (with --set, files of its own on
// every rank) and closes it. `protected` does the same and then calls lzy_protect, without any sidecars there before.
// Both begin without files and end when the last rank is done. Medians are printed. Do not preload the layer: then
// nothing would be bare.
//
// This is the C API's price: all that was written is read back. The layer captures what is written instead, which
// bench/run measures with bench_writer. bench/sets.py runs this with --json for the time of the call alone.

#include <fmt/format.h>
#include <lzy/lzy.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "command_line.h"

namespace {

// The command line. Sizes in bytes; `size` is what a rank writes, in all its files together. `transfer` is what one
// call of MPI_File_write_at writes. `options` goes to lzy_protect and lzy_verify as it is.
struct Settings {
  std::string directory = "/dev/shm";
  bool set = false;
  int files = 1;
  std::uint64_t size = 256u << 20;
  std::uint64_t transfer = 4u << 20;
  bool sync = false;
  int repeat = 5;
  bool json = false;
  lzy_options options{};
};

// The files of one benchmark, in a directory of its own that is removed at the end. Construction and all public
// functions with files are collective.
class Checkpoint {
 public:
  explicit Checkpoint(const Settings& settings) : settings_(settings) {
    // The directory of rank 0's process, the same on all ranks, so that two benchmarks do not meet.
    int pid = static_cast<int>(getpid());
    MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
    directory_ = fmt::format("{}/lzy-bench-{}", settings.directory, pid);
    // Each rank writes other data; zeros or equal data could be stored more cheaply.
    std::mt19937_64 random(static_cast<std::uint64_t>(Rank()) + 1);
    buffer_.resize(settings.transfer / sizeof(std::uint64_t));
    for (std::uint64_t& word : buffer_) word = random();
  }
  // Not collective, because an exception on one rank ends here, too. All else ended with a collective call.
  ~Checkpoint() {
    std::error_code ignored;
    if (Rank() == 0) std::filesystem::remove_all(directory_, ignored);
  }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // What the operations of lzy are called with: the shared file, or the pattern of the set.
  std::string path() const { return directory_ + (settings_.set ? "/state.%r" : "/state"); }

  // Begins without files and sidecars. The barriers keep a fast rank from writing files that are removed then.
  void Clear() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (Rank() == 0) {
      std::filesystem::remove_all(directory_);
      std::filesystem::create_directories(directory_);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Writes one checkpoint, as a program would: a contiguous part of the shared file, or whole files of a set, whose
  // members are numbered across all ranks. The same buffer is written again and again.
  void Write() {
    if (!settings_.set) {
      WriteFile(MPI_COMM_WORLD, directory_ + "/state", settings_.size * static_cast<std::uint64_t>(Rank()),
                settings_.size);
      return;
    }
    for (int i = 0; i < settings_.files; ++i) {
      const std::string member = fmt::format("{}/state.{}", directory_, Rank() * settings_.files + i);
      WriteFile(MPI_COMM_SELF, member, 0, settings_.size / static_cast<std::uint64_t>(settings_.files));
    }
  }

 private:
  void WriteFile(MPI_Comm comm, const std::string& name, std::uint64_t offset, std::uint64_t size) {
    MPI_File file = MPI_FILE_NULL;
    Check(MPI_File_open(comm, name.c_str(), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), "MPI_File_open");
    for (std::uint64_t done = 0; done < size; done += settings_.transfer) {
      const auto count = static_cast<int>(std::min(settings_.transfer, size - done));
      Check(MPI_File_write_at(file, static_cast<MPI_Offset>(offset + done), buffer_.data(), count, MPI_BYTE,
                              MPI_STATUS_IGNORE),
            "MPI_File_write_at");
    }
    // Without --sync, the data may still be in the page cache when the file is closed.
    if (settings_.sync) Check(MPI_File_sync(file), "MPI_File_sync");
    Check(MPI_File_close(&file), "MPI_File_close");
  }

  const Settings& settings_;
  std::string directory_;
  std::vector<std::uint64_t> buffer_;
};

// By what they are of: the kinds of runs, and the phases of lzy_protect.
using AllTimes = std::map<std::string, Times>;

// In the order in which the row pipeline passes them; names of AllTimes.
const char* const kPhases[] = {"read", "hash", "encode", "exchange", "write", "sync"};

// lzy_protect or lzy_verify.
using Operation = int(MPI_Comm, const char*, const lzy_options*, lzy_report**);

// Runs one operation on one dataset. Throws if it finds anything wrong: a call that fails early would be the fastest.
// The result's strings are freed with the report: only its numbers may be used.
lzy_dataset Call(Operation* operation, const std::string& path, const lzy_options& options) {
  lzy_report* report = nullptr;
  const int code = operation(MPI_COMM_WORLD, path.c_str(), &options, &report);
  const lzy_dataset* found = lzy_report_dataset(report, 0);
  const lzy_dataset dataset = found != nullptr ? *found : lzy_dataset{};
  std::string message = lzy_report_message(report);
  if (message.empty() && found != nullptr) message = found->message;
  lzy_report_free(report);
  if (code != LZY_OK) throw std::runtime_error(fmt::format("{}: {}", lzy_strerror(code), message));
  return dataset;  // its strings are gone
}

// The runs: bare, then protected and verified, --repeat times. Adds their times. All runs make the same dataset, so the
// one that is returned, of the last run, describes all of them.
lzy_dataset Measure(const Settings& settings, Checkpoint& checkpoint, AllTimes& times) {
  lzy_dataset dataset{};
  // Run -1 is not counted: it warms up memory and allocators, and the MPI library connects the ranks in it.
  for (int i = -1; i < settings.repeat; ++i) {
    checkpoint.Clear();
    const double bare = Timed([&] { checkpoint.Write(); });
    // Once more, so that both kinds write into fresh pages.
    checkpoint.Clear();
    double protect = 0;
    const double all = Timed([&] {
      checkpoint.Write();
      // Of this rank, not of the slowest one; rank 0 prints its own.
      const double start = MPI_Wtime();
      dataset = Call(lzy_protect, checkpoint.path(), settings.options);
      protect = MPI_Wtime() - start;
    });
    // Verified from the page cache, since the files were just written.
    const double verify = Timed([&] { (void)Call(lzy_verify, checkpoint.path(), settings.options); });
    if (i < 0) continue;
    // The phases are of rank 0, as its report has them.
    const std::pair<const char*, double> found[] = {{"bare", bare},
                                                    {"protected", all},
                                                    {"protect", protect},
                                                    {"verify", verify},
                                                    {"read", dataset.seconds_read},
                                                    {"hash", dataset.seconds_hash},
                                                    {"encode", dataset.seconds_encode},
                                                    {"exchange", dataset.seconds_exchange},
                                                    {"write", dataset.seconds_write},
                                                    {"sync", dataset.seconds_sync}};
    for (const auto& [name, seconds] : found) times[name].push_back(seconds);
  }
  return dataset;
}

// JSON with every single time, for bench/sets.py and other scripts, or a table with medians and least times.
void Print(const Settings& settings, const lzy_dataset& dataset, const AllTimes& times) {
  const auto gigabytes = static_cast<double>(dataset.bytes) / 1e9;
  const auto seconds = [&](const char* name) { return Median(times.at(name)); };
  const auto least = [&](const char* name) { return Least(times.at(name)); };
  if (settings.json) {
    nlohmann::ordered_json out = {{"bytes", dataset.bytes}};
    for (const auto& [name, values] : times)
      out["seconds"][name] = {{"median", Median(values)}, {"least", Least(values)}, {"all", values}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print(
      "{} ranks, {} of {:.3f} GB; {} devices in {} group(s) of at most {}, {} of each may be lost; block {}, unit {}\n",
      Ranks(), settings.set ? fmt::format("set of {} files", dataset.devices) : "shared file", gigabytes,
      dataset.devices, dataset.groups, dataset.group_size, dataset.parity, dataset.block_size, dataset.unit);
  fmt::print("medians of {} runs{}\n\n", settings.repeat, settings.sync ? ", with MPI_File_sync" : "");
  fmt::print("{:<20}{:>12}{:>10}{:>12}{:>10}\n", "", "median s", "GB/s", "least s", "GB/s");
  for (const char* name : {"bare", "protected", "protect", "verify"}) {
    fmt::print("{:<20}{:>12.3f}{:>10.2f}{:>12.3f}{:>10.2f}\n", name, seconds(name), gigabytes / seconds(name),
               least(name), gigabytes / least(name));
  }
  fmt::print("{:<20}{:>12.2f}{:>22.2f}\n\n", "protected / bare", seconds("protected") / seconds("bare"),
             least("protected") / least("bare"));
  for (const char* name : kPhases) fmt::print("  {:<18}{:>12.3f}{:>22.3f}\n", name, seconds(name), least(name));
}

void AddOptions(CLI::App& app, Settings& settings) {
  app.add_option("--directory", settings.directory, "where to write")->capture_default_str();
  app.add_flag("--set", settings.set, "files of its own for every rank instead of one shared file");
  app.add_option("--files", settings.files, "with --set: files a rank, which share --size")->capture_default_str();
  AddSize(app, "--size", settings.size, "bytes a rank writes");
  AddSize(app, "--transfer", settings.transfer, "bytes a call of MPI_File_write_at");
  app.add_flag("--sync", settings.sync, "MPI_File_sync before MPI_File_close");
  app.add_option("--repeat", settings.repeat, "measured runs of each kind")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", settings.json, "JSON instead of a table");
  app.add_option("--parity", settings.options.parity, "m (default 1)");
  app.add_option("--group", settings.options.group, "n (default 8)");
  AddSize(app, "--block-size", settings.options.block_size, "bytes; 0: default");
  AddSize(app, "--stripe", settings.options.stripe, "bytes; 0: default");
  AddSize(app, "--memory", settings.options.memory, "bytes a rank; 0: default");
  app.add_option("--threads", settings.options.threads, "threads a rank; 0: the cores it may use, shared");
}

// All ranks return the same, because they have the same command line.
int Run(int argc, char** argv) {
  Settings settings;
  lzy_options_init(&settings.options, sizeof settings.options);
  CLI::App app("What protection costs a program that writes checkpoints through MPI-IO", "bench_checkpoint");
  AddOptions(app, settings);
  if (const auto exit_code = Parse(app, argc, argv)) return *exit_code;
  // Refused before anything is written, on all ranks alike: none waits for another.
  // The buffer consists of words, and MPI counts in int.
  const std::uint64_t step = settings.transfer;
  if (settings.files < 1 || step == 0 || step % 8 != 0 || step > (1u << 30)) {
    if (Rank() == 0) fmt::print(stderr, "--files: at least 1; --transfer: a multiple of 8, at most 1G\n");
    return 2;
  }
  Checkpoint checkpoint(settings);
  AllTimes times;
  const lzy_dataset dataset = Measure(settings, checkpoint, times);
  if (Rank() == 0) Print(settings, dataset, times);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return UnderMpi("bench_checkpoint", argc, argv, Run);
}
