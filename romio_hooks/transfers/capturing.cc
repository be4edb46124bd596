#include "hooks/transfers/capturing.h"

#include <algorithm>

#include "base/file.h"
#include "dataset/view.h"
#include "hooks/files/pointers.h"
#include "hooks/files/registry.h"
#include "storage/parallel.h"

namespace lzy::hooks {
namespace {

// True if a collective write of this rank is in the file when it returns, so that a later write comes after it. ROMIO ends
// such a write with a reduction (ADIOI_GEN_WriteStridedColl). OMPIO does not promise this. With verify-writes, data are
// checked against MPI's rule that the later write counts.
#ifdef OPEN_MPI
constexpr bool kWritesInOrder = false;
#else
constexpr bool kWritesInOrder = true;
#endif

// A write of at least this many bytes takes much longer than starting a thread.
constexpr std::uint64_t kWorthAThread = 1u << 20;

/// The geometry that a commit chooses for a file of `size` bytes. For a member of a set it has no parity: only hashes are
/// captured.
GeometryParameters GeometryOf(const OpenFile& file, std::uint64_t size) {
  Options options = file.options;
  options.parity = file.set ? 0 : file.expected.parity;
  options.group = file.expected.group;
  options.block_size = file.expected.block_size;
  options.stripe = file.expected.stripe;
  options.device_dirs.assign(file.expected.directories, "");  // only their number matters
  options.by_servers = file.set ? std::nullopt : file.expected.by_servers;
  return SharedGeometry(options, size);
}

/// True if parity of a member is made from copies of what was written.
bool KeepsCopies(const OpenFile& file) {
  return file.set && file.expected.parity > 0 && !file.pages_stay;
}

/// The setup for the expected next commit. A file that is small so far, or new, may become large, so its unit is that of
/// large files. A large file is expected to stay large. If it does not, the data are read back.
CaptureSetup SetupFor(const OpenFile& file) {
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 60;
  CaptureSetup setup;
  setup.parameters = GeometryOf(file, kLarge);
  // The unit of a shared file follows from its size below that (docs/format.md §6).
  const std::uint64_t large = 4 * setup.parameters.unit * setup.parameters.groups.at(0).size();
  if (file.set) {
    setup.certain_from = 0;  // without rows there is no unit
  } else if (file.expected.by_servers) {
    setup.certain_from = kSmallBlocksUpTo + 1;  // except for its blocks, the size does not matter
  } else if (file.expected.size < large) {
    setup.certain_from = large;
  } else {
    setup.parameters = GeometryOf(file, file.expected.size);
  }
  // A quarter of option memory is left to the commit, or half if it exchanges the shares of members (rows/batches.cc). Two
  // thirds of the rest may hold copies of what was written: for parity, or with verify-writes, so that it can be written
  // again. Captures of commits in the background count.
  const std::uint64_t memory = file.options.memory - std::min(file.options.memory, memory_in_commits.load());
  setup.memory = file.set && file.expected.parity > 0 ? memory / 2 : memory / 4 * 3;
  setup.hold = file.options.verify_writes || KeepsCopies(file) ? setup.memory / 3 * 2 : 0;
  setup.compare = file.options.verify_writes;
  setup.in_order = kWritesInOrder;
  setup.only_held = !file.options.verify_writes && KeepsCopies(file);
  setup.key = file.options.key;
  return setup;
}

/// True if the file may be captured. Not if others may write it at any time, or if it is not protected. Members of a set
/// with parity are usually not captured: their bytes must be read for parity, and are hashed when read. They are captured
/// if copies avoid the reading, and with verify-writes, for the comparison. The caller holds file.mutex.
bool MayCapture(const OpenFile& file) {
  const bool of_use = !file.set || file.expected.parity == 0 || KeepsCopies(file) || file.options.verify_writes;
  return file.options.capture && file.failed.ok() && of_use && !file.uncoordinated && !file.capture_void;
}

/// The capture of this epoch, made at its first use; null if nothing is captured, or if it cannot be made. The caller holds
/// file.mutex.
std::shared_ptr<Capture> CaptureOf(OpenFile& file) {
  if (!MayCapture(file)) return nullptr;
  if (file.capture) return file.capture;
  auto made = Capture::Create(SetupFor(file));
  if (made.ok()) file.capture = std::move(*made);
  file.threads = ThreadsFor({.fs = PosixFileSystem(), .comm = *file.comm, .options = file.options});
  file.capture_void = !made.ok();
  return file.capture;
}

std::shared_ptr<Capture> LockedCaptureOf(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  return CaptureOf(file);
}

/// True if a thread could have a core to itself. Makes the capture if there is none, because that counts the cores.
bool HasSpareCore(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  return CaptureOf(file) && file.threads > 1;
}

/// True if a failed write returns an error code. MPICH 5 returns success if the program has an error handler of its own.
/// Then nothing can be captured, because a failed write would count.
bool ReturnsCodes(MPI_File handle) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (handle == MPI_FILE_NULL || PMPI_File_get_errhandler(handle, &handler) != MPI_SUCCESS) return true;
  const bool known = handler == MPI_ERRORS_RETURN || handler == MPI_ERRORS_ARE_FATAL;
  PMPI_Errhandler_free(&handler);
  return known;
}

void MissIn(Capture& capture, const std::vector<Interval>& ranges, Uncompared why = Uncompared::kUnseen) {
  for (const Interval& range : ranges) capture.Miss(range, why);
}

void MissRanges(OpenFile& file, const std::vector<Interval>& ranges, Uncompared why) {
  if (const auto capture = LockedCaptureOf(file)) {
    MissIn(*capture, ranges, why);
  } else {
    VoidCapture(file);
  }
}

}  // namespace

