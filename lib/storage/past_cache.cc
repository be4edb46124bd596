#include "storage/past_cache.h"

#include <utility>

#include "base/forwarding_file.h"

namespace lzy {
namespace {

class PastCacheFile final : public ForwardingFile {
 public:
  using ForwardingFile::ForwardingFile;
  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override { return file_->ReadAtUncached(offset, to); }
  void ExpectReading() override {}  // pages that are read ahead are of no use
};

}  // namespace

std::unique_ptr<File> ReadPastCache(std::unique_ptr<File> file) {
  return file ? std::make_unique<PastCacheFile>(std::move(file)) : nullptr;
}

bool IsReadPastCache(const File& file) {
  return dynamic_cast<const PastCacheFile*>(&file) != nullptr;
}

}  // namespace lzy
