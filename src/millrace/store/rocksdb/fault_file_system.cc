#include "millrace/store/rocksdb/fault_file_system.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace millrace::store {
namespace {

constexpr std::uint64_t kPageBytes = 512;

std::string DirectoryOf(const std::string& name) {
  return std::filesystem::path(name).parent_path().lexically_normal().string();
}

}  // namespace

class FaultFileSystem::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(FaultFileSystem& owner, std::string name, std::unique_ptr<rocksdb::FSWritableFile>&& target)
      : rocksdb::FSWritableFileOwnerWrapper(std::move(target)),
        owner_(owner),
        name_(std::move(name)) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    MutexLock lock(owner_.mutex_);
    if (owner_.frozen_) return Frozen();
    const rocksdb::IOStatus fault = owner_.Check(owner_.append_fault_, name_);
    const rocksdb::Slice part(data.data(), fault.ok() ? data.size() : data.size() / 2);
    const rocksdb::IOStatus appended = target()->Append(part, options, debug);
    if (appended.ok()) owner_.files_[name_].written += part.size();
    return fault.ok() ? appended : fault;
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&,
                           rocksdb::IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  rocksdb::IOStatus Truncate(std::uint64_t size, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
    MutexLock lock(owner_.mutex_);
    if (owner_.frozen_) return Frozen();
    State& state = owner_.files_[name_];
    state.written = size;
    state.synced = std::min(state.synced, size);
    return target()->Truncate(size, options, debug);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override {
    return MarkSynced(target()->Flush(options, debug));
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    return MarkSynced(target()->Flush(options, debug));
  }
  // Promises nothing on a real file system either.
  rocksdb::IOStatus RangeSync(std::uint64_t, std::uint64_t, const rocksdb::IOOptions&,
                              rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }

 private:
  rocksdb::IOStatus MarkSynced(const rocksdb::IOStatus& flushed) {
    MutexLock lock(owner_.mutex_);
    if (owner_.frozen_) return Frozen();
    rocksdb::IOStatus fault = owner_.Check(owner_.sync_fault_, name_);
    if (!fault.ok()) return fault;
    if (!flushed.ok()) return flushed;
    State& state = owner_.files_[name_];
    state.synced = state.written;
    ++owner_.syncs_;
    return rocksdb::IOStatus::OK();
  }

  FaultFileSystem& owner_;
  const std::string name_;
};

class FaultFileSystem::Directory final : public rocksdb::FSDirectory {
 public:
  Directory(FaultFileSystem& owner, const std::string& name)
      : owner_(owner), name_(std::filesystem::path(name).lexically_normal().string()) {}

  rocksdb::IOStatus Fsync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    MutexLock lock(owner_.mutex_);
    if (owner_.frozen_) return Frozen();
    rocksdb::IOStatus fault = owner_.Check(owner_.sync_fault_, name_);
    if (!fault.ok()) return fault;
    std::erase_if(owner_.unlisted_,
                  [this](const std::string& file) { return DirectoryOf(file) == name_; });
    return rocksdb::IOStatus::OK();
  }

 private:
  FaultFileSystem& owner_;
  const std::string name_;
};

FaultFileSystem::FaultFileSystem()
    : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()),
      // The Env shares the object without owning it.
      env_(rocksdb::NewCompositeEnv(
          std::shared_ptr<rocksdb::FileSystem>(this, [](rocksdb::FileSystem*) {}))) {}

void FaultFileSystem::FailAppends(rocksdb::IOStatus error, std::string suffix) {
  MutexLock lock(mutex_);
  append_fault_ = Fault{std::move(error), std::move(suffix)};
}

void FaultFileSystem::FailSyncs(rocksdb::IOStatus error, std::string suffix) {
  MutexLock lock(mutex_);
  sync_fault_ = Fault{std::move(error), std::move(suffix)};
}

void FaultFileSystem::Heal() {
  MutexLock lock(mutex_);
  append_fault_ = {};
  sync_fault_ = {};
}

void FaultFileSystem::Freeze() {
  MutexLock lock(mutex_);
  frozen_ = true;
}

std::uint64_t FaultFileSystem::syncs() {
  MutexLock lock(mutex_);
  return syncs_;
}

