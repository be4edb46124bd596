#include "capturing.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "engine/view.h"
#include "storage/parallel.h"
#include "type_contents.h"
#include "type_map.h"

namespace lzy::hooks {
namespace {

// Of the data of a write whose buffer or place is in pieces, so much is looked at in one go; less where the pieces are
// small.
constexpr std::uint64_t kStretch = 8u << 20;
constexpr std::uint64_t kLeastStretch = 32u << 10;
constexpr std::size_t kMostPieces = 16384;
// Pieces of the buffer are put together up to so many bytes.
constexpr std::size_t kPacked = 1u << 20;
// Writes of so many bytes take much longer than it takes to start a thread.
constexpr std::uint64_t kWorthAThread = 1u << 20;

/// What the next commit is expected to choose.
GeometryParameters GeometryOf(const OpenFile& file) {
  Options options = file.options;
  options.parity = file.expected.parity;
  options.group = file.expected.group;
  options.block_size = file.expected.block_size;
  options.stripe = file.expected.stripe;
  // A file that is new may become large; what is captured of one that stays small is of little worth anyhow.
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 60;
  return SharedGeometry(options, file.expected.size > 0 ? file.expected.size : kLarge);
}

/// With file.mutex held.
bool MayCapture(const OpenFile& file) {
  return file.options.capture && !file.set && !file.uncoordinated && !file.capture_void;
}

/// The file's capture, made at its first use. Null where there is nothing to be captured. file.mutex is held.
std::shared_ptr<Capture> CaptureOf(OpenFile& file) {
  if (!MayCapture(file)) return nullptr;
  if (file.capture) return file.capture;
  auto made = Capture::Create(GeometryOf(file), file.options.memory / 4 * 3);
  if (made.ok()) file.capture = std::move(*made);
  file.threads = ThreadsFor({.fs = PosixFileSystem(), .comm = *file.comm, .options = file.options});
  file.capture_void = !made.ok();
  return file.capture;
}

std::shared_ptr<Capture> LockedCaptureOf(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  return CaptureOf(file);
}

bool HasSpareCore(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  return CaptureOf(file) && file.threads > 1;
}

std::uint64_t TotalOf(const std::vector<Interval>& intervals) {
  std::uint64_t total = 0;
  for (const Interval& one : intervals) total += one.end - one.begin;
  return total;
}

/// Whether the processor may read these bytes: MPI libraries take buffers in the memory of other devices, too.
bool IsReadable(const std::uint8_t* bytes, std::size_t size) {
  std::uint8_t ends[2] = {};
  iovec to{ends, sizeof ends};
  iovec from[2] = {{const_cast<std::uint8_t*>(bytes), 1}, {const_cast<std::uint8_t*>(bytes + size - 1), 1}};
  return process_vm_readv(getpid(), &to, 1, from, 2, 0) == 2;  // where a sandbox forbids to ask, all is read back
}

/// Whether all of it can be read, now and without a signal: a program may hand over memory that is not there, and get an
/// error for it. No where the kernel cannot tell (before Linux 5.14).
bool IsThere(const std::uint8_t* bytes, std::uint64_t size) {
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, which older headers do not have
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(bytes) + size + page - 1) / page * page;
  return madvise(reinterpret_cast<void*>(begin), end - begin, kPopulateRead) == 0;
}

/// Whether a write that fails has a code that says so. With MPICH 5 it has none where the program has an error handler of
/// its own.
bool CodesTell(MPI_File handle) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (handle == MPI_FILE_NULL || PMPI_File_get_errhandler(handle, &handler) != MPI_SUCCESS) return true;
  const bool known = handler == MPI_ERRORS_RETURN || handler == MPI_ERRORS_ARE_FATAL;
  PMPI_Errhandler_free(&handler);
  return known;
}

void MissIn(Capture& capture, const std::vector<Interval>& ranges) {
  for (const Interval& range : ranges) capture.Miss(range);
}

}  // namespace

