#pragma once
// Captures the data that a program writes from its buffers (docs/design/commit.md "Capture"). Converts the arguments of a
// write call (buffer, datatype, view, position) to bytes at places in the file, and passes them to the Capture of this rank
// (encode/capture.h). The hooks in calls/hooks.cc call it; the commit takes the result (TakeCapture).
//
// Invariant: a capture that the commit gets is right about every block that it knows. In case of doubt, blocks are missed
// (the commit reads them back), or the capture of the whole epoch is void. So no function here fails. All functions are
// local, and lock OpenFile::mutex unless their comments say otherwise.

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "hooks/contract/layer.h"
#include "hooks/files/open_file.h"
#include "hooks/ranges/user_buffer.h"
#include "request/report.h"

namespace lzy::hooks {

/// The capture of one write of `bytes` bytes, from etype number `position` of `view` on. Reads the program's buffer, which
/// must not change until the write is done (MPI demands this). `file` must outlive it.
class WriteCapture {
 public:
  /// Calls MPI as far as needed, so that Run may be called in any thread. Captures nothing yet.
  WriteCapture(OpenFile& file, const DataCall& call, const MpiView& view, MPI_Offset position, std::uint64_t bytes);
  ~WriteCapture();
  WriteCapture(WriteCapture&&) noexcept;
  /// Captures the write, or records that it is not captured. Calls no MPI.
  void Run();

  const std::shared_ptr<Capture>& capture() const { return capture_; }  ///< null: the write is not captured
  /// True if it is known which bytes are written. If false, Run only records the write as not captured.
  bool KnowsBytes() const { return source_ != nullptr; }

 private:
  /// Captures the present stretch of the source. False if its bytes cannot be read.
  bool Take(const std::vector<Interval>& ranges);

  OpenFile& file_;
  MpiView view_;
  MPI_Offset position_;
  std::uint64_t bytes_;
  std::shared_ptr<Capture> capture_;
  std::uint64_t turn_ = 0;              // of Capture::Take
  std::unique_ptr<UserBuffer> source_;  // null if the bytes of the data are not known
  bool only_compare_ = false;           // some MPI libraries write other bytes of such a buffer
};

/// A blocking write that a thread captures while MPI writes (docs/design/commit.md "Capture"; Arslan and Alhussen: FIVER
/// hashes while it transfers). If the thread has a core to itself, the program does not wait for it. The write is
/// unconfirmed until End.
class CaptureBeside {
 public:
  /// Starts the thread. Null if the write is small, if there is no spare core, or if it is not known which bytes are
  /// written. Then nothing is captured, and the caller must capture the write after it has returned.
  static std::unique_ptr<CaptureBeside> Start(OpenFile& file, const DataCall& call, const MpiView& view, MPI_Offset position,
                                              std::uint64_t bytes);
  /// Waits for the thread. If End was not called, the write stays unconfirmed, so the commit does not use the captures of
  /// this epoch.
  ~CaptureBeside();
  /// Call this when the write has returned; waits for the thread. `succeeded`: all bytes were written. If false, all
  /// captures of this epoch are void. Exception: if `lost` has the ranges of the write, only these are void (LoseRanges).
  void End(bool succeeded, const std::vector<Interval>* lost = nullptr);

 private:
  CaptureBeside(std::shared_ptr<OpenFile> file, WriteCapture capture, std::uint64_t epoch);
  // The object owns everything that its thread needs, because an error handler may jump out of the write, past the end of
  // the caller's variables.
  const std::shared_ptr<OpenFile> file_;
  WriteCapture capture_;
  const std::uint64_t epoch_;
  bool failed_ = false;
  std::thread thread_;
};

/// Counts a write in `capture` that may still fail: a commit cannot use the capture until all such writes are confirmed.
/// Returns the number of the epoch, an argument of Confirm; nullopt if `capture` is not that of the current epoch.
std::optional<std::uint64_t> ExpectConfirmation(OpenFile& file, const std::shared_ptr<Capture>& capture);
/// Ends such a write. If it failed, the capture of the epoch is void. No effect if the epoch is over.
void Confirm(OpenFile& file, std::uint64_t epoch, bool succeeded);

/// Call it after a write: remembers the time and, with verify-writes, mtime and size of the file. The caller does not hold
/// file.mutex.
void NoteWriteTime(OpenFile& file);
/// With verify-writes, right before a commit: true if the last write of the file was not an MPI call of this program. A
/// program may write a header by POSIX calls before the close. That is no fault, and must not be overwritten. It shows only
/// in the mtime: the file is newer than the last write through the layer. Collective over the file's communicator.
Result<bool> OthersWroteLast(OpenFile& file);

/// With verify-writes, at a commit, before TakeCapture: if the file ends before the end of what was written, the MPI
/// library lost bytes. Then extends the file to that size, so that these blocks can be checked and written again. Does
/// nothing if these blocks would not be checked (not all captured, or another handle is open), if the file was longer after
/// a write, if somebody else may have written it last, or in programs with threads. Collective over the file's
/// communicator.
void RestoreEnd(OpenFile& file);

/// Records that a write to `ranges`, now or before the next commit, is not captured: the commit reads these blocks.
void MissRanges(OpenFile& file, const std::vector<Interval>& ranges);
/// The same for a write to `ranges` that failed or fell short, even if it was captured meanwhile.
void LoseRanges(OpenFile& file, const std::vector<Interval>& ranges);
/// With verify-writes: records a write through a view with which some MPI libraries write to wrong places. Nothing is
/// captured in this epoch, and the commit covers the whole file. The written data are still compared after the commit.
void DistrustCapture(OpenFile& file);
/// Call it before MPI_File_set_size changes the size to `size`. Forgets captured blocks at or behind `size`; they may be
/// captured again. `changed`: the bytes that the call changes; they are missed if writes of other threads could be under
/// way.
void CutCapture(OpenFile& file, std::uint64_t size, const std::vector<Interval>& changed);
/// Makes all captures of this epoch void, including later ones.
void VoidCapture(OpenFile& file);
void VoidLockedCapture(OpenFile& file);  ///< the same, with file.mutex held

/// For the commit: returns the capture of this epoch; null if it does not count. The next epoch gets a new capture. The
/// caller holds file.mutex.
std::shared_ptr<Capture> TakeCapture(OpenFile& file);
/// After a sync without a commit: the epoch continues with its capture, unless a new one was made already.
void KeepCapture(OpenFile& file, std::shared_ptr<Capture> capture);
/// After a commit that used `capture`: the next epoch continues with it, unless a new one was made already.
void CarryCapture(OpenFile& file, std::shared_ptr<Capture> capture);
/// After a commit: the next epoch captures for the geometry in `report`.
void ExpectSameGeometry(OpenFile& file, const DatasetReport& report);

}  // namespace lzy::hooks
