#include "link/host_files.h"

#include <fmt/format.h>

#include "base/forwarding_file.h"
#include "base/partial_view.h"

namespace lzy {
namespace {

/// A file under its name.
class NamedFile final : public ForwardingFile {
 public:
  NamedFile(std::unique_ptr<File> file, const HostNames& names, std::string name)
      : ForwardingFile(std::move(file)), names_(names), name_(std::move(name)) {}
  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override { return Named(file_->ReadAt(offset, to)); }
  Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) override { return Named(file_->ReadAtUncached(offset, to)); }
  Status WriteAt(std::uint64_t offset, ByteSpan from) override { return names_.Named(file_->WriteAt(offset, from), name_); }
  Status Truncate(std::uint64_t size) override { return names_.Named(file_->Truncate(size), name_); }
  Status Sync() override { return names_.Named(file_->Sync(), name_); }
  Result<FileStat> Stat() override { return Named(file_->Stat()); }
  Status CopyAccess(File& like) override { return names_.Named(file_->CopyAccess(like), name_); }
  Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) override {
    return names_.Named(file_->SetAccess(mode, uid, gid), name_);
  }
  Status Lock() override { return names_.Named(file_->Lock(), name_); }
  const std::string& path() const override { return name_; }

 private:
  template <class T>
  Result<T> Named(Result<T> result) const {
    if (result.ok()) return result;
    return names_.Named(result.status(), name_);
  }
  const HostNames& names_;
  const std::string name_;
};

class NamedFiles final : public FileSystem, public PartialView {
 public:
  NamedFiles(FileSystem& fs, const HostNames& names) : fs_(fs), names_(names) {}

  Result<std::unique_ptr<File>> Open(const std::string& name, OpenMode mode, bool follow, std::uint32_t create_mode) override {
    return OpenAs(name, [&](const std::string& path) { return fs_.Open(path, mode, follow, create_mode); });
  }
  Result<std::unique_ptr<File>> OpenListed(const std::string& name) override {
    return OpenAs(name, [&](const std::string& path) { return fs_.OpenListed(path); });
  }
  Result<FileStat> Stat(const std::string& name, bool follow) override {
    return At<FileStat>(name, [&](const std::string& path) { return fs_.Stat(path, follow); });
  }
  Status Rename(const std::string& from, const std::string& to) override {
    LZY_RETURN_IF_ERROR(Look(to));
    return Do(from, [&](const std::string& path) { return fs_.Rename(path, names_.PathOf(to)); });
  }
  Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) override {
    LZY_RETURN_IF_ERROR(Look(to));
    return At<bool>(from, [&](const std::string& path) { return fs_.RenameIfAbsent(path, names_.PathOf(to)); });
  }
  Status Remove(const std::string& name) override {
    return Do(name, [&](const std::string& path) { return fs_.Remove(path); });
  }
  Status SyncDirectory(const std::string& name) override {
    return Do(name, [&](const std::string& path) { return fs_.SyncDirectory(path); });
  }
  Result<std::vector<std::string>> List(const std::string& name) override {
    return At<std::vector<std::string>>(name, [&](const std::string& path) { return fs_.List(path); });
  }
  Result<std::vector<DirectoryEntry>> ListEntries(const std::string& name) override {
    return At<std::vector<DirectoryEntry>>(name, [&](const std::string& path) { return fs_.ListEntries(path); });
  }
  Status MakeDirectories(const std::string& name) override {
    return Do(name, [&](const std::string& path) { return fs_.MakeDirectories(path); });
  }
  Result<std::string> ReadLink(const std::string& name) override {
    return At<std::string>(name, [&](const std::string& path) { return fs_.ReadLink(path); });
  }
  Status MakeLink(const std::string& text, const std::string& name, const FileStat& like) override {
    return Do(name, [&](const std::string& path) { return fs_.MakeLink(text, path, like); });
  }
  Status MakeHardLink(const std::string& of, const std::string& name) override {
    LZY_RETURN_IF_ERROR(Look(of));
    return Do(name, [&](const std::string& path) { return fs_.MakeHardLink(names_.PathOf(of), path); });
  }
  Result<Attributes> DirectoryAttributes(const std::string& name) override {
    return At<Attributes>(name, [&](const std::string& path) { return fs_.DirectoryAttributes(path); });
  }
  Status SetDirectory(const std::string& name, const FileStat& like, const Attributes& attributes) override {
    return Do(name, [&](const std::string& path) { return fs_.SetDirectory(path, like, attributes); });
  }
  Result<std::uint64_t> FreeBytes(const std::string& name) override {
    return At<std::uint64_t>(name, [&](const std::string& path) { return fs_.FreeBytes(path); });
  }
  Result<std::string> RealPath(const std::string& name) override {
    LZY_ASSIGN_OR_RETURN(const std::string path, At<std::string>(name, [&](const std::string& at) { return fs_.RealPath(at); }));
    return names_.NameOf(path);
  }
  bool may_have(const std::string& name) override { return names_.IsHere(name); }
  // Another machine has the same paths.
  std::string View() override { return names_.NameOf("") + fs_.View(); }

 private:
  Status Look(const std::string& name) const {
    if (names_.IsHere(name)) return Status::Ok();
    return {Code::kNotFound, name + ": No such file or directory"};
  }
  template <class Work>
  Status Do(const std::string& name, const Work& work) const {
    LZY_RETURN_IF_ERROR(Look(name));
    return names_.Named(work(names_.PathOf(name)), name);
  }
  template <class T, class Work>
  Result<T> At(const std::string& name, const Work& work) const {
    LZY_RETURN_IF_ERROR(Look(name));
    Result<T> result = work(names_.PathOf(name));
    if (!result.ok()) return names_.Named(result.status(), name);
    return result;
  }
  template <class Work>
  Result<std::unique_ptr<File>> OpenAs(const std::string& name, const Work& work) const {
    LZY_ASSIGN_OR_RETURN(auto file, At<std::unique_ptr<File>>(name, work));
    return std::unique_ptr<File>(std::make_unique<NamedFile>(std::move(file), names_, name));
  }

  FileSystem& fs_;
  const HostNames& names_;
};

}  // namespace

// "HOST:" alone is the directory above "HOST:/name".
std::string HostNames::PathOf(const std::string& name) const {
  if (!name.starts_with(prefix_)) return name;
  const std::string path = name.substr(prefix_.size());
  return path.empty() ? "/" : path;
}

Status HostNames::Named(const Status& status, const std::string& name) const {
  if (status.ok() || !is_host_ || status.message().starts_with(name)) return status;
  const std::string path = PathOf(name);
  if (!status.message().starts_with(path)) return status.WithContext(name);
  return {status.code(), name + status.message().substr(path.size())};
}

std::unique_ptr<FileSystem> FilesByName(FileSystem& fs, const HostNames& names) { return std::make_unique<NamedFiles>(fs, names); }

}  // namespace lzy
