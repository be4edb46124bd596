// Four ways to verify a transfer end to end, side by side, as in figure 2 of FIVER (Arslan, Alhussen: "A Low-Overhead Integrity
// Verification for Big Data Transfers"). Both ends hash every byte, and the hashes of each file or block are compared:
//
//   sequential       a file is transferred, then both ends read and hash it, then the next file
//   file pipelining  a file is hashed while the next one is transferred
//   block pipelining the same with blocks of 64 MiB
//   fiver            both ends hash the bytes while they pass by: nothing is read a second time
//
// The network is memory. One thread transfers; only fiver has one for each end. So fiver also shows what that saves. With
// XXH3 (as lzy) or SHA-256 (as slow as the MD5 of the paper). fiver DIRECTORY [--scale S] [--runs N] [--hash xxh3|sha256]
#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t kMib = 1u << 20, kPiece = kMib, kBlock = 64 * kMib;
bool use_sha = false;

void Need(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what);
}

class Hasher {
 public:
  Hasher() : xxh_(XXH3_createState(), XXH3_freeState) {
    XXH3_128bits_reset(xxh_.get());
    crypto_hash_sha256_init(&sha_);
  }
  void Add(const std::vector<unsigned char>& bytes) {
    if (use_sha) {
      crypto_hash_sha256_update(&sha_, bytes.data(), bytes.size());
    } else {
      XXH3_128bits_update(xxh_.get(), bytes.data(), bytes.size());
    }
  }
  std::string End() {
    std::string out(crypto_hash_sha256_BYTES, '\0');
    if (use_sha) {
      crypto_hash_sha256_final(&sha_, reinterpret_cast<unsigned char*>(out.data()));
    } else {
      const XXH128_hash_t hash = XXH3_128bits_digest(xxh_.get());
      out = fmt::format("{:x}{:x}", hash.high64, hash.low64);
    }
    return out;
  }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> xxh_;
  crypto_hash_sha256_state sha_;
};

class Open {
 public:
  Open(const std::string& path, int flags) : fd_(open(path.c_str(), flags, 0600)) { Need(fd_ >= 0, path); }
  ~Open() { close(fd_); }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  void Read(std::uint64_t at, std::vector<unsigned char>& to) const {
    Need(pread(fd_, to.data(), to.size(), static_cast<off_t>(at)) == static_cast<ssize_t>(to.size()), "read");
  }
  void Write(std::uint64_t at, const std::vector<unsigned char>& from) const {
    Need(pwrite(fd_, from.data(), from.size(), static_cast<off_t>(at)) == static_cast<ssize_t>(from.size()), "write");
  }

 private:
  const int fd_;
};

struct Job {
  std::string from, to;
  std::uint64_t size = 0;
};

// Bytes [begin, end) of the file, piece by piece.
template <class Work>
void ForPieces(std::uint64_t begin, std::uint64_t end, const Work& work) {
  for (std::uint64_t at = begin; at < end; at += kPiece) work(at, std::min(kPiece, end - at));
}

void Transfer(const Job& job, std::uint64_t begin, std::uint64_t end) {
  const Open from(job.from, O_RDONLY), to(job.to, O_WRONLY | O_CREAT);
  std::vector<unsigned char> piece;
  ForPieces(begin, end, [&](std::uint64_t at, std::uint64_t length) {
    piece.resize(length);
    from.Read(at, piece);
    to.Write(at, piece);
  });
}

std::string HashOf(const std::string& path, std::uint64_t begin, std::uint64_t end) {
  const Open file(path, O_RDONLY);
  Hasher hasher;
  std::vector<unsigned char> piece;
  ForPieces(begin, end, [&](std::uint64_t at, std::uint64_t length) {
    piece.resize(length);
    file.Read(at, piece);
    hasher.Add(piece);
  });
  return hasher.End();
}

// Both ends at once.
void Compare(const Job& job, std::uint64_t begin, std::uint64_t end) {
  auto source = std::async(std::launch::async, HashOf, job.from, begin, end);
  const std::string target = HashOf(job.to, begin, end);
  Need(source.get() == target, job.to + ": differs");
}

void Plain(const std::vector<Job>& jobs) {
  for (const Job& job : jobs) Transfer(job, 0, job.size);
}

void Sequential(const std::vector<Job>& jobs) {
  for (const Job& job : jobs) {
    Transfer(job, 0, job.size);
    Compare(job, 0, job.size);
  }
}

// Each part is compared while the next one is transferred.
void Pipelined(const std::vector<Job>& jobs, std::uint64_t part) {
  std::future<void> comparing;
  for (const Job& job : jobs) {
    for (std::uint64_t begin = 0; begin < job.size; begin += part) {
      const std::uint64_t end = std::min(job.size, begin + part);
      Transfer(job, begin, end);
      if (comparing.valid()) comparing.get();
      comparing = std::async(std::launch::async, [&job, begin, end] { Compare(job, begin, end); });
    }
  }
  if (comparing.valid()) comparing.get();
}

/// Between two threads; holds at most a few pieces.
class Queue {
 public:
  using Piece = std::shared_ptr<std::vector<unsigned char>>;
  void Put(Piece piece) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pieces_.size() < 8; });
    pieces_.push_back(std::move(piece));
    changed_.notify_all();
  }
  Piece Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !pieces_.empty(); });
    Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    changed_.notify_all();
    return piece;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_;
};

