#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include "millrace/base/mutex.h"
#include "millrace/base/random.h"

namespace millrace::store {

// The machine's file system with a switch for what goes wrong: for tests of the embedded store.
//
// It knows which bytes of every file written through it were synced, and which files were made in a
// directory that was not synced since; a power loss takes the others away.
//
// Thread: any, but PowerLoss only while no file is open.
class FaultFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FaultFileSystem();

  // From now on every append (or every sync) fails like this, until told otherwise; ok = works. A
  // failing append still writes the first half of its bytes, as a full disk does. `suffix` limits
  // it to files whose names end so.
  void FailAppends(rocksdb::IOStatus error, std::string suffix = "");
  void FailSyncs(rocksdb::IOStatus error, std::string suffix = "");
  void Heal();

  // The machine has stopped: nothing changes any file. Close everything, then call PowerLoss.
  void Freeze();
  // What the disk holds when the machine starts again: synced bytes, and of the others what
  // `random` leaves: none, some, all, or pages of zeros or noise among them.
  void PowerLoss(Random& random);

  [[nodiscard]] rocksdb::Env* env() { return env_.get(); }
  std::uint64_t syncs();

  [[nodiscard]] const char* Name() const override { return "FaultFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& name, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

 private:
  class File;
  class Directory;
  struct State {
    std::uint64_t written = 0;
    std::uint64_t synced = 0;
  };
  struct Fault {
    rocksdb::IOStatus error;
    std::string suffix;
  };

  static rocksdb::IOStatus Frozen() { return rocksdb::IOStatus::IOError("the machine stopped"); }
  rocksdb::IOStatus Check(const Fault& fault, const std::string& name) MR_REQUIRES(mutex_);
  void Damage(const std::string& name, const State& state, Random& random) MR_REQUIRES(mutex_);

  Mutex mutex_;
  bool frozen_ MR_GUARDED_BY(mutex_) = false;
  Fault append_fault_ MR_GUARDED_BY(mutex_);
  Fault sync_fault_ MR_GUARDED_BY(mutex_);
  std::map<std::string, State> files_ MR_GUARDED_BY(mutex_);
  std::set<std::string> unlisted_ MR_GUARDED_BY(mutex_);  // Made since their directory was synced.
  std::uint64_t syncs_ MR_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace millrace::store
