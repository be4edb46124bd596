// What is captured of writes with random datatypes in memory and through views with gaps: the hash of every captured
// block is that of the block in the file. LZY_TEST_SEED chooses other types; failures tell the seed.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "dataset/view.h"
#include "datatypes/type_map.h"
#include "encode/coverage.h"
#include "hooks/transfers/capturing.h"
#include "hooks_types.h"

namespace lzy::hooks {
using namespace datatypes;
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::int64_t kMostData = 40000;

unsigned Seed() {
  const char* given = std::getenv("LZY_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 20261121u;
}

template <class Handle>
Word ToWord(Handle type) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Word>(type);
  } else {
    return static_cast<Word>(type);
  }
}

/// Whether the MPI ends all writes whose buffer and view both have gaps, or whose data lie below the buffer's origin:
/// Intel MPI 2021 does not.
bool EndsAllWrites() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  return std::string(text).find("MPICH Version:") == 0;
}

class CaptureOfWrites : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : testing::TempDir();
    path_ = folder + "lzy-capture-" + std::to_string(getpid());
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    ASSERT_EQ(MPI_File_open(MPI_COMM_SELF, path_.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file_),
              MPI_SUCCESS);
    buffer_.resize(2u << 20);
    for (std::size_t i = 0; i < buffer_.size(); ++i) buffer_[i] = static_cast<std::uint8_t>((i * 2654435761u) >> 13);
  }
  void TearDown() override {
    MPI_File_close(&file_);
    unlink(path_.c_str());
  }

  /// Some writes to a file with an old content, captured; what went to the file is held against what was captured.
  void Round(TypeMaker& maker, std::uint64_t& captured, std::uint64_t& written) {
    ASSERT_EQ(MPI_File_set_view(file_, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_SUCCESS);
    ASSERT_EQ(MPI_File_set_size(file_, maker.Pick(0, 60000)), MPI_SUCCESS);
    OpenFile file;
    file.options.block_size = kBlock;
    file.options.stripe = kBlock << maker.Pick(0, 4);
    file.options.group = static_cast<std::uint32_t>(maker.Pick(3, 8));
    file.options.parity = static_cast<std::uint32_t>(maker.Pick(0, 2));
    const Options& o = file.options;
    file.expected = {o.parity, o.group, o.block_size, o.stripe, 0, 0};
    file.comm = SelfCommunicator();
    for (std::int64_t writes = maker.Pick(1, 5); writes > 0; --writes) Write(maker, file, written);
    const auto capture = TakeCapture(file);
    ASSERT_EQ(capture == nullptr, failed_) << trace_;
    if (std::exchange(failed_, false)) return;
    const std::vector<std::uint8_t> now = Content();
    const auto layout = lzy::Layout::Create(SharedGeometry(file.options, now.size()), {now.size()});
    ASSERT_TRUE(layout.ok());
    ASSERT_TRUE(capture->Finish(*layout)) << trace_;
    capture->CloseOpen([](std::uint64_t) { return Capture::Fate::kCaptured; });
    for (const Interval& blocks : capture->Captured(1u << 20)) {
      for (std::uint64_t i = blocks.begin; i < blocks.end; ++i) {
        const ByteSpan block = ByteSpan(now).subspan(i * kBlock, std::min<std::uint64_t>(kBlock, now.size() - i * kBlock));
        ASSERT_EQ(capture->leaf(i), HashBytes(HashTag::kDataLeaf, i, block)) << "block " << i << trace_;
        captured += block.size();
      }
    }
  }

 private:
  void Write(TypeMaker& maker, OpenFile& file, std::uint64_t& written) {
    const TestType type = maker.Make(static_cast<int>(maker.Pick(0, 3)), nullptr);
    // With some types MPI libraries write elsewhere than the standard says, or never end.
    if (type.size == 0 || type.size > kMostData || MapOf(type.get()).doubtful || !IsListedWhole(type.get())) return;
    if (!ends_all_writes_ && (!MapOf(type.get()).regular || type.lower != 0 || type.lowest() < 0)) return;
    auto count = maker.Pick(1, std::max<std::int64_t>(1, kMostData / type.size));
    const std::int64_t middle = static_cast<std::int64_t>(buffer_.size()) / 2;
    const std::int64_t reach = std::abs(type.extent) * count + type.span() + std::abs(type.lowest());
    if (reach > middle) count = 1;
    // Bytes in a row, or pieces with gaps as large, which the next write may fill.
    MPI_Datatype filetype = MPI_BYTE;
    const MPI_Offset displacement = maker.Chance(40) ? 0 : maker.Pick(0, 5000);
    const auto piece = static_cast<int>(maker.Chance(50) ? maker.Pick(1, 3000) : maker.Pick(1, 4) * static_cast<int>(kBlock));
    if (maker.Chance(50) && (ends_all_writes_ || MapOf(type.get()).layout.IsRun())) {
      const int both = 2 * piece, first = 0;
      MPI_Type_create_subarray(1, &both, &piece, &first, MPI_ORDER_C, MPI_BYTE, &filetype);
    } else {
      MPI_Type_contiguous(1, MPI_BYTE, &filetype);
    }
    MPI_Type_commit(&filetype);
    MpiView view;
    view.Set(displacement, MPI_BYTE, filetype, "native");
    const MPI_Offset offset = maker.Chance(50) ? 0 : maker.Pick(0, 20000);
    trace_ += fmt::format("\nseed {}: {} of {} at {}, displacement {}, pieces of {}", Seed(), count, type.text, offset,
                          displacement, piece);
    ASSERT_EQ(MPI_File_set_view(file_, displacement, MPI_BYTE, filetype, "native", MPI_INFO_NULL), MPI_SUCCESS);
    const std::uint8_t* from = buffer_.data() + middle + maker.Pick(0, 64);
    MPI_Status status;
    void* told = &status;
    const int code = MPI_File_write_at(file_, offset, from, static_cast<int>(count), type.get(), &status);
    MPI_Type_free(&filetype);
    const auto bytes = static_cast<std::uint64_t>(count * type.size);
    if (code != MPI_SUCCESS) {
      failed_ = true;
      return VoidCapture(file);
    }
    WriteCapture capture(file, DataCall{ToWord(file_), Place::kExplicit, offset, from, count, ToWord(type.get()), Done::kAtReturn, &told, nullptr},
                         view, offset, bytes);
    capture.Run();
    written += bytes;
  }

  std::vector<std::uint8_t> Content() const {
    std::vector<std::uint8_t> bytes;
    const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about {};
    if (descriptor < 0 || fstat(descriptor, &about) != 0) std::abort();
    bytes.resize(static_cast<std::size_t>(about.st_size));
    if (pread(descriptor, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
    close(descriptor);
    return bytes;
  }

  const bool ends_all_writes_ = EndsAllWrites();
  bool failed_ = false;  // a write of this round
  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
  std::vector<std::uint8_t> buffer_;

 protected:
  MPI_File file() const { return file_; }
  const std::uint8_t* buffer() const { return buffer_.data(); }

  std::string trace_;
};

TEST_F(CaptureOfWrites, HasTheHashesOfTheFile) {
  std::uint64_t captured = 0, written = 0;
  TypeOptions options;
  options.odd_leaves = false;
  TypeMaker maker(Seed(), options);
  for (int i = 0; i < 3000 && !HasFailure(); ++i) {
    Round(maker, captured, written);
    trace_.clear();
  }
  std::printf("%llu bytes captured of %llu written\n", static_cast<unsigned long long>(captured),
              static_cast<unsigned long long>(written));
  // Some are written twice, or in types that not every library is believed of.
  EXPECT_GT(captured, written / 10);
}

void HandleNothing(MPI_File*, int*, ...) {}

/// Captured by a thread while it is written.
class CaptureBesideWrites : public CaptureOfWrites {
 protected:
  void SetUp() override {
    CaptureOfWrites::SetUp();
    open_ = std::make_shared<OpenFile>();
    Options& o = open_->options;
    o.block_size = 4096;
    o.stripe = 4096;
    o.group = 4;
    o.parity = 1;
    o.threads = 2;
    open_->expected = {o.parity, o.group, o.block_size, o.stripe, 0, 0};
    open_->comm = SelfCommunicator();
  }
  DataCall Call(const void* from, std::uint64_t bytes) const {
    return {ToWord(file()), Place::kExplicit, 0, from, static_cast<std::int64_t>(bytes), ToWord(MPI_BYTE), Done::kAtReturn,
            nullptr, nullptr};
  }
  std::unique_ptr<CaptureBeside> Start(const void* from, std::uint64_t bytes = kBytes) {
    return CaptureBeside::Start(*open_, Call(from, bytes), MpiView(), 0, bytes);
  }
  std::shared_ptr<Capture> Take() {
    const std::lock_guard lock(open_->mutex);
    return TakeCapture(*open_);
  }
  /// The blocks of a file of kBytes of which `capture` has hashes.
  static std::vector<Interval> Captured(Capture& capture, const Options& options) {
    const auto layout = lzy::Layout::Create(SharedGeometry(options, kBytes), {kBytes});
    EXPECT_TRUE(layout.ok() && capture.Finish(*layout));
    capture.CloseOpen([](std::uint64_t) { return Capture::Fate::kCaptured; });
    return capture.Captured(1000);
  }

  static constexpr std::uint64_t kBytes = 2u << 20;
  std::shared_ptr<OpenFile> open_;
};

TEST_F(CaptureBesideWrites, CountsAfterTheWriteHasSucceeded) {
  auto beside = Start(buffer());
  ASSERT_NE(beside, nullptr);
  beside->End(true);
  const auto capture = Take();
  ASSERT_NE(capture, nullptr);
  EXPECT_EQ(Captured(*capture, open_->options), (std::vector<Interval>{{0, kBytes / 4096}}));
  EXPECT_EQ(capture->leaf(3), HashBytes(HashTag::kDataLeaf, 3, ByteSpan(buffer() + 3 * 4096, 4096)));
}

TEST_F(CaptureBesideWrites, NothingCountsAfterAWriteThatFailed) {
  Start(buffer())->End(true);
  Start(buffer())->End(false);
  EXPECT_EQ(Take(), nullptr);
  Start(buffer())->End(true);
  EXPECT_NE(Take(), nullptr) << "the next epoch is another";
}

TEST_F(CaptureBesideWrites, NothingCountsIfTheEndOfTheWriteIsUnknown) {
  Start(buffer()).reset();
  EXPECT_EQ(Take(), nullptr);
  Start(buffer())->End(true);
  EXPECT_NE(Take(), nullptr);
}

TEST_F(CaptureBesideWrites, ACommitDuringTheWriteDoesNotUseIt) {
  auto beside = Start(buffer());
  EXPECT_EQ(Take(), nullptr);
  auto next = Start(buffer());
  beside->End(false);
  next->End(true);
  EXPECT_NE(Take(), nullptr) << "what the epoch before lost is nothing to this one";
}

TEST_F(CaptureBesideWrites, IsNotForSmallWritesOneThreadOrHandlersThatMayNotReturn) {
  EXPECT_EQ(Start(buffer(), 4096), nullptr);
  MPI_Errhandler handler;
  MPI_File_create_errhandler(HandleNothing, &handler);
  MPI_File_set_errhandler(file(), handler);
  EXPECT_EQ(Start(buffer()), nullptr);
  EXPECT_EQ(WriteCapture(*open_, Call(buffer(), kBytes), MpiView(), 0, kBytes).capture(), nullptr) << "failures may have no code";
  EXPECT_EQ(Take(), nullptr);
  MPI_File_set_errhandler(file(), MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&handler);
  EXPECT_NE(Start(buffer()), nullptr);
  Take();
  open_->options.threads = 1;
  EXPECT_EQ(Start(buffer()), nullptr);
}

/// A buffer of which the program may do anything to single pages. An MPI library that can stage memory of devices may
/// still write it.
class BufferWithAHole : public CaptureBesideWrites {
 protected:
  void SetUp() override {
    CaptureBesideWrites::SetUp();
    memory_ = static_cast<std::uint8_t*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory_, MAP_FAILED);
    std::memset(memory_, 1, kBytes);
    // Had the layer remembered what it can read, it would do so now.
    WriteCapture(*open_, Call(memory_, kBytes), MpiView(), 0, kBytes).Run();
    Take();
    ASSERT_EQ(mprotect(memory_ + kHole * 4096, 4096, PROT_NONE), 0);
  }
  void TearDown() override {
    munmap(memory_, kBytes);
    CaptureBesideWrites::TearDown();
  }
  void ExpectAllButTheHole() {
    const auto capture = Take();
    ASSERT_NE(capture, nullptr);
    EXPECT_EQ(Captured(*capture, open_->options), (std::vector<Interval>{{0, kHole}, {kHole + 1, kBytes / 4096}}));
  }

  static constexpr std::uint64_t kHole = kBytes / 2 / 4096;
  std::uint8_t* memory_ = nullptr;
};

TEST_F(BufferWithAHole, IsCapturedAroundTheHole) {
  WriteCapture(*open_, Call(memory_, kBytes), MpiView(), 0, kBytes).Run();
  ExpectAllButTheHole();
}

TEST_F(BufferWithAHole, IsCapturedAroundTheHoleWhileItIsWritten) {
  auto beside = Start(memory_);
  ASSERT_NE(beside, nullptr);
  beside->End(true);
  ExpectAllButTheHole();
}

TEST_F(BufferWithAHole, IsCapturedAroundTheHoleInSmallWrites) {
  for (std::uint64_t at = 0; at < kBytes; at += 1024) {
    WriteCapture(*open_, Call(memory_ + at, 1024), MpiView(), static_cast<MPI_Offset>(at), 1024).Run();
  }
  ExpectAllButTheHole();
}

TEST_F(BufferWithAHole, OfPiecesIsNotCaptured) {
  for (const int stride : {3, 3000}) {
    MPI_Datatype type;
    const int count = static_cast<int>(kBytes) / stride - 1;
    MPI_Type_vector(count, 2, stride, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    DataCall call = Call(memory_, 1);
    call.type = ToWord(type);
    WriteCapture(*open_, call, MpiView(), 0, static_cast<std::uint64_t>(count) * 2).Run();
    MPI_Type_free(&type);
    const auto capture = Take();
    const auto missed = Without(Without(capture->Written(10), capture->Captured(10)), capture->Open(10));
    EXPECT_EQ(missed.size(), 1u) << stride;
  }
}

}  // namespace
}  // namespace lzy::hooks
