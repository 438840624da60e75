#include "millrace/server/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace millrace::server {

ServiceManager::ServiceManager(std::string socket_path) : socket_path_(std::move(socket_path)) {}

ServiceManager ServiceManager::FromEnvironment() {
  const char* path = std::getenv("NOTIFY_SOCKET");
  return ServiceManager(path == nullptr ? "" : path);
}

void ServiceManager::Ready(std::string_view status) const {
  Send("READY=1\nSTATUS=" + std::string(status) + "\n");
}

void ServiceManager::Reloading(long long monotonic_us) const {
  Send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_us) + "\n");
}

void ServiceManager::Stopping() const { Send("STOPPING=1\nSTATUS=draining\n"); }

void ServiceManager::Send(const std::string& message) const {
  sockaddr_un address{};
  if (socket_path_.size() < 2 || socket_path_.size() >= sizeof(address.sun_path)) return;
  if (socket_path_[0] != '/' && socket_path_[0] != '@') return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path_.data(), socket_path_.size());
  // A leading NUL makes the name an abstract one.
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_path_.size());
  const ssize_t sent = sendto(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                              reinterpret_cast<const sockaddr*>(&address), length);
  static_cast<void>(sent);
  close(fd);
}

}  // namespace millrace::server
