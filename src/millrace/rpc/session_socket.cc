#include "millrace/rpc/session_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::rpc {
namespace {

constexpr std::size_t kReadBytes = 64u << 10;
constexpr int kReadsPerWakeUp = 4;
// Each gives one record, of 16 KiB at most.
constexpr int kTlsReadsPerWakeUp = 32;
constexpr std::size_t kWriteBytes = 256u << 10;
constexpr Duration kLingerTimeout = std::chrono::seconds(1);

// No HTTP/2 connection begins like a TLS record: an alert (a server that takes us for a bad TLS
// client) or the hello of a client.
bool LooksLikeTls(std::uint8_t first_byte) { return first_byte == 0x15 || first_byte == 0x16; }

}  // namespace

SessionSocket::SessionSocket(exec::EventLoop& loop, int fd, std::unique_ptr<TlsStream> tls,
                             Duration stall_timeout, Owner& owner)
    : loop_(loop),
      owner_(owner),
      fd_(fd),
      tls_(std::move(tls)),
      stall_timeout_(stall_timeout),
      handshaking_(tls_ != nullptr) {
  watch_ =
      loop_.Watch(fd_, EPOLLIN | EPOLLRDHUP, [this](std::uint32_t events) { OnEvents(events); });
}

SessionSocket::~SessionSocket() {
  MR_CHECK(closed() || (!flush_scheduled_ && !read_scheduled_));
  Close();
}

void SessionSocket::Close() {
  if (closed()) return;
  loop_.Unwatch(watch_);
  close(std::exchange(fd_, -1));
  if (timer_ != 0) loop_.CancelTimer(std::exchange(timer_, 0));
}

void SessionSocket::Linger() {
  if (lingering_ || closed()) return;
  lingering_ = true;
  if (tls_ != nullptr) tls_->FinishSending();
  shutdown(fd_, SHUT_WR);
  if (timer_ != 0) loop_.CancelTimer(timer_);
  timer_ = loop_.PostAt(loop_.clock().Now() + kLingerTimeout, [this] {
    timer_ = 0;
    owner_.OnSocketLost("closed");
  });
}

void SessionSocket::OnEvents(std::uint32_t events) {
  if (lingering_) {
    DropInput();
    return;
  }
  if (handshaking_) {
    StepHandshake();
  } else if ((events & EPOLLIN) != 0 || (events & EPOLLRDHUP) != 0 ||
             (tls_ != nullptr && tls_->receive_wants_room())) {
    ReadInput();
  }
  if (closed() || lingering_) return;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    // What the peer said last was read before.
    OnHangUp();
  } else if ((events & EPOLLOUT) != 0) {
    ScheduleFlush();
  }
}

void SessionSocket::OnHangUp() {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  owner_.OnSocketLost(error != 0 ? std::strerror(error) : "connection closed by the peer");
}

void SessionSocket::StepHandshake() {
  switch (tls_->Handshake()) {
    case TlsStream::Progress::kWantsInput:
      StopWaitingForRoom();
      return;
    case TlsStream::Progress::kWantsRoom:
      WaitForRoom();
      return;
    case TlsStream::Progress::kFailed:
      owner_.OnHandshakeFailed(tls_->error());
      return;
    case TlsStream::Progress::kDone:
      handshaking_ = false;
      StopWaitingForRoom();
      ScheduleFlush();
      // What came along with the end of the handshake is in TLS's buffer, where epoll cannot see
      // it.
      ReadInput();
      return;
  }
}

void SessionSocket::DropInput() {
  std::array<char, 4096> dropped;
  ssize_t n;
  do {
    n = recv(fd_, dropped.data(), dropped.size(), 0);
  } while (n > 0);
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) owner_.OnSocketLost("closed");
}

