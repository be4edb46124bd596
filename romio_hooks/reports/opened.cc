#include "hooks/reports/opened.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "base/status.h"
#include "request/opened_record.h"

namespace lzy::hooks {

// Repeated opens of a file are recorded once, as long as the record stays the same. Nothing here is ever destroyed: files
// may be opened at exit.
void NoteOpened(const std::string& path, const std::string& why_not, bool plain) noexcept {
  // Without a record, lzy-run only reports less.
  (void)NoThrow([&]() -> Status {
    static const char* const given = std::getenv(kOpenedVariable);
    if (given == nullptr || path.empty()) return Status::Ok();
    static const auto& file = *new std::string(given);
    static auto& mutex = *new std::mutex;
    static auto& noted = *new std::map<std::string, std::string>;
    {
      const std::lock_guard lock(mutex);
      const auto [at, is_new] = noted.try_emplace(path, why_not);
      if (!is_new && at->second == why_not) return Status::Ok();
      at->second = why_not;
    }
    return AppendOpened(file, {path, why_not, plain});
  });
}

}  // namespace lzy::hooks
