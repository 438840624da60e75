#pragma once

#include <string>

#include "millrace/base/status.h"

namespace millrace::server {

// A new folder below TMPDIR (or /tmp), readable by this user only, removed with all it holds at
// destruction. Thread: one at a time.
class TempDir {
 public:
  TempDir() = default;
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  // Fails: kUnavailable with the system's words. Once.
  Status Create();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace millrace::server
