#pragma once
// The files of two machines under names that differ: those of the host HOST begin with "HOST:".
//
// lzy-copy between machines gives this file system to the engine on both ends. So a path means the same on both, and each end
// sees its own files only.

#include <memory>
#include <string>

#include "base/file.h"

namespace lzy {

/// The names of the files of a host.
class HostNames {
 public:
  /// `prefix`: "HOST:". `is_host`: this process runs on the host.
  HostNames(std::string prefix, bool is_host) : prefix_(std::move(prefix)), is_host_(is_host) {}
  std::string host() const { return prefix_.substr(0, prefix_.size() - 1); }
  bool IsHere(const std::string& name) const { return name.starts_with(prefix_) == is_host_; }
  /// The path on the machine of the file.
  std::string PathOf(const std::string& name) const;
  /// The name of a path of this machine.
  std::string NameOf(const std::string& path) const { return is_host_ ? prefix_ + path : path; }
  /// `status` with the name instead of the path at the beginning of its message.
  Status Named(const Status& status, const std::string& name) const;

 private:
  const std::string prefix_;
  const bool is_host_;
};

/// The files of `fs` under the names of `names`. Names of files that are not here do not exist. Both must outlive the result and
/// its files. Thread-safe if `fs` is.
std::unique_ptr<FileSystem> FilesByName(FileSystem& fs, const HostNames& names);

}  // namespace lzy