/// The buffer of a write as a stream of bytes of data.
class WriteCapture::Source {
 public:
  /// False when its bytes cannot be told, or not in their order.
  bool Open(const WriteCall& call) {
    const auto type = As<MPI_Datatype>(call.type);
    TypeShape shape;
    if (!shape.Read(type)) return false;
    const TypeMap map = MapOf(type);
    tile_ = map.layout;
    extent_ = shape.extent;
    count_ = static_cast<std::uint64_t>(call.count);
    origin_ = reinterpret_cast<std::uintptr_t>(call.buffer);
    contiguous_ = !map.doubtful && tile_.begin >= 0 && tile_.IsRun() &&
                  (count_ == 1 || tile_.size == static_cast<std::uint64_t>(extent_));
    if (contiguous_) return true;
    // Of buffers with other gaps, or with data below the origin, Intel MPI 2021 writes something else.
    return map.regular && shape.lower == 0 && tile_.begin >= 0 && tile_.InOrder() &&
           extent_ >= tile_.end - tile_.begin && extent_ > 0;
  }
  bool contiguous() const { return contiguous_; }
  /// As far as the ends of the data tell.
  bool IsReadable(std::uint64_t bytes) const { return hooks::IsReadable(First(), Reach(bytes)); }
  /// All pages of it.
  bool IsThere(std::uint64_t bytes) const { return hooks::IsThere(First(), Reach(bytes)); }

  /// To be read next: bytes [first, last) of the data. False when they are in too many pieces.
  bool Seek(std::uint64_t first, std::uint64_t last) {
    at_ = 0;
    if (contiguous_) {
      const std::uint64_t base = origin_ + static_cast<std::uint64_t>(tile_.begin);
      pieces_.assign(1, {base + first, base + last});
    } else {
      pieces_ = BytesOf(tile_, count_, extent_, origin_, first, last, kMostPieces);
      if (TotalOf(pieces_) != last - first) return false;
    }
    return true;
  }

  /// At most `most` more bytes: in place where they lie together, else copied. Valid until the next call.
  ByteSpan Next(std::uint64_t most) {
    Interval& piece = pieces_[at_];
    const std::uint64_t here = piece.end - piece.begin;
    if (here >= most || here >= kPacked || at_ + 1 == pieces_.size()) return Take(std::min(here, most));
    most = std::min<std::uint64_t>(most, kPacked);
    packed_.clear();
    while (packed_.size() < most && at_ < pieces_.size()) {
      const Interval& next = pieces_[at_];
      const ByteSpan bytes = Take(std::min<std::uint64_t>(next.end - next.begin, most - packed_.size()));
      packed_.insert(packed_.end(), bytes.begin(), bytes.end());
    }
    return packed_;
  }

 private:
  static const std::uint8_t* Pointer(std::uint64_t address) { return reinterpret_cast<const std::uint8_t*>(address); }

  const std::uint8_t* First() const { return Pointer(origin_ + static_cast<std::uint64_t>(tile_.begin)); }
  /// From the first byte of `bytes` bytes of data to the last.
  std::uint64_t Reach(std::uint64_t bytes) const {
    if (contiguous_) return bytes;
    return static_cast<std::uint64_t>(extent_) * (count_ - 1) + static_cast<std::uint64_t>(tile_.end - tile_.begin);
  }

  ByteSpan Take(std::uint64_t length) {
    Interval& piece = pieces_[at_];
    const ByteSpan bytes(Pointer(piece.begin), length);
    piece.begin += length;
    if (piece.begin == piece.end) ++at_;
    return bytes;
  }

  Layout tile_;
  std::int64_t extent_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t origin_ = 0;
  bool contiguous_ = false;
  std::vector<Interval> pieces_;
  std::size_t at_ = 0;
  std::vector<std::uint8_t> packed_;
};

WriteCapture::WriteCapture(OpenFile& file, const WriteCall& call, const View& view, MPI_Offset position,
                           std::uint64_t bytes)
    : file_(file), view_(view), position_(position), bytes_(bytes) {
  {
    std::unique_lock lock(file.mutex);
    if (!MayCapture(file)) return;
    const bool known = file.codes_tell;
    lock.unlock();
    const bool tell = known || CodesTell(As<MPI_File>(call.fh));
    lock.lock();
    file.codes_tell = tell;
    if (tell) capture_ = CaptureOf(file);
  }
  if (!capture_) {
    VoidCapture(file);
    return;
  }
  source_ = std::make_unique<Source>();
  bool known = false;
  try {
    known = source_->Open(call);
  } catch (...) {  // its bounds are beyond what an offset can say
  }
  if (!known || !source_->IsReadable(bytes)) source_.reset();
}

bool WriteCapture::BufferIsThere() const {
  return source_ && source_->IsThere(bytes_);
}

WriteCapture::~WriteCapture() = default;
WriteCapture::WriteCapture(WriteCapture&&) noexcept = default;

