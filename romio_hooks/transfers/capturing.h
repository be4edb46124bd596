#pragma once
// Capturing what a program writes to a shared file (encode/capture.h): from MPI's write calls to bytes in the file.

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

/// The capture of one write of `bytes` bytes from etype number `position` of the view on: of what is in the buffer, which
/// the program does not change before the write is done.
class WriteCapture {
 public:
  /// All that has to be asked of MPI is asked here. Nothing is captured yet.
  WriteCapture(OpenFile& file, const DataCall& call, const View& view, MPI_Offset position, std::uint64_t bytes);
  ~WriteCapture();
  WriteCapture(WriteCapture&&) noexcept;
  /// Captures it, or notes that it is not captured. In any thread.
  void Run();

  const std::shared_ptr<Capture>& capture() const { return capture_; }  ///< where to; null: nowhere
  /// Makes sure that reading the buffer, before MPI has, cannot end the program where MPI would report an error.
  bool BufferIsThere() const;

 private:
  OpenFile& file_;
  View view_;
  MPI_Offset position_;
  std::uint64_t bytes_;
  std::shared_ptr<Capture> capture_;
  std::unique_ptr<UserBuffer> source_;  // null: its bytes cannot be told
};

/// A write is captured by a thread of its own while MPI writes (docs/design.md "Capture"; Arslan and Alhussen: FIVER hashes while it
/// transfers). Where that thread has a core to itself the program does not wait for it.
class CaptureBeside {
 public:
  /// Null where it is not worth it, or cannot be; then nothing is captured so far.
  static std::unique_ptr<CaptureBeside> Start(OpenFile& file, const DataCall& call, const View& view, MPI_Offset position,
                                              std::uint64_t bytes);
  ~CaptureBeside();
  /// The write has returned. Unless this is told that it succeeded in full, nothing captured in this epoch counts.
  void End(bool succeeded);

 private:
  CaptureBeside(std::shared_ptr<OpenFile> file, WriteCapture capture, std::uint64_t epoch);
  // Nothing of the caller's is needed: an error handler may jump out of the write past this object's destruction.
  const std::shared_ptr<OpenFile> file_;
  WriteCapture capture_;
  const std::uint64_t epoch_;
  bool failed_ = false;
  std::thread thread_;
};

/// Something in `capture` is not known to succeed: until all such writes are confirmed it is of no use. The epoch, for
/// Confirm; none where it is not that of the epoch (any more).
std::optional<std::uint64_t> ExpectConfirmation(OpenFile& file, const std::shared_ptr<Capture>& capture);
void Confirm(OpenFile& file, std::uint64_t epoch, bool succeeded);

/// A write is done: with verify-writes, remembers when. file.mutex is not held.
void NoteWriteTime(OpenFile& file);

/// Something is written there, now or before the next commit, and nothing of it captured.
void MissRanges(OpenFile& file, const std::vector<Interval>& ranges);
/// All that is captured in this epoch is of no use.
void VoidCapture(OpenFile& file);
void VoidLockedCapture(OpenFile& file);  ///< the same, with file.mutex held

/// For the commit, with file.mutex held: what was captured since the last one; null if that is of no use. The next
/// epoch captures anew.
std::shared_ptr<Capture> TakeCapture(OpenFile& file);
/// After a commit: what comes next will have its geometry.
void ExpectSameGeometry(OpenFile& file, const DatasetReport& report);

}  // namespace lzy::hooks
