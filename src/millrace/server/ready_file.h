#pragma once

#include <string>

#include "millrace/base/status.h"

namespace millrace::server {

// A file that tells scripts where a server answers: {"grpc": …, "admin": …, "pid": …}. It appears
// whole or not at all, and goes when this object goes; one left by a killed server is removed at
// construction. Thread: one at a time.
class ReadyFile {
 public:
  // Empty path: does nothing.
  explicit ReadyFile(std::string path);
  ~ReadyFile();
  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;

  // Fails: kUnavailable with the system's words.
  Status Write(const std::string& grpc, const std::string& admin);

 private:
  const std::string path_;
};

}  // namespace millrace::server
