#include "engine_fixture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "dataset/view.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

/// Puts the times back when it goes.
class KeepTimes {
 public:
  explicit KeepTimes(std::string path) : path_(std::move(path)) { stat(path_.c_str(), &before_); }
  ~KeepTimes() {
    const timespec times[2] = {before_.st_atim, before_.st_mtim};
    utimensat(AT_FDCWD, path_.c_str(), times, 0);
  }
  KeepTimes(const KeepTimes&) = delete;
  KeepTimes& operator=(const KeepTimes&) = delete;

 private:
  const std::string path_;
  struct stat before_ {};
};

void RawWrite(const std::string& path, std::uint64_t offset, const Bytes& bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0) << path;
  EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)), static_cast<ssize_t>(bytes.size()));
  close(fd);
}

}  // namespace

std::uint64_t NumberFromEnvironment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : fallback;
}

std::uint64_t Below(Rng& rng, std::uint64_t limit) {
  return limit == 0 ? 0 : rng() % limit;
}

std::uint64_t SeedOf(std::uint64_t fallback) {
  const std::uint64_t seed = NumberFromEnvironment("LZY_TEST_SEED", fallback);
  std::printf("seed %llu (LZY_TEST_SEED sets another)\n", static_cast<unsigned long long>(seed));
  return seed;
}

std::uint64_t RoundsOf(std::uint64_t fallback) {
  return NumberFromEnvironment("LZY_TEST_ROUNDS", fallback);
}

Scratch::Scratch() {
  std::string name =
      (std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path().string()) +
      "/lzy-test-XXXXXX";
  path_ = mkdtemp(name.data()) != nullptr ? name : "";
  if (path_.empty()) std::abort();
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Image ImageOf(const std::string& directory) {
  Image image;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    struct stat raw {};
    EXPECT_EQ(lstat(entry.path().c_str(), &raw), 0);
    image[entry.path()] = {ReadFile(entry.path()), MtimeOf(entry.path()), raw.st_mode & 07777};
  }
  return image;
}

void PutBack(const std::string& directory, const Image& image) {
  for (const auto& [path, now] : ImageOf(directory)) {
    if (image.count(path) == 0) std::filesystem::remove(path);
  }
  for (const auto& [path, was] : image) {
    std::filesystem::create_directories(DirectoryOf(path));
    if (!Exists(path) || ReadFile(path) != was.bytes) WriteFile(path, was.bytes);
    chmod(path.c_str(), was.mode);
    SetMtime(path, was.mtime_ns);
  }
}

std::string Differences(const Image& before, const Image& after) {
  std::string out;
  for (const auto& [path, was] : before) {
    auto at = after.find(path);
    if (at == after.end()) {
      out += path + " is gone; ";
      continue;
    }
    const FileImage& now = at->second;
    if (now.bytes.size() != was.bytes.size())
      out += fmt::format("{}: {} bytes became {}; ", path, was.bytes.size(), now.bytes.size());
    if (now.mtime_ns != was.mtime_ns) out += fmt::format("{}: mtime {} became {}; ", path, was.mtime_ns, now.mtime_ns);
    if (now.mode != was.mode) out += fmt::format("{}: mode {:o} became {:o}; ", path, was.mode, now.mode);
    const auto [a, b] = std::mismatch(was.bytes.begin(), was.bytes.end(), now.bytes.begin(), now.bytes.end());
    if (a != was.bytes.end() && b != now.bytes.end())
      out += fmt::format("{}: differs at {}; ", path, a - was.bytes.begin());
  }
  for (const auto& [path, now] : after) {
    if (before.count(path) == 0) out += path + " is new; ";
  }
  return out;
}

bool Exists(const std::string& path) {
  struct stat raw {};
  return lstat(path.c_str(), &raw) == 0;
}

Bytes ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOATIME);
  if (fd < 0) return {};
  struct stat raw {};
  fstat(fd, &raw);
  Bytes bytes(static_cast<std::size_t>(raw.st_size));
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got <= 0) break;
    at += static_cast<std::size_t>(got);
  }
  close(fd);
  return bytes;
}

void WriteFile(const std::string& path, const Bytes& bytes) {
  if (Exists(path)) Truncate(path, 0);
  RawWrite(path, 0, bytes);
}

