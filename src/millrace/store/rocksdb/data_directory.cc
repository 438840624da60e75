#include "millrace/store/rocksdb/data_directory.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <rocksdb/env.h>

#include "millrace/store/rocksdb/rocks_status.h"

namespace millrace::store {
namespace {

constexpr std::string_view kFormatWord = "millrace-format ";
constexpr int kFormatVersion = 1;

std::string FormatLine() {
  return std::string(kFormatWord) + std::to_string(kFormatVersion) + "\n";
}

Status Refuse(std::string message) { return {StatusCode::kFailedPrecondition, std::move(message)}; }

// Makes what was created, renamed or removed in `path` durable.
Status SyncDirectory(rocksdb::Env& env, const std::string& path) {
  std::unique_ptr<rocksdb::Directory> directory;
  MR_RETURN_IF_ERROR(FromRocks(env.NewDirectory(path, &directory), "cannot open " + path));
  return FromRocks(directory->Fsync(), "cannot sync " + path);
}

std::string ParentOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Result<std::unique_ptr<DataDirectory>> DataDirectory::Open(rocksdb::Env& env,
                                                           const std::string& given_path) {
  std::string path = given_path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.empty()) return Status(StatusCode::kInvalidArgument, "data directory is not set");
  std::unique_ptr<DataDirectory> directory(new DataDirectory(env, path));
  MR_RETURN_IF_ERROR(FromRocks(env.CreateDirIfMissing(path), "cannot make data directory " + path));
  MR_RETURN_IF_ERROR(directory->ReadFormat());
  MR_RETURN_IF_ERROR(directory->Lock());
  // Another process may have made or changed it while we did not hold the lock.
  MR_RETURN_IF_ERROR(directory->ReadFormat());
  return directory;
}

DataDirectory::~DataDirectory() {
  if (lock_ != nullptr) (void)env_.UnlockFile(lock_);
}

Status DataDirectory::Lock() {
  const rocksdb::Status locked = env_.LockFile(path_ + "/LOCK", &lock_);
  if (locked.ok()) return {};
  lock_ = nullptr;
  const std::string reason = locked.ToString();
  if (reason.find("lock hold by current process") != std::string::npos ||
      reason.find("While lock file") != std::string::npos) {
    return Refuse("data directory " + path_ +
                  " is in use by another Millrace process: stop that one, or choose another "
                  "directory (" +
                  reason + ")");
  }
  return FromRocks(locked, "cannot lock data directory " + path_);
}

Status DataDirectory::ReadFormat() {
  std::string format;
  const rocksdb::Status read = rocksdb::ReadFileToString(&env_, path_ + "/FORMAT", &format);
  if (read.ok()) {
    std::string_view text = format;
    if (!text.starts_with(kFormatWord) || !text.ends_with('\n')) {
      return {StatusCode::kCorruption, path_ + "/FORMAT is damaged: its first line should be \"" +
                                           std::string(kFormatWord) + "<number>\""};
    }
    text.remove_prefix(kFormatWord.size());
    text.remove_suffix(1);
    int version = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (error != std::errc() || end != text.data() + text.size()) {
      return {StatusCode::kCorruption, path_ + "/FORMAT is damaged: its version is not a number"};
    }
    if (version != kFormatVersion) {
      return Refuse("data directory " + path_ + " has format " + std::to_string(version) +
                    ", and this build reads and writes format " + std::to_string(kFormatVersion) +
                    ": use a build made for it, or another directory");
    }
    is_new_ = false;
    return {};
  }
  if (!read.IsNotFound() && read.subcode() != rocksdb::Status::kPathNotFound) {
    return FromRocks(read, "cannot read " + path_ + "/FORMAT");
  }
  std::vector<std::string> children;
  MR_RETURN_IF_ERROR(
      FromRocks(env_.GetChildren(path_, &children), "cannot list data directory " + path_));
  const bool in_the_making =
      std::find(children.begin(), children.end(), "FORMAT.new") != children.end();
  for (const std::string& child : children) {
    if (child == "." || child == ".." || child == "LOCK" || child == "lost+found") continue;
    if (in_the_making && (child == "FORMAT.new" || child == "db")) continue;
    return Refuse("directory " + path_ +
                  " is not empty and not a Millrace data directory (it holds \"" + child +
                  "\" but no FORMAT): choose an empty or a new one");
  }
  if (lock_ != nullptr) {
    MR_RETURN_IF_ERROR(FromRocks(
        rocksdb::WriteStringToFile(&env_, FormatLine(), path_ + "/FORMAT.new", /*sync=*/true),
        "cannot write " + path_ + "/FORMAT.new"));
    MR_RETURN_IF_ERROR(SyncDirectory(env_, path_));
    MR_RETURN_IF_ERROR(SyncDirectory(env_, ParentOf(path_)));
    // RocksDB would make it too, but not without an error in the log that it is not there.
    MR_RETURN_IF_ERROR(FromRocks(env_.CreateDirIfMissing(db_path()), "cannot make " + db_path()));
  }
  is_new_ = true;
  return {};
}

Status DataDirectory::MarkCreated() {
  MR_RETURN_IF_ERROR(FromRocks(env_.RenameFile(path_ + "/FORMAT.new", path_ + "/FORMAT"),
                               "cannot write " + path_ + "/FORMAT"));
  MR_RETURN_IF_ERROR(SyncDirectory(env_, path_));
  is_new_ = false;
  return {};
}

Status DataDirectory::Probe() {
  const std::string file = path_ + "/PROBE";
  const std::string data(64u << 10, '\0');
  const rocksdb::Status written = rocksdb::WriteStringToFile(&env_, data, file, /*sync=*/true);
  const rocksdb::Status removed = env_.DeleteFile(file);
  if (!written.ok()) return FromRocks(written, "cannot write to " + path_);
  return FromRocks(removed, "cannot write to " + path_);
}

}  // namespace millrace::store