rocksdb::IOStatus FaultFileSystem::Check(const Fault& fault, const std::string& name) {
  return name.ends_with(fault.suffix) ? fault.error : rocksdb::IOStatus::OK();
}

void FaultFileSystem::PowerLoss(Random& random) {
  MutexLock lock(mutex_);
  for (const std::string& name : unlisted_) {
    std::error_code ignored;
    std::filesystem::remove(name, ignored);
    files_.erase(name);
  }
  unlisted_.clear();
  for (auto& [name, state] : files_) {
    if (state.synced < state.written) Damage(name, state, random);
    state.written = std::filesystem::exists(name) ? std::filesystem::file_size(name) : 0;
    state.synced = state.written;
  }
  frozen_ = false;
}

void FaultFileSystem::Damage(const std::string& name, const State& state, Random& random) {
  const std::uint64_t lost = state.written - state.synced;
  const std::uint64_t kind = random.Below(4);
  if (kind == 0) {
    std::filesystem::resize_file(name, state.synced);
  } else if (kind == 1) {
    std::filesystem::resize_file(name, state.synced + random.Below(lost + 1));
  } else if (kind == 2) {
    std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t at = state.synced; at < state.written;) {
      const std::uint64_t end = std::min(state.written, (at / kPageBytes + 1) * kPageBytes);
      const std::uint64_t fate = random.Below(3);
      if (fate != 0) {
        file.seekp(static_cast<std::streamoff>(at));
        for (std::uint64_t i = at; i < end; ++i) {
          file.put(fate == 1 ? '\0' : static_cast<char>(random.Next()));
        }
      }
      at = end;
    }
  }
}

rocksdb::IOStatus FaultFileSystem::NewWritableFile(const std::string& name,
                                                   const rocksdb::FileOptions& options,
                                                   std::unique_ptr<rocksdb::FSWritableFile>* file,
                                                   rocksdb::IODebugContext* debug) {
  MutexLock lock(mutex_);
  if (frozen_) return Frozen();
  std::unique_ptr<rocksdb::FSWritableFile> inner;
  rocksdb::IOStatus made = target()->NewWritableFile(name, options, &inner, debug);
  if (!made.ok()) return made;
  files_[name] = {};
  unlisted_.insert(name);
  *file = std::make_unique<File>(*this, name, std::move(inner));
  return made;
}

rocksdb::IOStatus FaultFileSystem::ReopenWritableFile(
    const std::string& name, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* file, rocksdb::IODebugContext* debug) {
  MutexLock lock(mutex_);
  if (frozen_) return Frozen();
  std::unique_ptr<rocksdb::FSWritableFile> inner;
  rocksdb::IOStatus opened = target()->ReopenWritableFile(name, options, &inner, debug);
  if (!opened.ok()) return opened;
  *file = std::make_unique<File>(*this, name, std::move(inner));
  return opened;
}

rocksdb::IOStatus FaultFileSystem::NewDirectory(const std::string& name,
                                                const rocksdb::IOOptions& options,
                                                std::unique_ptr<rocksdb::FSDirectory>* directory,
                                                rocksdb::IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> inner;
  rocksdb::IOStatus opened = target()->NewDirectory(name, options, &inner, debug);
  if (opened.ok()) *directory = std::make_unique<Directory>(*this, name);
  return opened;
}

rocksdb::IOStatus FaultFileSystem::RenameFile(const std::string& from, const std::string& to,
                                              const rocksdb::IOOptions& options,
                                              rocksdb::IODebugContext* debug) {
  MutexLock lock(mutex_);
  if (frozen_) return Frozen();
  rocksdb::IOStatus renamed = target()->RenameFile(from, to, options, debug);
  if (!renamed.ok()) return renamed;
  // A rename counts as durable at once, as it does on the file systems people use once the file is
  // synced.
  files_[to] = files_[from];
  files_.erase(from);
  unlisted_.erase(from);
  return renamed;
}

rocksdb::IOStatus FaultFileSystem::DeleteFile(const std::string& name,
                                              const rocksdb::IOOptions& options,
                                              rocksdb::IODebugContext* debug) {
  MutexLock lock(mutex_);
  if (frozen_) return Frozen();
  files_.erase(name);
  unlisted_.erase(name);
  return target()->DeleteFile(name, options, debug);
}

}  // namespace millrace::store
