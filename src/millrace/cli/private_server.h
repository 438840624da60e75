#pragma once

#include <string>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/server/temp_dir.h"

namespace millrace::cli {

// A server process of this same program, on free ports and a temporary data folder, gone with this
// object.
//
// Thread: one at a time. Blocks.
class PrivateServer {
 public:
  PrivateServer() = default;
  ~PrivateServer();
  PrivateServer(const PrivateServer&) = delete;
  PrivateServer& operator=(const PrivateServer&) = delete;

  // `flags`: further arguments of `millrace server`. Fails: kUnavailable when it cannot be started
  // or ends before it serves; what it said went to standard error.
  Status Start(const std::vector<std::string>& flags);

  [[nodiscard]] const std::string& address() const { return address_; }
  // Of its admin service.
  [[nodiscard]] const std::string& admin_address() const { return admin_address_; }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  Status WaitUntilReady(const std::string& ready_file);

  server::TempDir folder_;
  std::string address_;
  std::string admin_address_;
  int pid_ = -1;
};

}  // namespace millrace::cli
