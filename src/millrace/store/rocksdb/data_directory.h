#pragma once

#include <memory>
#include <string>

#include "millrace/base/status.h"

namespace rocksdb {
class Env;
class FileLock;
}  // namespace rocksdb

namespace millrace::store {

// The data directory of an embedded store, held by this process.
//
//   LOCK        locked while a process has the directory open
//   FORMAT      one line, "millrace-format 1"; written last when a directory is made
//   FORMAT.new  a directory in the making; nothing in it was ever acknowledged
//   db/         RocksDB's files
//
// Fails: kFailedPrecondition, with what to do: in use, another format version, not a Millrace
// directory.
//   kCorruption: FORMAT is damaged. kUnavailable: the file system says no.
class DataDirectory {
 public:
  // Locks `path`, making it if it is not there.
  static Result<std::unique_ptr<DataDirectory>> Open(rocksdb::Env& env, const std::string& path);
  ~DataDirectory();
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;

  // The database has never been used: it may be created.
  [[nodiscard]] bool is_new() const { return is_new_; }
  // The database exists from now on; one that is missing later is damage.
  Status MarkCreated();

  // Writes, syncs and removes a file, to find out whether the file system takes writes.
  Status Probe();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string db_path() const { return path_ + "/db"; }

 private:
  DataDirectory(rocksdb::Env& env, std::string path) : env_(env), path_(std::move(path)) {}

  Status Lock();
  Status ReadFormat();

  rocksdb::Env& env_;
  const std::string path_;
  rocksdb::FileLock* lock_ = nullptr;
  bool is_new_ = false;
};

}  // namespace millrace::store
