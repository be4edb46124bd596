#include "base/late_file.h"

namespace lzy {

bool MaySeeLate(File& file) {
  auto* const late = dynamic_cast<LateFile*>(&file);
  return late != nullptr && late->may_see_late();
}

void ForgetPages(File& file) {
  if (MaySeeLate(file)) dynamic_cast<LateFile&>(file).ForgetPages();
}

Status Refresh(File& file) {
  return MaySeeLate(file) ? dynamic_cast<LateFile&>(file).Refresh() : Status::Ok();
}

}  // namespace lzy
