#pragma once
// Threads of lzy that make MPI calls beside the program: commits in the background (romio_hooks/background).
//
// Such a thread must leave the processor to the program, so it sleeps where other threads of lzy spin (Patience). It must
// also make no MPI call any more once the process ends: a program may call exit() without MPI_Finalize, and then the
// destructors of the MPI library run while this thread would still use it.

#include <chrono>

namespace lzy {

/// Marks the calling thread as one that works beside the program, for as long as this object lives. The thread that starts it
/// calls Expect before: a process may end before the new thread comes to its first instruction.
class BesideProgram {
 public:
  BesideProgram();
  ~BesideProgram();
  BesideProgram(const BesideProgram&) = delete;
  BesideProgram& operator=(const BesideProgram&) = delete;

  /// Counts a thread that is about to start, and takes that back if it cannot be started.
  static void Expect();
  static void DoNotExpect();
  /// Whether the calling thread is such a thread.
  static bool Here();
  /// Where a thread may stop for ever: between two MPI calls. Returns at once, unless EndAll was called and this is a
  /// thread beside the program.
  static void StopIfEnding();
  /// For the end of the process: all such threads stop at their next StopIfEnding. Waits until they have stopped or ended,
  /// at most for `patience`. A thread that does not come there in time goes on until it does.
  static void EndAll(std::chrono::milliseconds patience);
  /// True once EndAll was called. If it found threads at work, `Interrupted` is true, too: what they did never ends, and
  /// nobody may wait for it.
  static bool Ending();
  static bool Interrupted();
};

}  // namespace lzy
