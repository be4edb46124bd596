#include "objects_helper/confine.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

namespace lzy {
namespace {

// Bytes, seconds. For 100,000 objects the library needs 100 MiB and two seconds.
constexpr rlim_t kMostMemory = rlim_t{2} << 30;
constexpr rlim_t kMostSeconds = 30;
constexpr int kFirstOther = 4;  // descriptor

void Limit(__rlimit_resource what, rlim_t most) {
  const rlimit limit{most, most};
  setrlimit(what, &limit);
}

}  // namespace

void LimitResources() {
#ifdef SYS_close_range
  syscall(SYS_close_range, kFirstOther, ~0U, 0);
#endif
#ifndef __SANITIZE_ADDRESS__
  Limit(RLIMIT_AS, kMostMemory);
#endif
  Limit(RLIMIT_CPU, kMostSeconds);
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_FSIZE, 0);
  Limit(RLIMIT_NPROC, 0);
  // The tool may end before this process.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

#if defined(__x86_64__)
#define LZY_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define LZY_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

void ForbidSystemCalls() {
#if defined(LZY_ARCHITECTURE) && !defined(__SANITIZE_ADDRESS__)
  constexpr unsigned kAllowed[] = {SYS_read,     SYS_pread64,    SYS_write,   SYS_close,        SYS_lseek,         SYS_fstat,
                                   SYS_brk,      SYS_mmap,       SYS_munmap,  SYS_mremap,       SYS_madvise,       SYS_mprotect,
                                   SYS_futex,    SYS_exit,       SYS_exit_group, SYS_rt_sigreturn, SYS_clock_gettime, SYS_getrandom,
                                   SYS_gettimeofday, SYS_getpid};
  constexpr std::size_t kCount = std::size(kAllowed);
  sock_filter program[3 + 1 + kCount + 2] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LZY_ARCHITECTURE, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    program[4 + i] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAllowed[i], static_cast<__u8>(kCount - i), 0);
  }
  program[4 + kCount] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  program[5 + kCount] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
#endif
}

}  // namespace lzy
