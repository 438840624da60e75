#include "millrace/store/rocksdb/rocks_status.h"

namespace millrace::store {

Status FromRocks(const rocksdb::Status& status, const std::string& doing) {
  if (status.ok()) return {};
  const std::string message = doing + ": " + status.ToString();
  switch (status.code()) {
    case rocksdb::Status::kNotFound:
      return {StatusCode::kNotFound, message};
    case rocksdb::Status::kCorruption:
      return {StatusCode::kCorruption, message};
    case rocksdb::Status::kIOError:
      // A file of ours that is not there any more is damage: it will not come back by itself.
      if (status.subcode() == rocksdb::Status::kPathNotFound) {
        return {StatusCode::kCorruption, message};
      }
      return {StatusCode::kUnavailable, message};
    case rocksdb::Status::kInvalidArgument:
    case rocksdb::Status::kNotSupported:
      return {StatusCode::kInternal, message};
    default:
      return {StatusCode::kUnavailable, message};
  }
}

}  // namespace millrace::store
