#pragma once
// Takes what a program writes to a file from its buffers (docs/design/commit.md "Capture"). It turns the arguments of a
// write call (buffer, datatype, view, position) into bytes at places in the file, and passes them to the Capture of
// this rank (encode/capture.h). The hooks in calls/hooks.cc call it; the commit takes the result (TakeCapture).
//
// Invariant: a capture that the commit gets is right about every block that it knows. Everything doubtful is either
// missed (these blocks are read back) or voids the capture of the whole epoch. So no function here fails: without
// memory or without a known place, it misses or voids. All functions are local, and lock OpenFile::mutex unless they
// say so.

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "hooks/files/open_file.h"
#include "hooks/layer/layer.h"
#include "hooks/ranges/user_buffer.h"
#include "request/report.h"

namespace lzy::hooks {

/// The capture of one write of `bytes` bytes, from etype number `position` of `view` on. It reads the program's buffer,
/// which must not change until the write is done; MPI forbids the program to change it. `file` must outlive it.
class WriteCapture {
 public:
  /// Asks MPI everything that must be asked, so that Run may be called in any thread. Captures nothing yet.
  WriteCapture(OpenFile& file, const DataCall& call, const View& view, MPI_Offset position, std::uint64_t bytes);
  ~WriteCapture();
  WriteCapture(WriteCapture&&) noexcept;
  /// Captures the write, or notes that it is not captured. Calls no MPI.
  void Run();

  const std::shared_ptr<Capture>& capture() const { return capture_; }  ///< null: the write is not captured
  /// Whether it is known which bytes are written. If not, Run only notes that.
  bool KnowsBytes() const { return source_ != nullptr; }

 private:
  /// Captures the stretch of the data at which the source stands. False: its bytes cannot be read.
  bool Take(const std::vector<Interval>& ranges);

  OpenFile& file_;
  View view_;
  MPI_Offset position_;
  std::uint64_t bytes_;
  std::shared_ptr<Capture> capture_;
  std::uint64_t turn_ = 0;              // of Capture::Take
  std::unique_ptr<UserBuffer> source_;  // null: its bytes cannot be told
  bool only_compare_ = false;           // MPI libraries may write other bytes of such a buffer
};

/// A blocking write that a thread captures while MPI writes (docs/design/commit.md "Capture"; Arslan and Alhussen: FIVER
/// hashes while it transfers). If the thread has a core to itself, the program does not wait for it. The write is
/// unconfirmed until End.
class CaptureBeside {
 public:
  /// Starts the thread. Null if the write is small, if there is no spare core, or if it is not known which bytes are written.
  /// Then nothing is captured so far, and the caller captures when the write has returned.
  static std::unique_ptr<CaptureBeside> Start(OpenFile& file, const DataCall& call, const View& view, MPI_Offset position,
                                              std::uint64_t bytes);
  /// Waits for the thread. If End was not called, the write stays unconfirmed, so the epoch does without captures.
  ~CaptureBeside();
  /// Call this when the write has returned; waits for the thread. `succeeded`: the write was written in full. If not,
  /// nothing that was captured in this epoch counts; or, if `lost` are the ranges of the write, all else does (LoseRanges).
  void End(bool succeeded, const std::vector<Interval>* lost = nullptr);

 private:
  CaptureBeside(std::shared_ptr<OpenFile> file, WriteCapture capture, std::uint64_t epoch);
  // The object owns all that its thread needs. An error handler may jump out of the write, past the end of the caller's
  // variables.
  const std::shared_ptr<OpenFile> file_;
  WriteCapture capture_;
  const std::uint64_t epoch_;
  bool failed_ = false;
  std::thread thread_;
};

/// A write in `capture` may still fail: until all such writes are confirmed, a commit cannot use the capture. Returns
/// the number of the epoch, to be passed to Confirm; none if `capture` is not that of the current epoch.
std::optional<std::uint64_t> ExpectConfirmation(OpenFile& file, const std::shared_ptr<Capture>& capture);
/// The end of such a write. If it failed, the capture of the epoch is void. No effect if the epoch is over.
void Confirm(OpenFile& file, std::uint64_t epoch, bool succeeded);

/// After a write: with verify-writes, remembers the mtime and size of the file. The caller does not hold file.mutex.
void NoteWriteTime(OpenFile& file);
/// With verify-writes, right before a commit: whether something else than this program's MPI calls wrote the file last. A
/// program may write a header by POSIX calls before the close; that is no fault, and must not be overwritten. It shows
/// only in the mtime: the file is younger than the last write through the layer. Collective over the file's communicator.
Result<bool> OthersWroteLast(OpenFile& file);

/// With verify-writes, at a commit, before TakeCapture: if the file ends before what was written, the MPI library lost the
/// end of a write. Gives the file that size, so that the blocks there can be checked and written again. Does nothing if
/// these would not be checked (not all of them are captured, or another handle is open), if the file was longer after a
/// write or anything else may have written it last, or in programs with threads. Collective over the file's communicator.
void RestoreEnd(OpenFile& file);

/// Something is written to `ranges`, now or before the next commit, and is not captured: the commit reads these blocks.
void MissRanges(OpenFile& file, const std::vector<Interval>& ranges);
/// The same after a write to `ranges` that failed or fell short, also if it was captured meanwhile.
void LoseRanges(OpenFile& file, const std::vector<Interval>& ranges);
/// With verify-writes: something is written through a view with which MPI libraries are known to write elsewhere. Nothing is
/// captured in this epoch, and the commit covers the whole file. What was written, and will be, is compared all the same.
void DistrustCapture(OpenFile& file);
/// MPI_File_set_size is about to cut the file to `size`, or to let it grow. What was captured at or behind `size` is
/// forgotten, and may be captured again. `changed`: the bytes that become others; they are missed if writes of other
/// threads could be under way.
void CutCapture(OpenFile& file, std::uint64_t size, const std::vector<Interval>& changed);
/// Nothing that was or will be captured in this epoch counts.
void VoidCapture(OpenFile& file);
void VoidLockedCapture(OpenFile& file);  ///< the same, with file.mutex held

/// For the commit: what was captured in this epoch; null if it does not count. The next epoch captures anew. The caller
/// holds file.mutex.
std::shared_ptr<Capture> TakeCapture(OpenFile& file);
/// After a sync that had nothing to commit: the epoch goes on with its capture, unless something is captured anew already.
void KeepCapture(OpenFile& file, std::shared_ptr<Capture> capture);
/// After a commit that used `capture`: the next epoch goes on with it, unless something is captured anew already.
void CarryCapture(OpenFile& file, std::shared_ptr<Capture> capture);
/// After a commit: the next epoch captures for the geometry that `report` says.
void ExpectSameGeometry(OpenFile& file, const DatasetReport& report);

}  // namespace lzy::hooks
