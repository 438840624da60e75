#pragma once

#include <string>
#include <string_view>

namespace millrace::server {

// Tells a service manager (systemd, Type=notify) how the server is. Does nothing where none
// listens. Thread: any. Fails: never; a message that cannot be sent is lost.
class ServiceManager {
 public:
  // `socket_path`: what NOTIFY_SOCKET holds: a path, or a name after '@'; empty = no manager.
  explicit ServiceManager(std::string socket_path);
  static ServiceManager FromEnvironment();

  void Ready(std::string_view status) const;
  void Reloading(long long monotonic_us) const;
  void Stopping() const;

 private:
  void Send(const std::string& message) const;

  std::string socket_path_;
};

}  // namespace millrace::server
