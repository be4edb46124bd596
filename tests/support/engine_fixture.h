#pragma once
// What tests of the engine share: a scratch directory of one's own, random datasets, images of directories to compare.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/engine.h"
#include "names/resolve.h"

namespace lzy::testing {

using Rng = std::mt19937_64;
using Bytes = std::vector<std::uint8_t>;

/// A number in [0, limit); 0 when limit is 0.
std::uint64_t Below(Rng& rng, std::uint64_t limit);
inline bool OneIn(Rng& rng, std::uint64_t n) {
  return Below(rng, n) == 0;
}

std::uint64_t NumberFromEnvironment(const char* name, std::uint64_t fallback);
/// LZY_TEST_SEED, or `fallback`; printed, so that a failure can be had again.
std::uint64_t SeedOf(std::uint64_t fallback);
/// Sanitized code takes five to ten times as long: the largest tests go through fewer of their cases, all of which run without
/// sanitizers.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
/// LZY_TEST_ROUNDS, or `fallback`.
std::uint64_t RoundsOf(std::uint64_t fallback);

/// A directory that goes with this object; in memory where there is /dev/shm.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct FileImage {
  Bytes bytes;
  std::int64_t mtime_ns = 0;
  std::uint32_t mode = 0;
  friend bool operator==(const FileImage&, const FileImage&) = default;
};
/// Every file below a directory, by path.
using Image = std::map<std::string, FileImage>;
Image ImageOf(const std::string& directory);
/// Makes `directory` what it was; files that are still there keep their inode.
void PutBack(const std::string& directory, const Image& image);
/// Names, for messages, what differs: empty when nothing does.
std::string Differences(const Image& before, const Image& after);

bool Exists(const std::string& path);
Bytes ReadFile(const std::string& path);
/// Writes the whole file in place.
void WriteFile(const std::string& path, const Bytes& bytes);
void SetMtime(const std::string& path, std::int64_t mtime_ns);
std::int64_t MtimeOf(const std::string& path);
void Truncate(const std::string& path, std::uint64_t size);
/// Overwrites bytes; the mtime changes as it does.
void WriteAt(const std::string& path, std::uint64_t offset, const Bytes& bytes);
/// Changes every byte of the range (or the first one, or some) behind the back of the layer: the mtime stays.
void Rot(Rng& rng, const std::string& path, std::uint64_t offset, std::uint64_t length);
Bytes RandomBytes(Rng& rng, std::uint64_t size);

/// Files and the options they are to be protected with.
struct Sample {
  Options options;
  DatasetKind kind = DatasetKind::kShared;
  std::string path;                ///< file or pattern
  std::vector<std::string> files;  ///< by rank
  std::string Describe() const;
};
struct SampleLimits {
  std::uint64_t blocks = 40;         ///< of one file, about
  std::uint64_t bytes = 512u << 10;  ///< of one file
  std::uint32_t members = 14;
  std::uint32_t fixed_members = 0;  ///< exactly so many, when not 0
  int kind = 0;                     ///< 0: either, else a DatasetKind
};
/// The key with which datasets of the tests are sealed, if they are.
std::shared_ptr<const LeafKey> TestKey();
/// Creates the files of a random dataset in `directory`: both kinds, unequal sizes, empty files, short last blocks, all
/// block sizes from 512 to 64K, n 2 to 9, m 0 to 4, several groups, small stripes; with mtimes in the past; one of four
/// to be sealed.
Sample MakeSample(Rng& rng, const std::string& directory, const SampleLimits& limits = {});
/// Gives `path` some size and contents again, holes included.
void FillFile(Rng& rng, const std::string& path, std::uint64_t size, std::uint32_t block_size);

/// The dataset at `path`, found as the tools find it.
DatasetRef RefOf(Communicator& comm, const std::string& path, Resolve what = Resolve::kProtected);

/// What the hooks know after an epoch, by rank of the member.
using Edits = std::map<std::uint32_t, IntervalSet>;
/// Adds a range, keeping them sorted and disjoint.
void AddTouched(IntervalSet& touched, std::uint64_t offset, std::uint64_t length);
/// Some writes, appends and truncations, noted as the hooks note them: what was written or cut off, not where the
/// file grew.
void EditFile(Rng& rng, const std::string& path, std::uint32_t block, IntervalSet& touched);

/// What a report says, in one line, for messages.
std::string Text(const DatasetReport& report);

/// Root, leaves and parity bytes of a dataset: what must not depend on how it was protected.
struct Fingerprint {
  Hash root;
  std::vector<std::vector<Hash>> data, parity;
  std::vector<Bytes> parity_bytes;
};

Fingerprint FingerprintOf(const std::vector<std::string>& files);
/// That of the same files, protected afresh by one rank in a directory of their own.
Fingerprint FingerprintOfCopy(const Sample& sample, const std::string& directory);
void ExpectSame(const Fingerprint& got, const Fingerprint& want);

}  // namespace lzy::testing