void SetMtime(const std::string& path, std::int64_t mtime_ns) {
  timespec times[2] = {};
  times[0].tv_nsec = UTIME_OMIT;
  times[1].tv_sec = mtime_ns / 1'000'000'000;
  times[1].tv_nsec = mtime_ns % 1'000'000'000;
  EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0) << path;
}

std::int64_t MtimeOf(const std::string& path) {
  struct stat raw {};
  EXPECT_EQ(lstat(path.c_str(), &raw), 0) << path;
  return raw.st_mtim.tv_sec * 1'000'000'000 + raw.st_mtim.tv_nsec;
}

void Truncate(const std::string& path, std::uint64_t size) {
  EXPECT_EQ(truncate(path.c_str(), static_cast<off_t>(size)), 0) << path;
}

void WriteAt(const std::string& path, std::uint64_t offset, const Bytes& bytes) {
  RawWrite(path, offset, bytes);
}

void Rot(Rng& rng, const std::string& path, std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return;
  KeepTimes keep(path);
  Bytes bytes = ReadFile(path);
  if (offset >= bytes.size()) return;
  length = std::min<std::uint64_t>(length, bytes.size() - offset);
  Bytes part(bytes.begin() + static_cast<std::ptrdiff_t>(offset),
             bytes.begin() + static_cast<std::ptrdiff_t>(offset + length));
  switch (Below(rng, 4)) {
    case 0:  // one bit
      part[Below(rng, length)] ^= static_cast<std::uint8_t>(1u << Below(rng, 8));
      break;
    case 1:  // zeros, as a lost sector reads
      std::fill(part.begin(), part.end(), std::uint8_t{0});
      break;
    default:
      for (std::uint8_t& byte : part) byte ^= static_cast<std::uint8_t>(1 + Below(rng, 255));
  }
  RawWrite(path, offset, part);
}

Bytes RandomBytes(Rng& rng, std::uint64_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = rng();
    for (std::size_t b = i; b < std::min<std::size_t>(i + 8, bytes.size()); ++b)
      bytes[b] = static_cast<std::uint8_t>(word >> (8 * (b - i)));
  }
  return bytes;
}

std::string Sample::Describe() const {
  std::string out =
      fmt::format("{} {} m={} n={} block={} stripe={} sizes:", kind == DatasetKind::kShared ? "shared" : "set", path,
                  options.parity, options.group, options.block_size, options.stripe);
  for (const std::string& file : files) out += fmt::format(" {}", Exists(file) ? ReadFile(file).size() : 0);
  return out;
}

void FillFile(Rng& rng, const std::string& path, std::uint64_t size, std::uint32_t block_size) {
  WriteFile(path, {});
  switch (size == 0 ? 0 : Below(rng, 6)) {
    case 0:  // one hole
      break;
    case 1: {  // data between holes
      const std::uint64_t at = Below(rng, size);
      WriteAt(path, at, RandomBytes(rng, std::min<std::uint64_t>(size - at, 1 + Below(rng, 3 * block_size))));
      break;
    }
    case 2: {  // the same block again and again
      const Bytes one = RandomBytes(rng, block_size);
      Bytes all;
      while (all.size() < size) all.insert(all.end(), one.begin(), one.end());
      all.resize(size);
      WriteAt(path, 0, all);
      break;
    }
    default:
      WriteAt(path, 0, RandomBytes(rng, size));
  }
  Truncate(path, size);
}

std::shared_ptr<const LeafKey> TestKey() {
  const std::string_view secret = "a secret of the tests";
  return *LeafKey::Make({reinterpret_cast<const std::uint8_t*>(secret.data()), secret.size()});
}

