#pragma once
// Capturing what a program writes to a shared file (engine/capture.h): from MPI's write calls to bytes in the file.

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/report.h"
#include "layer.h"
#include "open_file.h"

namespace lzy::hooks {

/// Of a write of `bytes` bytes from etype number `position` of the view on, which succeeded as far as is known: captures
/// what is in the buffer, which the program does not change before the write is done, or notes that it did not.
void CaptureWrite(OpenFile& file, const WriteCall& call, const View& view, MPI_Offset position, std::uint64_t bytes);
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
