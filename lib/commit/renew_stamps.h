#pragma once
// New stamps for files whose content is proven (docs/design/repair.md §8 "Outdated stamps").
//
// After a copy, or out of an archive with times of whole seconds, a file is as committed, but its stamp says something
// else. Then every later difference looks like an edit, and nothing is repaired. A racy stamp has the same effect. Whoever
// has read a file and found it intact can record what the file is now. Only the stamps change: the generation stays, and so
// do all hashes.

#include <cstdint>
#include <vector>

#include "dataset/view.h"

namespace lzy {

/// Whether the stamp does not tell what the file is: another mtime, size, inode or time of birth, or a racy stamp that is old
/// enough by the clock of this node to be replaced by a better one. Ranks may differ.
bool IsStampOutdated(const FileStat& file, const Stamp& stamp, std::int64_t commit_clock_ns);

/// The note for a report on a dataset that was read as a whole and is intact. Collective, the same on all ranks.
Result<StampNote> NoteOfStamps(const Context& context, const DatasetView& view);

/// Renews the stamps of a dataset: Begin, then everything is read and judged, then Finish if it is intact. `view` must be
/// open for writing, and outlive it.
class StampRenewal {
 public:
  StampRenewal(const Context& context, DatasetView& view) : context_(context), view_(view) {}

  /// Notes what the files with outdated stamps are, and the clocks of their file systems. Writes to nothing that has a name.
  /// Local.
  void Begin();
  /// Records it durably, unless a file changed since. True if there was anything to record. Collective. After an error or a
  /// crash, each sidecar has its old stamp or the new one.
  Result<bool> Finish();

 private:
  struct Renewal {
    FileView* file = nullptr;
    FileStat stat;
    std::int64_t clock_ns = 0;
  };
  Status Record(const Renewal& renewal) const;

  const Context& context_;
  DatasetView& view_;
  std::vector<Renewal> renewals_;  // of files that this rank owns
};

}  // namespace lzy
