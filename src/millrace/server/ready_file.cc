#include "millrace/server/ready_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "millrace/server/json_text.h"

namespace millrace::server {

ReadyFile::ReadyFile(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) unlink(path_.c_str());
}

ReadyFile::~ReadyFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

Status ReadyFile::Write(const std::string& grpc, const std::string& admin) {
  if (path_.empty()) return OkStatus();
  const std::string temporary = path_ + ".tmp." + std::to_string(getpid());
  errno = 0;
  std::ofstream file(temporary, std::ios::trunc);
  file << "{\"grpc\":" << JsonString(grpc) << ",\"admin\":" << JsonString(admin)
       << ",\"pid\":" << getpid() << "}\n";
  file.close();
  if (file.fail() || std::rename(temporary.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return Status(StatusCode::kUnavailable,
                  "ready_file: cannot write " + path_ + ": " + std::strerror(error));
  }
  return OkStatus();
}

}  // namespace millrace::server