void WriteCapture::Run() {
  if (!capture_) return;
  const bool in_one = view_.IsContiguous() && source_ && source_->contiguous();
  const std::uint64_t etype = view_.etype_size();
  const auto in_etypes = [&](std::uint64_t size) { return std::max<std::uint64_t>(1, size / etype) * etype; };
  std::uint64_t stretch = in_one ? bytes_ : in_etypes(kStretch);
  for (std::uint64_t done = 0, length = 0; done < bytes_; done += length) {
    length = std::min(stretch, bytes_ - done);
    const auto ranges = view_.Ranges(position_ + static_cast<MPI_Offset>(done / etype), length, kMostPieces);
    if (!ranges) return VoidCapture(file_);
    if (!source_ || TotalOf(*ranges) != length || !source_->Seek(done, done + length)) {
      if (source_ && stretch > in_etypes(kLeastStretch)) {  // perhaps the pieces are too many
        stretch = in_etypes(std::max(kLeastStretch, stretch / 8));
        length = 0;
      } else {
        MissIn(*capture_, *ranges);
      }
      continue;
    }
    for (const Interval& range : *ranges) {
      for (std::uint64_t at = range.begin; at < range.end;) {
        const ByteSpan piece = source_->Next(range.end - at);
        capture_->Take(at, piece);
        at += piece.size();
      }
    }
  }
}

std::unique_ptr<CaptureBeside> CaptureBeside::Start(OpenFile& file, const WriteCall& call, const View& view,
                                                    MPI_Offset position, std::uint64_t bytes) {
  // An error handler of the program's own might not return, and the buffer be gone while it is still read.
  if (bytes < kWorthAThread || !CodesTell(As<MPI_File>(call.fh)) || !HasSpareCore(file)) return nullptr;
  WriteCapture capture(file, call, view, position, bytes);
  if (!capture.capture() || !capture.BufferIsThere()) return nullptr;
  const auto epoch = ExpectConfirmation(file, capture.capture());
  if (!epoch) return nullptr;
  std::unique_ptr<CaptureBeside> beside(new CaptureBeside(file.shared_from_this(), std::move(capture), *epoch));
  try {
    beside->thread_ = StartThread([raw = beside.get()] {
      try {
        raw->capture_.Run();
      } catch (...) {
        raw->failed_ = true;
      }
    });
  } catch (...) {  // it goes without
    Confirm(file, *epoch, true);
    return nullptr;
  }
  return beside;
}

CaptureBeside::CaptureBeside(std::shared_ptr<OpenFile> file, WriteCapture capture, std::uint64_t epoch)
    : file_(std::move(file)), capture_(std::move(capture)), epoch_(epoch) {}

CaptureBeside::~CaptureBeside() {
  if (thread_.joinable()) thread_.join();
}

void CaptureBeside::End(bool succeeded) {
  thread_.join();
  Confirm(*file_, epoch_, succeeded && !failed_);
}

std::optional<std::uint64_t> ExpectConfirmation(OpenFile& file, const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(file.mutex);
  if (!capture || file.capture != capture) return std::nullopt;
  ++file.writes_unconfirmed;
  return file.captures_taken;
}

void Confirm(OpenFile& file, std::uint64_t epoch, bool succeeded) {
  const std::lock_guard lock(file.mutex);
  if (file.captures_taken != epoch) return;  // its epoch did without
  --file.writes_unconfirmed;
  if (!succeeded) VoidLockedCapture(file);
}

void MissRanges(OpenFile& file, const std::vector<Interval>& ranges) {
  if (const auto capture = LockedCaptureOf(file)) {
    MissIn(*capture, ranges);
  } else {
    VoidCapture(file);
  }
}

void VoidCapture(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  VoidLockedCapture(file);
}

void VoidLockedCapture(OpenFile& file) {
  file.capture_void = true;
  file.capture.reset();
}

std::shared_ptr<Capture> TakeCapture(OpenFile& file) {
  auto capture = CaptureOf(file);
  file.capture.reset();
  file.capture_void = false;
  file.codes_tell = false;
  ++file.captures_taken;
  const bool done = file.writes_unconfirmed == 0 && !file.split_write;
  file.writes_unconfirmed = 0;
  file.split_write.reset();
  return done ? capture : nullptr;
}

void ExpectSameGeometry(OpenFile& file, const DatasetReport& report) {
  const std::lock_guard lock(file.mutex);
  file.expected.parity = report.parity;
  file.expected.group = report.group_size;
  file.expected.block_size = report.block_size;
  file.expected.size = report.bytes;
  if (GeometryOf(file).unit != report.unit) file.expected.stripe = report.unit;
}

}  // namespace lzy::hooks