WriteCapture::WriteCapture(OpenFile& file, const DataCall& call, const MpiView& view, MPI_Offset position,
                           std::uint64_t bytes)
    : file_(file), view_(view), position_(position), bytes_(bytes) {
  // MPI is called without the lock, once in an epoch: other threads may write meanwhile, and MPI may wait.
  {
    std::unique_lock lock(file.mutex);
    if (!MayCapture(file)) return;
    const bool known = file.returns_codes;
    lock.unlock();
    const bool tell = known || ReturnsCodes(As<MPI_File>(call.fh));
    lock.lock();
    file.returns_codes = tell;
    if (tell) capture_ = CaptureOf(file);
    // If no other write of this process is under way, this one comes after all captured writes.
    const bool alone = !SeveralThreads() && file.writes_unconfirmed == 0 && !file.split_write;
    turn_ = alone ? ++file.writes_begun : 0;
  }
  if (!capture_) {
    VoidCapture(file);
    return;
  }
  source_ = std::make_unique<UserBuffer>();
  bool known = false;
  try {
    known = source_->Open(call);
    if (!known && file.options.verify_writes) known = only_compare_ = source_->Open(call, UserBuffer::Belief::kDefined);
  } catch (...) {  // bounds beyond the range of an offset
  }
  // Without a source, Run still marks the ranges as missed, because they are written.
  if (!known) source_.reset();
}

WriteCapture::~WriteCapture() = default;
WriteCapture::WriteCapture(WriteCapture&&) noexcept = default;

// Processes the data in stretches of bounded memory. A stretch with many small pieces, or with pieces that cannot be read,
// is missed. If the place of a stretch is not known, it could be anywhere, so the capture of the whole epoch is void.
void WriteCapture::Run() {
  if (!capture_) return;
  DataWalk walk(view_, position_, bytes_, source_.get());
  while (walk.Next()) {
    if (!walk.ranges()) return VoidCapture(file_);
    if (!walk.InPieces() || !Take(*walk.ranges())) MissIn(*capture_, *walk.ranges());
  }
}

bool WriteCapture::Take(const std::vector<Interval>& ranges) {
  for (const Interval& range : ranges) {
    for (std::uint64_t at = range.begin; at < range.end;) {
      const auto piece = source_->Next(range.end - at);
      if (!piece) return false;
      if (only_compare_) capture_->TakeToCompare(at, *piece, turn_);
      if (!only_compare_) capture_->Take(at, *piece, turn_);
      at += piece->size();
    }
  }
  return true;
}

std::unique_ptr<CaptureBeside> CaptureBeside::Start(OpenFile& file, const DataCall& call, const MpiView& view,
                                                    MPI_Offset position, std::uint64_t bytes) {
  // ReturnsCodes also shows that the program has no error handler of its own. Such a handler might jump out of the write, and
  // the program might free the buffer while the thread still reads it.
  if (bytes < kWorthAThread || !ReturnsCodes(As<MPI_File>(call.fh)) || !HasSpareCore(file)) return nullptr;
  WriteCapture capture(file, call, view, position, bytes);
  if (!capture.capture() || !capture.KnowsBytes()) return nullptr;
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
  } catch (...) {  // no thread: the caller captures after the write
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

// If the thread ran out of memory, parts of the write may be neither captured nor missed, so it counts as failed.
void CaptureBeside::End(bool succeeded, const std::vector<Interval>* lost) {
  thread_.join();
  if (lost != nullptr) LoseRanges(*file_, *lost);  // before a commit could treat them as confirmed
  Confirm(*file_, epoch_, (succeeded || lost != nullptr) && !failed_);
}

std::optional<std::uint64_t> ExpectConfirmation(OpenFile& file, const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(file.mutex);
  if (!capture || file.capture != capture) return std::nullopt;
  ++file.writes_unconfirmed;
  return file.captures_taken;
}

void NoteWriteTime(OpenFile& file) {
  file.written_until_ns = WallClockNs();
  if (!file.options.verify_writes) return;
  const auto stat = PosixFileSystem().Stat(file.path);
  const std::lock_guard lock(file.mutex);
  if (!stat.ok()) return;
  file.written_mtime_ns = std::max(file.written_mtime_ns, stat->mtime_ns);
  file.written_size = std::max(file.written_size, stat->size);
}

Result<bool> OthersWroteLast(OpenFile& file) {
  std::int64_t mine = 0;
  {
    const std::lock_guard lock(file.mutex);
    mine = std::exchange(file.written_mtime_ns, 0);
  }
  LZY_ASSIGN_OR_RETURN(const std::uint64_t last, file.comm->AllReduceMax(static_cast<std::uint64_t>(mine)));
  const auto stat = PosixFileSystem().Stat(file.path);
  const bool younger = !stat.ok() || static_cast<std::uint64_t>(stat->mtime_ns) > last;
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any, file.comm->AllReduceMax(younger));
  return any != 0;
}

