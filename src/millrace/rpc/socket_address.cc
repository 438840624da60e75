#include "millrace/rpc/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

namespace millrace::rpc {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

struct HostPort {
  std::string host;
  std::string port;
};

std::optional<HostPort> SplitHostPort(std::string_view target) {
  const std::size_t colon = target.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = target.substr(0, colon);
  const std::string_view port = target.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;  // An IPv6 address needs its brackets.
  }
  if (host.empty() || port.empty() || port.size() > 5) return std::nullopt;
  if (!std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  if (std::stoi(std::string(port)) > 65535) return std::nullopt;
  return HostPort{std::string(host), std::string(port)};
}

Result<std::vector<SocketAddress>> UnixAddress(std::string_view path) {
  SocketAddress address;
  auto* raw = reinterpret_cast<sockaddr_un*>(&address.storage);
  raw->sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(raw->sun_path)) {
    return Status(
        StatusCode::kInvalidArgument,
        "socket path must have 1 to " + std::to_string(sizeof(raw->sun_path) - 1) + " bytes");
  }
  std::memcpy(raw->sun_path, path.data(), path.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return std::vector<SocketAddress>{address};
}

}  // namespace

std::string SocketAddress::ToString() const {
  if (is_unix()) {
    const auto* raw_unix = reinterpret_cast<const sockaddr_un*>(&storage);
    // A client's end of a Unix socket usually has no name.
    const std::size_t header = offsetof(sockaddr_un, sun_path);
    const std::size_t room = length > header ? length - header : 0;
    return std::string(kUnixPrefix) +
           std::string(raw_unix->sun_path, strnlen(raw_unix->sun_path, room));
  }
  char text[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(in6->sin6_port));
  }
  const auto* in4 = reinterpret_cast<const sockaddr_in*>(&storage);
  inet_ntop(AF_INET, &in4->sin_addr, text, sizeof(text));
  return std::string(text) + ":" + std::to_string(ntohs(in4->sin_port));
}

std::string SocketAddress::ToPeerName() const {
  if (is_unix()) return ToString();
  return (family() == AF_INET6 ? "ipv6:" : "ipv4:") + ToString();
}

Result<std::vector<SocketAddress>> Resolve(const std::string& target) {
  if (target.starts_with(kUnixPrefix)) {
    return UnixAddress(std::string_view(target).substr(kUnixPrefix.size()));
  }
  const std::optional<HostPort> parts = SplitHostPort(target);
  if (!parts) {
    return Status(
        StatusCode::kInvalidArgument,
        "\"" + target + "\" is no address; expected host:port, [ipv6]:port or unix:/path");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(parts->host.c_str(), parts->port.c_str(), &hints, &list);
  if (error != 0) {
    return Status(StatusCode::kUnavailable,
                  "cannot resolve \"" + parts->host + "\": " + gai_strerror(error));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(list);
  return addresses;
}

bool IsLiteralAddress(const std::string& target) {
  if (target.starts_with(kUnixPrefix)) return true;
  const std::optional<HostPort> parts = SplitHostPort(target);
  if (!parts) return true;
  in6_addr unused;
  return inet_pton(AF_INET, parts->host.c_str(), &unused) == 1 ||
         inet_pton(AF_INET6, parts->host.c_str(), &unused) == 1;
}

SocketAddress LocalAddress(int fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    address.length = 0;
  }
  return address;
}

}  // namespace millrace::rpc