Sample MakeSample(Rng& rng, const std::string& directory, const SampleLimits& limits) {
  Sample sample;
  Options& options = sample.options;
  sample.kind = limits.kind != 0 ? static_cast<DatasetKind>(limits.kind)
                : OneIn(rng, 2)  ? DatasetKind::kShared
                                 : DatasetKind::kSet;
  const std::uint64_t members =
      limits.fixed_members != 0 ? limits.fixed_members : 2 + Below(rng, OneIn(rng, 3) ? limits.members - 1 : 6);
  options.group = static_cast<std::uint32_t>(2 + Below(rng, 8));
  options.parity = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(Below(rng, 8) == 0 ? 0 : 1 + Below(rng, 4), options.group - 1));
  if (sample.kind == DatasetKind::kSet)
    options.parity = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.parity, members - 1));
  options.block_size = 512u << (OneIn(rng, 4) ? Below(rng, 8) : Below(rng, 4));
  options.stripe = std::uint64_t{options.block_size} << Below(rng, 4);
  options.threads = OneIn(rng, 8) ? 3 : 1;
  if (OneIn(rng, 8)) options.memory = 64u << 10;
  if (OneIn(rng, 4)) options.key = TestKey();
  options.compact = OneIn(rng, 2);

  auto size = [&]() -> std::uint64_t {
    const std::uint64_t most = std::min<std::uint64_t>(limits.bytes, limits.blocks * options.block_size);
    switch (Below(rng, 10)) {
      case 0:
        return OneIn(rng, 2) ? 0 : 1 + Below(rng, options.block_size);
      case 1:
        return (1 + Below(rng, std::max<std::uint64_t>(1, most / options.block_size))) * options.block_size;
      case 2:
        return 1 + Below(rng, 3 * options.block_size);
      default:
        return 1 + Below(rng, most);
    }
  };
  const std::uint32_t modes[] = {0600, 0644, 0640, 0666, 0755};
  if (sample.kind == DatasetKind::kShared) {
    sample.path = directory + "/shared.dat";
    sample.files.push_back(sample.path);
  } else {
    const char* patterns[] = {"state.%r", "st%03r.bin", "%r/state", "dir.%02r/a%r"};
    sample.path = directory + "/" + patterns[Below(rng, 4)];
    for (std::uint32_t rank = 0; rank < members; ++rank) sample.files.push_back(ExpandPattern(sample.path, rank));
  }
  std::int64_t when = 1'600'000'000'000'000'000 + static_cast<std::int64_t>(Below(rng, 100'000'000'000'000'000));
  for (const std::string& file : sample.files) {
    std::filesystem::create_directories(DirectoryOf(file));
    FillFile(rng, file, size(), options.block_size);
    chmod(file.c_str(), modes[Below(rng, 5)]);
    SetMtime(file, when += 1 + static_cast<std::int64_t>(Below(rng, 1'000'000'000)));
  }
  return sample;
}

DatasetRef RefOf(Communicator& comm, const std::string& path, Resolve what) {
  auto found = ResolvePath(PosixFileSystem(), comm, path, what);
  EXPECT_TRUE(found.ok()) << found.status().message();
  if (!found.ok() || found->empty()) return {};
  EXPECT_EQ(found->size(), 1u) << path;
  return found->front();
}

void AddTouched(IntervalSet& touched, std::uint64_t offset, std::uint64_t length) {
  touched.Add({offset, offset + length});
}

void EditFile(Rng& rng, const std::string& path, std::uint32_t block, IntervalSet& touched) {
  for (std::uint64_t count = Below(rng, 4); count > 0; --count) {
    const std::uint64_t size = ReadFile(path).size();
    switch (Below(rng, 6)) {
      case 0: {  // append
        const Bytes bytes = RandomBytes(rng, 1 + Below(rng, 4 * block));
        WriteAt(path, size, bytes);
        AddTouched(touched, size, bytes.size());
        break;
      }
      case 1: {  // cut; what lay there is gone, even if the file grows again
        const std::uint64_t left = OneIn(rng, 5) ? 0 : Below(rng, size + 1);
        Truncate(path, left);
        AddTouched(touched, left, size - left);
        break;
      }
      case 2:  // grow by a hole
        if (OneIn(rng, 3)) Truncate(path, size + 1 + Below(rng, 3 * block));
        break;
      case 3: {  // past the end, leaving a hole
        const std::uint64_t at = size + Below(rng, 2 * block);
        const Bytes bytes = RandomBytes(rng, 1 + Below(rng, block));
        if (OneIn(rng, 3)) {
          WriteAt(path, at, bytes);
          AddTouched(touched, at, bytes.size());
        }
        break;
      }
      default: {
        if (size == 0) break;
        const std::uint64_t at = Below(rng, size);
        const Bytes bytes = RandomBytes(rng, std::min<std::uint64_t>(size - at, 1 + Below(rng, 3 * block)));
        WriteAt(path, at, bytes);
        AddTouched(touched, at, bytes.size());
      }
    }
  }
}

std::string Text(const DatasetReport& report) {
  std::string out = std::string(Name(report.state)) + " " + report.status.message();
  for (const Damage& d : report.damage) {
    out += fmt::format("; {} {} [{}, +{}) {}{}{}", d.path, Name(d.part), d.offset, d.length, Name(d.cause),
                       d.repaired ? " repaired" : "", d.beyond_repair ? " beyond repair" : "");
  }
  return out;
}

Fingerprint FingerprintOf(const std::vector<std::string>& files) {
  Fingerprint out;
  for (const std::string& file : files) {
    auto sidecar = Sidecar::Load(PosixFileSystem(), *SidecarPath(file), OpenMode::kRead);
    EXPECT_OK(sidecar);
    if (!sidecar.ok()) return out;
    EXPECT_TRUE((*sidecar)->damage().empty());
    EXPECT_FALSE((*sidecar)->intent()) << "a commit voids the intent";
    const SidecarContents& c = (*sidecar)->contents();
    out.root = c.superblock.dataset_root;
    out.data.push_back(c.data_tree.leaf_count() > 0 ? c.data_tree.NodesOf(0) : std::vector<Hash>());
    out.parity.push_back(c.parity_tree.leaf_count() > 0 ? c.parity_tree.NodesOf(0) : std::vector<Hash>());
    EXPECT_EQ(c.data_tree.Root(), c.superblock.data_root);
    // What lies in holes between parity units means nothing (docs/format.md §6).
    const Result<Layout> layout = LayoutOf(c);
    EXPECT_OK(layout);
    if (!layout.ok()) return out;
    std::uint32_t region = 0;
    if (c.superblock.kind == DatasetKind::kSet) {
      const auto& group = c.info.groups[0];
      region = static_cast<std::uint32_t>(std::find(group.begin(), group.end(), c.superblock.rank) - group.begin());
    }
    const BlockStream stream = ParityStream(*layout, region, nullptr, 0, nullptr, nullptr);
    Bytes parity;
    for (std::uint64_t i = 0; i < layout->parity_blocks(region); ++i) {
      const BlockPlace place = stream.place(i);
      Bytes bytes(place.length);
      EXPECT_OK(ReadExactly((*sidecar)->file(), (*sidecar)->ParityFileOffset(0) + place.offset, bytes));
      parity.insert(parity.end(), bytes.begin(), bytes.end());
    }
    out.parity_bytes.push_back(std::move(parity));
  }
  return out;
}

void ExpectSame(const Fingerprint& got, const Fingerprint& want) {
  EXPECT_EQ(got.root, want.root);
  ASSERT_EQ(got.data.size(), want.data.size());
  for (std::size_t f = 0; f < got.data.size(); ++f) {
    EXPECT_EQ(got.data[f], want.data[f]) << "leaves of file " << f;
    EXPECT_EQ(got.parity[f], want.parity[f]) << "leaves of parity " << f;
    EXPECT_EQ(got.parity_bytes[f], want.parity_bytes[f]) << "parity of file " << f;
  }
}

Fingerprint FingerprintOfCopy(const Sample& sample, const std::string& directory) {
  Scratch other;
  std::vector<std::string> files;
  auto moved = [&](const std::string& path) { return other.path() + path.substr(directory.size()); };
  for (const std::string& file : sample.files) {
    files.push_back(moved(file));
    std::filesystem::create_directories(DirectoryOf(files.back()));
    WriteFile(files.back(), ReadFile(file));
    SetMtime(files.back(), 1'700'000'000'000'000'000);
  }
  auto comm = SelfCommunicator();
  const DatasetReport made =
      Protect({PosixFileSystem(), *comm, sample.options}, RefOf(*comm, moved(sample.path), Resolve::kProtectable), {});
  EXPECT_OK(made.status);
  return FingerprintOf(files);
}

}  // namespace lzy::testing
