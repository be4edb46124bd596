#pragma once
// A base for files that are another file, with a few calls changed.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/late_file.h"
#include "base/many_writers.h"

namespace lzy {

/// Passes every call on to `file`, which must not be null. Subclasses override what they change.
class ForwardingFile : public File, public LateFile, public ManyWriters {
 public:
  explicit ForwardingFile(std::unique_ptr<File> file) : file_(std::move(file)) {}

  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override { return file_->ReadAt(offset, to); }
  Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) override { return file_->ReadAtUncached(offset, to); }
  void ExpectReading() override { file_->ExpectReading(); }
  std::uint64_t NextData(std::uint64_t offset) override { return file_->NextData(offset); }
  Status WriteAt(std::uint64_t offset, ByteSpan from) override { return file_->WriteAt(offset, from); }
  void ExpectWriters(unsigned here, unsigned elsewhere) override { lzy::ExpectWriters(*file_, here, elsewhere); }
  void StartWriting(std::uint64_t offset, std::uint64_t length) override { file_->StartWriting(offset, length); }
  Status Truncate(std::uint64_t size) override { return file_->Truncate(size); }
  Status Sync() override { return file_->Sync(); }
  Result<FileStat> Stat() override { return file_->Stat(); }
  Result<FileStat> StatAtOpening() override { return file_->StatAtOpening(); }
  bool may_see_late() override { return MaySeeLate(*file_); }
  Status Refresh() override { return lzy::Refresh(*file_); }
  void ForgetPages() override { lzy::ForgetPages(*file_); }
  bool StampsEveryChange() override { return file_->StampsEveryChange(); }
  Status SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) override { return file_->SetTimes(atime_ns, mtime_ns); }
  Result<std::vector<std::uint8_t>> AccessAcl() override { return file_->AccessAcl(); }
  Status CopyAccess(File& like) override { return file_->CopyAccess(like); }
  Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) override { return file_->SetAccess(mode, uid, gid); }
  Result<Attributes> UserAttributes() override { return file_->UserAttributes(); }
  Status SetUserAttributes(const Attributes& attributes) override { return file_->SetUserAttributes(attributes); }
  Status Lock() override { return file_->Lock(); }
  std::optional<LockHolder> FindLockHolder() override { return file_->FindLockHolder(); }
  const std::string& path() const override { return file_->path(); }
  int SystemDescriptor() const override { return file_->SystemDescriptor(); }

 protected:
  const std::unique_ptr<File> file_;
};

}  // namespace lzy
