#pragma once
// A copy of a file that is proven when it has its name (docs/design/repair.md "Copies").
//
// copy/tree calls CopyFile for each file of what the user named. A file is built under a temporary name beside its
// final one, with its sidecar. Both get their names when everything was read back, is durable, and the source is still
// what it was. Until then, what had the name stays as it is.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/record.h"
#include "copy/source.h"
#include "copy/target.h"
#include "request/context.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// How files are copied.
struct CopyRequest {
  ReadBack read_back = ReadBack::kDevice;
  bool protect = true;    ///< also make the sidecar of the copy
  bool salvage = false;   ///< copy damaged blocks that cannot be rebuilt as they are
  bool resume = false;    ///< go on where an earlier copy ended; skip what is there already
  bool member = false;    ///< the copy is for a set: its sidecar, if there is one, is left to the commit of the set
  bool follow = true;     ///< if the destination is a symbolic link: copy to what it leads to; otherwise replace it
  bool sync_name = true;  ///< make the names durable; otherwise the caller syncs the directory
  /// Opens the source. Empty: LocalSource does.
  std::function<Result<std::unique_ptr<CopySource>>(const std::string& from)> open = {};
  /// Waits until so many bytes may be read: a bound on the rate of all files together (base/rate_limit). Called by several
  /// threads at once. May be empty.
  std::function<void(std::uint64_t bytes)> wait = {};
  /// Told of bytes that were copied; called by several threads at once. May be empty.
  std::function<void(std::uint64_t bytes)> progress = {};
  /// Told on all ranks, before any of them copies, how large a share of the bytes this rank copies: 0, nothing, to 1, all.
  /// Told again when that changes (CopyAll, CopySet). May be empty.
  std::function<void(double share)> dealt = {};
};

/// What became of one file. Numbers are bytes of its data.
struct CopyReport {
  std::string from, to;
  /// Not ok: there is no copy, and what had its name is as it was. One exception: the copy has its name already, and its
  /// sidecar could not be given its own.
  Status status;
  bool changed = false;  ///< with status kBusy: somebody changed the source, or it may have an edit (exit code 9)
  bool already = false;  ///< with `resume`: it was there already, and nothing was copied
  std::uint64_t bytes = 0;
  bool compared = false;         ///< each block was compared with its committed hash
  std::uint64_t reread = 0;      ///< read wrong at first, and right from the device
  std::uint64_t healed = 0;      ///< damaged in the source, and rebuilt in the copy
  std::uint64_t sent_again = 0;  ///< written again, since they were read back wrong
  std::uint64_t resumed = 0;     ///< taken from an earlier copy that ended too soon
  std::vector<ByteRange> lost;   ///< to salvage: damaged in the copy, too
  bool kept = false;             ///< a failure left what can be resumed
  std::string root;              ///< of the copy, if it is protected
  bool same_root = false;        ///< and the source has the same
  bool unsealed = false;         ///< with a key: the source is not sealed, and neither is the copy (exit code 4)
  bool directory = false;        ///< no file: there are only warnings of it
  std::vector<std::string> warnings;
  LZY_FIELDS(from, to, status, changed, already, bytes, compared, reread, healed, sent_again, resumed, lost, kept, root,
             same_root, unsealed, directory, warnings)
};
/// kInvalidArgument if a copy of this name would be one of lzy's own files.
Status CheckCopyName(const std::string& to);
/// The warning of a file or directory whose access is narrower than that of its source.
void WarnOfAcl(const std::string& to, std::vector<std::string>& warnings);
/// docs/reference/tools.md "Exit codes".
int ExitCodeOf(const CopyReport& report);

/// Copies the file `from` to `to`, which is replaced if it exists. Its directory must exist. options: threads, memory,
/// key, timeout; parity, group, block-size and stripe of the copy's sidecar, which are those of the source's unless
/// they were given. Mode, times, ACL, extended attributes of users and, for the superuser, the owner are those of the
/// source. Local: context.comm must have one rank. Does not use context.progress. Never throws or prints.
CopyReport CopyFile(const Context& context, const std::string& from, const std::string& to, const CopyRequest& request);

}  // namespace lzy
