#include "encode/node_files.h"

#include <utility>

#include "storage/past_cache.h"

namespace lzy {

Result<OpenedFile> DescribeFile(File& file) {
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  return OpenedFile{file.path(), stat.file_system, stat.inode, IsReadPastCache(file)};
}

// Compares the open file, not the name, so nothing can be put in its place between the two calls.
Result<std::unique_ptr<File>> OpenTheSame(const OpenedFile& told, FileSystem& fs, OpenMode mode) {
  LZY_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs.Open(told.path, mode));
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
  if (stat.file_system != told.file_system || stat.inode != told.inode) return Status(Code::kInternal, "another file here");
  return told.past_cache ? ReadPastCache(std::move(file)) : std::move(file);
}

}  // namespace lzy