// One end reads, hashes what it reads, and sends; the other one writes, and hashes what it got. A null piece ends a file.
void Fiver(const std::vector<Job>& jobs) {
  Queue network, to_source_hash, to_target_hash;
  const auto hash_all = [&](Queue& queue) {
    std::vector<std::string> hashes;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      Hasher hasher;
      while (const auto piece = queue.Take()) hasher.Add(*piece);
      hashes.push_back(hasher.End());
    }
    return hashes;
  };
  auto source = std::async(std::launch::async, hash_all, std::ref(to_source_hash));
  auto target = std::async(std::launch::async, hash_all, std::ref(to_target_hash));
  auto receiver = std::async(std::launch::async, [&] {
    for (const Job& job : jobs) {
      const Open to(job.to, O_WRONLY | O_CREAT);
      std::uint64_t at = 0;
      while (const auto piece = network.Take()) {
        to.Write(at, *piece);
        at += piece->size();
        to_target_hash.Put(piece);
      }
      to_target_hash.Put(nullptr);
    }
  });
  for (const Job& job : jobs) {
    const Open from(job.from, O_RDONLY);
    ForPieces(0, job.size, [&](std::uint64_t at, std::uint64_t length) {
      const auto piece = std::make_shared<std::vector<unsigned char>>(length);
      from.Read(at, *piece);
      network.Put(piece);
      to_source_hash.Put(piece);
    });
    network.Put(nullptr);
    to_source_hash.Put(nullptr);
  }
  receiver.get();
  Need(source.get() == target.get(), "hashes differ");
}

std::vector<Job> MakeJobs(const std::string& directory, const std::string& name, const std::vector<std::pair<int, std::uint64_t>>& files) {
  std::filesystem::create_directories(directory + "/" + name + "/to");
  std::vector<Job> jobs;
  std::mt19937_64 random(7);
  std::vector<unsigned char> piece(kPiece);
  for (const auto& [count, size] : files) {
    for (int i = 0; i < count; ++i) {
      const std::string file = "f" + std::to_string(jobs.size());
      jobs.push_back({directory + "/" + name + "/" + file, directory + "/" + name + "/to/" + file, size});
      const Open out(jobs.back().from, O_WRONLY | O_CREAT);
      for (std::uint64_t at = 0; at < size; at += kPiece) {
        for (std::size_t b = 0; b < kPiece; b += 8) std::memcpy(piece.data() + b, std::array{random()}.data(), 8);
        piece.resize(std::min(kPiece, size - at));
        out.Write(at, piece);
        piece.resize(kPiece);
      }
    }
  }
  // As a directory has them.
  std::shuffle(jobs.begin(), jobs.end(), random);
  return jobs;
}

int Run(int argc, char** argv) {
  CLI::App app("Four ways to verify a transfer (FIVER)");
  std::string directory, hash = "xxh3";
  double scale = 1;
  int runs = 5;
  app.add_option("DIRECTORY", directory, "where files are made, and removed")->required();
  app.add_option("--scale", scale, "of the sizes and numbers of files")->check(CLI::Range(0.01, 100.0));
  app.add_option("--runs", runs, "that count")->check(CLI::Range(1, 100));
  app.add_option("--hash", hash, "xxh3 or sha256")->check(CLI::IsMember({"xxh3", "sha256"}));
  CLI11_PARSE(app, argc, argv);
  use_sha = hash == "sha256";
  Need(sodium_init() >= 0, "libsodium");
  const std::string place = directory + "/fiver." + std::to_string(getpid());
  const auto scaled = [&](int count) { return std::max(1, static_cast<int>(count * scale)); };
  const auto bytes = [&](std::uint64_t size) { return static_cast<std::uint64_t>(static_cast<double>(size) * scale); };
  const std::pair<const char*, std::vector<std::pair<int, std::uint64_t>>> loads[] = {
      {"small", {{scaled(2000), 64u << 10}}},
      {"large", {{1, bytes(1024 * kMib)}}},
      {"mixed", {{scaled(1000), 64u << 10}, {scaled(20), 10 * kMib}, {1, bytes(512 * kMib)}}}};
  const std::pair<const char*, std::function<void(const std::vector<Job>&)>> ways[] = {
      {"no verification", Plain},
      {"sequential", Sequential},
      {"file pipelining", [](const auto& jobs) { Pipelined(jobs, ~std::uint64_t{0} >> 1); }},
      {"block pipelining", [](const auto& jobs) { Pipelined(jobs, kBlock); }},
      {"fiver", Fiver}};
  fmt::print("Seconds by {} (median of {}), and what verification adds to no verification:\n\n| files |", hash, runs);
  for (const auto& way : ways) fmt::print(" {} |", way.first);
  fmt::print("\n| --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [name, files] : loads) {
    const auto jobs = MakeJobs(place, name, files);
    std::vector<std::vector<double>> times(std::size(ways));
    for (int run = 0; run <= runs; ++run) {
      for (std::size_t w = 0; w < std::size(ways); ++w) {
        for (const Job& job : jobs) std::filesystem::remove(job.to);
        const auto begin = std::chrono::steady_clock::now();
        ways[w].second(jobs);
        if (run > 0) times[w].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
    }
    std::vector<double> medians;
    for (auto& all : times) {
      std::ranges::sort(all);
      medians.push_back(all[all.size() / 2]);
    }
    fmt::print("| {} |", name);
    for (const double median : medians) fmt::print(" {:.3f} ({:+.0f} %) |", median, 100 * (median / medians[0] - 1));
    fmt::print("\n");
    std::filesystem::remove_all(place + "/" + name);
  }
  std::filesystem::remove_all(place);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "fiver: {}\n", error.what());
    return 1;
  }
}
