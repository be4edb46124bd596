#include "base/late_file.h"

namespace lzy {

namespace {

// The LateFile interface of the file, or null.
LateFile* LateOf(File& file) {
  auto* const late = dynamic_cast<LateFile*>(&file);
  return late != nullptr && late->may_see_late() ? late : nullptr;
}

}  // namespace

bool MaySeeLate(File& file) {
  return LateOf(file) != nullptr;
}

void ForgetPages(File& file) {
  if (LateFile* const late = LateOf(file)) late->ForgetPages();
}

Status Refresh(File& file) {
  LateFile* const late = LateOf(file);
  return late != nullptr ? late->Refresh() : Status::Ok();
}

// A list of the directory makes this node ask for its names again.
Result<std::unique_ptr<File>> OpenRefreshed(FileSystem& fs, const std::string& path, OpenMode mode, bool follow) {
  auto file = fs.Open(path, mode, follow);
  if (!file.ok() || Refresh(**file).code() != Code::kNotFound) return file;
  (void)fs.List(DirectoryOf(path));
  return fs.Open(path, mode, follow);
}

}  // namespace lzy
