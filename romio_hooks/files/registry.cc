#include "hooks/files/registry.h"

namespace lzy::hooks {

Registry& Registry::Get() {
  static auto& registry = *new Registry;
  return registry;
}

void Registry::CountHandle(OpenFile& file, std::uint64_t file_system, std::uint64_t inode) {
  const bool known = file_system != 0 || inode != 0;
  if (known) file.disk = disk_files_[{file_system, inode}].lock();
  if (!file.disk) file.disk = std::make_shared<DiskFile>();
  if (known) disk_files_[{file_system, inode}] = file.disk;
  file.disk->file_system = file_system;
  file.disk->inode = inode;
  ++file.disk->handles;
}

void Registry::Join(OpenFile& file, std::uint64_t file_system, std::uint64_t inode) {
  const std::lock_guard lock(mutex_);
  CountHandle(file, file_system, inode);
}

void Registry::Insert(Word handle, std::shared_ptr<OpenFile> file, std::uint64_t file_system, std::uint64_t inode) {
  // An entry whose close was not seen. Declared before the lock, so that it is destroyed after the lock is released: its
  // destructor frees a communicator, which is an MPI call.
  std::shared_ptr<OpenFile> replaced;
  const std::lock_guard lock(mutex_);
  if (!file->reads_only) CountHandle(*file, file_system, inode);
  std::shared_ptr<OpenFile>& slot = files_[handle];
  if (!slot) tracked_files.fetch_add(1, std::memory_order_release);
  const int checks = (file->check ? 1 : 0) - (slot && slot->check ? 1 : 0);
  checked_files.fetch_add(checks, std::memory_order_release);
  replaced = std::exchange(slot, std::move(file));
}

std::shared_ptr<OpenFile> Registry::Find(Word handle) {
  const std::lock_guard lock(mutex_);
  const auto at = files_.find(handle);
  return at == files_.end() ? nullptr : at->second;
}

std::shared_ptr<OpenFile> Registry::Take(Word handle) {
  const std::lock_guard lock(mutex_);
  const auto at = files_.find(handle);
  if (at == files_.end()) return nullptr;
  std::shared_ptr<OpenFile> file = std::move(at->second);
  files_.erase(at);
  tracked_files.fetch_sub(1, std::memory_order_release);
  if (file->check) checked_files.fetch_sub(1, std::memory_order_release);
  return file;
}

std::vector<std::shared_ptr<OpenFile>> Registry::TakeAll() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<OpenFile>> all;
  for (auto& [handle, file] : files_) all.push_back(std::move(file));
  files_.clear();
  tracked_files.store(0, std::memory_order_release);
  checked_files.store(0, std::memory_order_release);
  return all;
}

void Registry::InsertDoomed(Word handle, std::string path) {
  const std::lock_guard lock(mutex_);
  doomed_[handle] = std::move(path);
}

std::string Registry::TakeDoomed(Word handle) {
  const std::lock_guard lock(mutex_);
  const auto node = doomed_.extract(handle);
  return node ? node.mapped() : std::string();
}

bool Registry::Leave(const OpenFile& file) {
  const std::lock_guard lock(mutex_);
  if (--file.disk->handles > 0) return true;
  disk_files_.erase({file.disk->file_system, file.disk->inode});
  return false;
}

bool Registry::IsOpenElsewhere(const OpenFile& file) {
  const std::lock_guard lock(mutex_);
  return file.disk->handles > 1;
}

void Registry::TouchWholeElsewhere(const OpenFile& file) {
  const std::lock_guard lock(mutex_);
  for (const auto& [handle, other] : files_) {
    if (other.get() == &file || other->reads_only || other->disk != file.disk) continue;
    // The registry's mutex comes before that of a file; no code takes them in the other order.
    const std::lock_guard other_lock(other->mutex);
    other->touched.AddWhole();
  }
}

}  // namespace lzy::hooks
