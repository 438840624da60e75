#include "millrace/store/postgres/test_proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::store {
namespace {

using namespace std::string_view_literals;

// The server's last word of each answer: ready for the next one, no transaction open.
constexpr std::string_view kReady = "Z\0\0\0\5I"sv;

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  MR_CHECK(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// False: the other side has gone.
bool SendAll(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// Empty: the other side has gone.
std::string Receive(int from) {
  char buffer[65'536];
  const ssize_t got = recv(from, buffer, sizeof buffer, 0);
  return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : std::string();
}

void Close(int& socket) {
  if (socket >= 0) close(socket);
  socket = -1;
}

}  // namespace

PgTestProxy::PgTestProxy(std::string server_socket) : server_socket_(std::move(server_socket)) {
  char path[] = "/tmp/millrace_proxy_XXXXXX";
  MR_CHECK(mkdtemp(path) != nullptr);
  folder_ = path;
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Address(folder_ + "/.s.PGSQL.5432");
  MR_CHECK(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  MR_CHECK(listen(listener_, 16) == 0);
  MR_CHECK(pipe(wake_) == 0);
  thread_ = std::thread([this] { Loop(); });
}

PgTestProxy::~PgTestProxy() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  Close(listener_);
  Close(wake_[0]);
  Close(wake_[1]);
  std::filesystem::remove_all(folder_);
}

void PgTestProxy::Wake() { MR_CHECK(write(wake_[1], "x", 1) == 1); }

void PgTestProxy::Arm(Harm harm) {
  MutexLock lock(mutex_);
  armed_ = harm;
  tripped_ = false;
}

void PgTestProxy::AwaitTripped() {
  MutexLock lock(mutex_);
  while (!tripped_) changed_.Wait(mutex_);
}

void PgTestProxy::Release() {
  MutexLock lock(mutex_);
  release_ = true;
  Wake();
  while (release_) changed_.Wait(mutex_);
}

void PgTestProxy::Loop() {
  for (;;) {
    std::vector<pollfd> polled = {{wake_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& pair : pairs_) {
      polled.push_back({pair->client, POLLIN, 0});  // Negative ones are ignored.
      polled.push_back({pair->server, POLLIN, 0});
    }
    MR_CHECK(poll(polled.data(), polled.size(), -1) > 0);
    if (polled[0].revents != 0) {
      char ignored;
      MR_CHECK(read(wake_[0], &ignored, 1) == 1);
      MutexLock lock(mutex_);
      if (stopping_) break;
      if (release_) {
        for (const auto& pair : pairs_) SendAll(pair->server, std::exchange(pair->held, {}));
      }
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      Pair& pair = *pairs_[i];
      bool open = true;
      if (polled[2 + 2 * i].revents != 0) open = FromClient(pair);
      if (open && polled[3 + 2 * i].revents != 0) open = FromServer(pair);
      if (open) continue;
      Close(pair.client);
      Close(pair.server);
    }
    std::erase_if(pairs_, [](const auto& pair) { return pair->client < 0 && pair->server < 0; });
    if (polled[1].revents != 0) Accept();
  }
  for (const auto& pair : pairs_) {
    Close(pair->client);
    Close(pair->server);
  }
}

void PgTestProxy::Accept() {
  auto pair = std::make_unique<Pair>();
  pair->client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  pair->server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Address(server_socket_);
  if (connect(pair->server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    Close(pair->client);
    Close(pair->server);
    return;
  }
  pairs_.push_back(std::move(pair));
}

bool PgTestProxy::FromClient(Pair& pair) {
  const std::string bytes = Receive(pair.client);
  if (bytes.empty()) {
    // What is held, or being answered out of sight, goes on without its client.
    Close(pair.client);
    return pair.harm != Harm::kNone;
  }
  // The pool's own watch opens and closes sessions at any time: that is no message of a test's.
  const bool opens_or_closes = bytes[0] == '\0' || bytes[0] == 'X';
  if (pair.harm == Harm::kNone && !opens_or_closes) {
    MutexLock lock(mutex_);
    if (armed_ != Harm::kNone) {
      pair.harm = std::exchange(armed_, Harm::kNone);
      tripped_ = true;
      changed_.NotifyAll();
    }
  }
  if (pair.harm == Harm::kCutBefore) return false;
  if (pair.harm == Harm::kHold) {
    pair.held += bytes;
    return true;
  }
  return SendAll(pair.server, bytes);
}

bool PgTestProxy::FromServer(Pair& pair) {
  const std::string bytes = Receive(pair.server);
  if (bytes.empty()) {
    if (pair.harm != Harm::kHold) return false;
    MutexLock lock(mutex_);
    release_ = false;
    changed_.NotifyAll();
    return false;
  }
  if (pair.harm == Harm::kNone) return SendAll(pair.client, bytes);
  pair.answer += bytes;
  if (!pair.answer.ends_with(kReady)) return true;
  switch (pair.harm) {
    case Harm::kHalfAnswer:
      SendAll(pair.client, pair.answer.substr(0, pair.answer.size() - kReady.size()));
      return false;
    case Harm::kHold: {
      MutexLock lock(mutex_);
      release_ = false;
      changed_.NotifyAll();
      return false;
    }
    case Harm::kSilence:
      return true;
    default:
      return false;
  }
}

}  // namespace millrace::store
