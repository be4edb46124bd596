#pragma once
// New stamps for files whose content is proven (docs/design/repair.md §8 "Outdated stamps").
//
// A file that was copied, or extracted from an archive with times of whole seconds, has its committed content but another
// stamp. Then every later difference looks like an edit, and nothing is repaired. A racy stamp has the same effect. After
// reading a file and finding it intact, lzy can record a new stamp. Only the stamps change. The generation and all hashes
// stay.

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/view.h"

namespace lzy {

/// True if the stamp does not describe the file: the mtime, size, inode or time of birth differ. Also true if the stamp is
/// racy, and old enough by the clock of this node to be replaced by a better one. Ranks may differ. `commit_clock_ns` is
/// recorded with the stamp.
bool IsStampOutdated(const FileStat& file, const Stamp& stamp, std::int64_t commit_clock_ns);

/// The note for the report on a dataset that was read completely and is intact. Collective; the same on all ranks.
Result<StampNote> NoteOfStamps(const Context& context, const DatasetView& view);

/// Renews the stamps of a dataset. Call Begin, then read and judge all data, then call Finish if the dataset is intact.
/// `view` must be open for writing, and outlive this object.
class StampRenewal {
 public:
  StampRenewal(const Context& context, DatasetView& view) : context_(context), view_(view) {}

  /// Notes which files have outdated stamps, their stats, and the clocks of their file systems. Changes no file that has a
  /// name. Local.
  void Begin();
  /// Takes back what Begin noted of a file, because its data were repaired since. Local.
  void Leave(const std::string& path);
  /// Records the new stamps durably, except for files that changed since Begin. Returns true if there was anything to
  /// record, on any rank. After an error or a crash, each sidecar has its old stamp or the new one. Collective.
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
  std::vector<Renewal> renewals_;  // files that this rank owns
};

}  // namespace lzy
