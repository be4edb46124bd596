#include "transport/beside.h"

#include <unistd.h>

#include <atomic>
#include <thread>

namespace lzy {
namespace {

constinit thread_local bool here = false;
constinit std::atomic<bool> ending{false};
constinit std::atomic<bool> interrupted{false};
constinit std::atomic<int> running{0};  // threads that may still make MPI calls

}  // namespace

BesideProgram::BesideProgram() { here = true; }

BesideProgram::~BesideProgram() {
  --running;
  here = false;
}

void BesideProgram::Expect() { ++running; }

void BesideProgram::DoNotExpect() { --running; }

bool BesideProgram::Here() { return here; }

void BesideProgram::StopIfEnding() {
  if (!here || !ending.load(std::memory_order_acquire)) return;
  --running;
  while (true) pause();
}

bool BesideProgram::Ending() { return ending.load(); }

bool BesideProgram::Interrupted() { return interrupted.load(); }

void BesideProgram::EndAll(std::chrono::milliseconds patience) {
  if (running.load() > 0) interrupted.store(true);
  ending.store(true, std::memory_order_release);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (running.load() > 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace lzy
