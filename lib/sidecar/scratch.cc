#include "sidecar/scratch.h"

#include "sidecar/names.h"

namespace lzy {

// A directory in which nothing can be made is no failure: then the hashes stay in memory.
ScratchMaker ScratchBeside(FileSystem& fs, const std::string& data_path) {
  return [&fs, data_path]() -> std::unique_ptr<File> {
    const auto real = fs.RealPath(data_path);
    const auto sidecar = real.ok() ? SidecarPath(*real) : real;
    if (!sidecar.ok()) return nullptr;
    const std::string path = TemporarySidecarPath(*sidecar);
    auto file = fs.Open(path, OpenMode::kCreateNew, /*follow=*/false);
    if (!file.ok() || !fs.Remove(path).ok()) return nullptr;
    return std::move(file).value();
  };
}

}  // namespace lzy
