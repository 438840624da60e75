#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/status.h"

namespace millrace::rpc {

// One address of a socket, ready for bind or connect.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
  [[nodiscard]] bool is_unix() const { return family() == AF_UNIX; }
  // "127.0.0.1:80", "[::1]:80", "unix:/path": the form that Resolve reads.
  [[nodiscard]] std::string ToString() const;
  // gRPC's name of a peer: "ipv4:127.0.0.1:80", "ipv6:[::1]:80", "unix:/path".
  [[nodiscard]] std::string ToPeerName() const;
};

// All addresses that `target` ("host:port", "[::1]:port", "unix:/path") stands for. May block on a
// name server. Fails: kInvalidArgument malformed; kUnavailable the name does not resolve now.
Result<std::vector<SocketAddress>> Resolve(const std::string& target);

// True when Resolve(target) would answer without asking a name server.
[[nodiscard]] bool IsLiteralAddress(const std::string& target);

// The address that `fd` is bound to.
SocketAddress LocalAddress(int fd);

}  // namespace millrace::rpc