void SessionSocket::ReadInput() {
  thread_local std::array<std::uint8_t, kReadBytes> buffer;
  std::size_t total = 0;
  const int reads_max = tls_ == nullptr ? kReadsPerWakeUp : kTlsReadsPerWakeUp;
  for (int reads = 0;; ++reads) {
    if (reads == reads_max) {
      if (tls_ != nullptr && tls_->HasBuffered()) ReadOn();
      break;
    }
    const ssize_t received = ReceiveBytes(buffer.data(), buffer.size());
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (received <= 0) {
      owner_.OnSocketLost(received == 0 ? "connection closed by the peer" : ErrorWords());
      return;
    }
    if (!std::exchange(heard_, true) && tls_ == nullptr && LooksLikeTls(buffer[0])) {
      owner_.OnSocketLost("the peer speaks TLS where plain text is spoken");
      return;
    }
    if (!owner_.OnBytes(
            {reinterpret_cast<const char*>(buffer.data()), static_cast<std::size_t>(received)})) {
      Flush();
      if (!closed()) Linger();
      return;
    }
    const ssize_t taken =
        nghttp2_session_mem_recv(session_, buffer.data(), static_cast<std::size_t>(received));
    if (closed()) return;
    if (taken < 0) {
      // Not HTTP/2, or a flood. nghttp2 has queued a GOAWAY where that makes sense.
      Flush();
      if (!closed()) owner_.OnSocketLost(nghttp2_strerror(static_cast<int>(taken)));
      return;
    }
    total += static_cast<std::size_t>(received);
    if (tls_ == nullptr && static_cast<std::size_t>(received) < buffer.size()) break;
  }
  if (tls_ != nullptr && tls_->receive_wants_room()) WaitForRoom();
  if (total == 0) return;
  owner_.OnBytesRead(total);
  if (closed()) return;
  if (nghttp2_session_want_write(session_) != 0 || nghttp2_session_want_read(session_) == 0) {
    ScheduleFlush();
  }
}

// Reads the rest in the next wake-up, after others had their turn.
void SessionSocket::ReadOn() {
  if (std::exchange(read_scheduled_, true)) return;
  loop_.PostFlush([this] {
    read_scheduled_ = false;
    if (!closed() && !lingering_) ReadInput();
  });
}

ssize_t SessionSocket::ReceiveBytes(std::uint8_t* out, std::size_t size) {
  return tls_ == nullptr ? recv(fd_, out, size, 0) : tls_->Receive(out, size);
}

ssize_t SessionSocket::SendBytes(std::string_view bytes) {
  if (tls_ != nullptr) return tls_->Send(bytes.data(), bytes.size());
  return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::string SessionSocket::ErrorWords() const {
  return tls_ != nullptr && errno == EPROTO ? tls_->error() : std::strerror(errno);
}

void SessionSocket::ScheduleFlush() {
  if (flush_scheduled_ || closed()) return;
  flush_scheduled_ = true;
  loop_.PostFlush([this] {
    flush_scheduled_ = false;
    Flush();
  });
}

void SessionSocket::Flush() {
  if (closed() || lingering_) return;
  if (handshaking_) {
    StepHandshake();
    return;
  }
  if (!unsent_.empty()) {
    if (!Send(std::string_view(unsent_).substr(unsent_from_))) return;
    std::string().swap(unsent_);
    unsent_from_ = 0;
  }
  thread_local std::string batch;
  for (;;) {
    batch.clear();
    while (batch.size() < kWriteBytes) {
      const std::uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      if (closed()) return;
      if (size < 0) {
        owner_.OnSocketLost(nghttp2_strerror(static_cast<int>(size)));
        return;
      }
      if (size == 0) break;
      batch.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    if (batch.empty()) break;
    if (!Send(batch)) return;
  }
  StopWaitingForRoom();
  owner_.OnFlushed();
}

bool SessionSocket::Send(std::string_view bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = SendBytes(bytes.substr(sent));
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
      bytes_sent_ += static_cast<std::uint64_t>(n);
    } else if (errno == EAGAIN) {
      if (unsent_.empty()) {
        unsent_.assign(bytes.substr(sent));
        unsent_from_ = 0;
      } else {
        unsent_from_ += sent;
      }
      WaitForRoom();
      return false;
    } else if (errno != EINTR) {
      owner_.OnSocketLost(ErrorWords());
      return false;
    }
  }
  return true;
}

void SessionSocket::WaitForRoom() {
  if (!std::exchange(waits_for_room_, true)) {
    loop_.Change(watch_, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
  }
  if (timer_ == 0) ArmStallTimer();
}

void SessionSocket::StopWaitingForRoom() {
  if (tls_ != nullptr && tls_->receive_wants_room()) return;
  if (std::exchange(waits_for_room_, false)) loop_.Change(watch_, EPOLLIN | EPOLLRDHUP);
}

void SessionSocket::ArmStallTimer() {
  bytes_sent_at_check_ = bytes_sent_;
  timer_ = loop_.PostAt(loop_.clock().Now() + stall_timeout_, [this] {
    timer_ = 0;
    if (!waits_for_room_) return;
    if (bytes_sent_ == bytes_sent_at_check_) {
      owner_.OnSocketLost("the peer takes no bytes");
    } else {
      ArmStallTimer();
    }
  });
}

}  // namespace millrace::rpc