void RestoreEnd(OpenFile& file) {
  const auto stat = PosixFileSystem().Stat(file.path);
  const auto size = file.comm->AllReduceMax(file.Leads() && stat.ok() ? stat->size : 0);
  const bool alone = !SeveralThreads() && !Registry::Get().IsOpenElsewhere(file);
  // The largest number means that this rank does not know.
  std::uint64_t mine = kEverythingBehind;
  std::int64_t written = 0;
  {
    const std::lock_guard lock(file.mutex);
    const bool done = file.writes_unconfirmed == 0 && !file.split_write && file.written_size <= (size.ok() ? *size : 0);
    if (alone && done && !file.touched.whole() && !file.capture_void) {
      mine = file.capture ? file.capture->EndOfKnown(size.ok() ? *size : 0) : 0;
    }
    written = file.written_mtime_ns;
  }
  const auto end = file.comm->AllReduceMax(mine);
  const auto last = file.comm->AllReduceMax(static_cast<std::uint64_t>(written));
  if (!size.ok() || !end.ok() || !last.ok() || !file.Leads() || !stat.ok()) return;
  if (*end == kEverythingBehind || *end <= stat->size || static_cast<std::uint64_t>(stat->mtime_ns) > *last) return;
  if (stat->inode != file.disk->inode || stat->file_system != file.disk->file_system) return;  // another file has the name now
  const auto out = PosixFileSystem().Open(file.path, OpenMode::kReadWrite);
  if (out.ok() && (*out)->Truncate(*end).ok()) NoteWriteTime(file);
}

void Confirm(OpenFile& file, std::uint64_t epoch, bool succeeded) {
  const std::lock_guard lock(file.mutex);
  // A commit came first, found the write unconfirmed and did not use captures. The counter belongs to another epoch now.
  if (file.captures_taken != epoch) return;
  --file.writes_unconfirmed;
  if (!succeeded) VoidLockedCapture(file);
}

void MissRanges(OpenFile& file, const std::vector<Interval>& ranges) { MissRanges(file, ranges, Uncompared::kUnseen); }

void LoseRanges(OpenFile& file, const std::vector<Interval>& ranges) { MissRanges(file, ranges, Uncompared::kOthers); }

void DistrustCapture(OpenFile& file) {
  {
    const std::lock_guard lock(file.mutex);
    file.misplaced = true;
  }
  if (const auto capture = LockedCaptureOf(file)) capture->Distrust();
}

void CutCapture(OpenFile& file, std::uint64_t size, const std::vector<Interval>& changed) {
  {
    const std::lock_guard lock(file.mutex);
    file.written_size = std::min(file.written_size, size);
  }
  if (SeveralThreads()) return MissRanges(file, changed);
  if (const auto capture = LockedCaptureOf(file)) capture->Cut(size);
}

void VoidCapture(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  VoidLockedCapture(file);
}

void VoidLockedCapture(OpenFile& file) {
  file.capture_void = true;
  file.capture.reset();
}

// Makes a capture if there is none: an empty capture says that this rank has no unknown writes.
std::shared_ptr<Capture> TakeCapture(OpenFile& file) {
  auto capture = CaptureOf(file);
  file.capture.reset();
  file.capture_void = false;
  file.returns_codes = false;
  ++file.captures_taken;
  file.written_size = 0;
  const bool done = file.writes_unconfirmed == 0 && !file.split_write;
  file.writes_unconfirmed = 0;
  file.split_write.reset();
  return done ? capture : nullptr;
}

void KeepCapture(OpenFile& file, std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(file.mutex);
  if (!file.capture && MayCapture(file) && file.touched.empty()) file.capture = std::move(capture);
}

void CarryCapture(OpenFile& file, std::shared_ptr<Capture> capture) {
  if (capture && capture->Carry()) KeepCapture(file, std::move(capture));
}

void ExpectSameGeometry(OpenFile& file, const DatasetReport& report) {
  const std::lock_guard lock(file.mutex);
  file.expected.parity = report.parity;
  file.expected.block_size = report.automatic_block_size ? kAutomaticBlockSize : report.block_size;
  if (file.set) return;  // the other fields are those of the whole set
  file.expected.group = report.group_size;
  file.expected.size = report.bytes;
  file.expected.by_servers = report.by_servers;
  if (file.expected.directories > 0) file.expected.directories = report.devices;
  // The unit may come from an option of an earlier commit. If the options do not give it, request it directly.
  if (GeometryOf(file, report.bytes).unit != report.unit) file.expected.stripe = report.unit;
}

}  // namespace lzy::hooks
