#pragma once
// Copies a file so that the copy is proven before it gets its name (docs/design/repair.md §9 "Copies").
//
// copy/copy_tree calls CopyFile for each file. A copy is built under a temporary name beside its final one, with its sidecar.
// Both get their names after everything was read back and synced, if the source has not changed meanwhile. Until then, an
// existing file of this name stays.

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
  ReadBack read_back = ReadBack::kUncached;
  bool protect = true;    ///< make the sidecar of the copy, too
  bool salvage = false;   ///< copy damaged blocks that cannot be rebuilt as they are
  bool resume = false;    ///< continue an interrupted copy; skip files that are there already
  bool judged = false;    ///< as SourceRules::judged
  bool member = false;    ///< the copy is a member of a set: leave an existing sidecar to the commit of the set
  bool follow = true;     ///< if `to` is a symbolic link, copy to its target; false: replace the link
  bool sync_name = true;  ///< sync the directory; false: the caller does
  bool far = false;       ///< source and destination are on two machines, so an answer may take a tenth of a second (CopyAll)
  /// Opens the source. Empty: LocalSource::Open.
  std::function<Result<std::unique_ptr<CopySource>>(const std::string& from)> open = {};
  /// Waits until this many bytes may be read: limits the rate of all files together (base/rate_limit). Thread-safe. May be
  /// empty.
  std::function<void(std::uint64_t bytes)> wait = {};
  /// Called with the number of copied bytes, by several threads at once. May be empty.
  std::function<void(std::uint64_t bytes)> progress = {};
  /// Called on all ranks before any rank copies, with the share (0 to 1) of the bytes that this rank copies. Called again if
  /// the share changes (CopyAll, CopySet). May be empty.
  std::function<void(double share)> dealt = {};
};

/// The result of one copy. Numbers are bytes of its data.
struct CopyReport {
  std::string from, to;
  /// Not ok: there is no copy, and an existing file of its name is unchanged. One exception: the copy may have its name, but
  /// its sidecar could not be renamed.
  Status status;
  bool changed = false;  ///< with status kBusy: the source was changed, or may have an edit (exit code 9)
  bool already = false;  ///< with `resume`: the copy was there already, and nothing was copied
  std::uint64_t bytes = 0;
  bool compared = false;         ///< each block was compared with its committed hash
  std::uint64_t reread = 0;      ///< wrong at the first read, right at the second past the page cache
  std::uint64_t healed = 0;      ///< damaged in the source, and rebuilt in the copy
  std::uint64_t sent_again = 0;  ///< written again, because they were read back wrong
  std::uint64_t resumed = 0;     ///< taken from an interrupted copy
  std::vector<ByteRange> lost;   ///< salvage: damaged or edited, and so in the copy
  bool kept = false;             ///< after a failure: the temporary file stays, and can be resumed
  std::string root;              ///< root of the copy, if it is protected
  bool same_root = false;        ///< the source has the same root
  bool unsealed = false;         ///< with a key: the source is not sealed, and neither is the copy (exit code 4)
  bool unprotected = false;      ///< it replaced a protected file, and has no sidecar
  bool directory = false;        ///< it is a directory, and there are only warnings
  std::vector<std::string> warnings;
  LZY_FIELDS(from, to, status, changed, already, bytes, compared, reread, healed, sent_again, resumed, lost, kept, root,
             same_root, unsealed, unprotected, directory, warnings)
};
/// kInvalidArgument if a copy of this name would be one of lzy's own files.
Status CheckCopyName(const std::string& to);
/// Adds the warning for a file or directory with less access than its source.
void WarnOfAcl(const std::string& to, std::vector<std::string>& warnings);
/// The exit code of a report (docs/reference/tools.md "Exit codes").
int ExitCodeOf(const CopyReport& report);

/// Copies the file `from` to `to`, and replaces `to` if it exists. The directory of `to` must exist. Options: threads,
/// memory, key, timeout; and for the sidecar of the copy parity, group, block-size and stripe, which default to those of the
/// source. The copy gets the source's mode, times, ACL, user extended attributes and, if the superuser copies, owner. Local:
/// context.comm must have one rank. Does not call context.progress. Never throws or prints.
CopyReport CopyFile(const Context& context, const std::string& from, const std::string& to, const CopyRequest& request);

}  // namespace lzy
