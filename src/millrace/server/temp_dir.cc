#include "millrace/server/temp_dir.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "millrace/base/check.h"

namespace millrace::server {

Status TempDir::Create() {
  MR_CHECK(path_.empty());
  const char* base = std::getenv("TMPDIR");
  std::string pattern =
      std::string(base == nullptr || *base == '\0' ? "/tmp" : base) + "/millrace-dev-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return Status(StatusCode::kUnavailable,
                  "cannot make a temporary folder " + pattern + ": " + std::strerror(errno));
  }
  path_ = pattern;
  return OkStatus();
}

TempDir::~TempDir() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace millrace::server
