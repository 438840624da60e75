#include "millrace/rpc/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "millrace/rpc/socket_address.h"

namespace millrace::rpc {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptsPerWakeUp = 64;
constexpr Duration kPauseWithoutDescriptors = std::chrono::milliseconds(100);
// A peer that the network has lost is noticed by the kernel within about a minute.
constexpr int kKeepAliveIdleSeconds = 30;
constexpr int kKeepAliveIntervalSeconds = 10;
constexpr int kKeepAliveCount = 3;
// Bytes that it does not confirm for so long mean the same; probes are only sent without any.
constexpr int kUnacknowledgedMsMax = 60'000;

void SetOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

void SetTcpOptions(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveCount);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMsMax);
}

// True when nobody listens at a Unix socket that exists.
bool IsAbandoned(const SocketAddress& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool refused = connect(fd, address.raw(), address.length) != 0 && errno == ECONNREFUSED;
  close(fd);
  return refused;
}

}  // namespace

Listener::Listener(exec::EventLoop& loop, Log& log) : loop_(loop), log_(log) {}

Listener::~Listener() {
  if (watch_ != 0) loop_.Unwatch(watch_);
  if (resume_timer_ != 0) loop_.CancelTimer(resume_timer_);
  if (fd_ >= 0) close(fd_);
  if (!unix_path_.empty()) unlink(unix_path_.c_str());
}

Status Listener::Open(const std::string& address, Sharing sharing) {
  Result<std::vector<SocketAddress>> resolved = Resolve(address);
  if (!resolved.ok()) return resolved.status();
  const SocketAddress& first = resolved.value().front();
  const auto failed = [&address](const char* what, int error) {
    return Status(StatusCode::kUnavailable,
                  "cannot " + std::string(what) + " " + address + ": " + std::strerror(error));
  };
  fd_ = socket(first.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return failed("make a socket for", errno);
  if (!first.is_unix()) SetOption(fd_, SOL_SOCKET, SO_REUSEADDR, 1);
  if (sharing == Sharing::kSibling) SetOption(fd_, SOL_SOCKET, SO_REUSEPORT, 1);
  int bound = bind(fd_, first.raw(), first.length);
  if (bound != 0 && errno == EADDRINUSE && first.is_unix() && IsAbandoned(first)) {
    unlink(first.ToString().substr(std::strlen("unix:")).c_str());
    bound = bind(fd_, first.raw(), first.length);
  }
  if (bound != 0) return failed("bind", errno);
  if (first.is_unix()) unix_path_ = first.ToString().substr(std::strlen("unix:"));
  // Not before: two servers would share the port without a word, or be given the same free one.
  if (sharing == Sharing::kFirst && !first.is_unix()) SetOption(fd_, SOL_SOCKET, SO_REUSEPORT, 1);
  if (listen(fd_, kBacklog) != 0) return failed("listen at", errno);
  address_ = LocalAddress(fd_).ToString();
  return OkStatus();
}

void Listener::Start(OnAccept on_accept) {
  on_accept_ = std::move(on_accept);
  watch_ = loop_.Watch(fd_, EPOLLIN, [this](std::uint32_t) { Accept(); });
}

void Listener::Accept() {
  for (int i = 0; i < kAcceptsPerWakeUp; ++i) {
    SocketAddress peer;
    peer.length = sizeof(peer.storage);
    const int fd = accept4(fd_, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      if (!peer.is_unix()) SetTcpOptions(fd);
      on_accept_(fd, peer.ToPeerName());
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    log_.Write(LogLevel::kWarn, "rpc", "cannot accept connections for now",
               {{"address", address_}, {"error", std::strerror(errno)}});
    loop_.Change(watch_, 0);
    resume_timer_ = loop_.PostAt(loop_.clock().Now() + kPauseWithoutDescriptors, [this] {
      resume_timer_ = 0;
      loop_.Change(watch_, EPOLLIN);
    });
    return;
  }
}

}  // namespace millrace::rpc
