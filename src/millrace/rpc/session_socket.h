#pragma once

#include <nghttp2/nghttp2.h>

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "millrace/base/time.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/tls_stream.h"

namespace millrace::rpc {

// Carries bytes between a connected socket and an nghttp2 session, in plain text or through TLS,
// whose handshake comes first then.
//
// Thread: the loop's. Destroyed at the end of the wake-up in which it was closed, or later.
// Bounds: 256 KiB of bytes that the socket did not take; nothing while all was sent.
// Invariants: what was submitted to the session during a wake-up leaves at its end in as few writes
// as possible.
class SessionSocket {
 public:
  class Owner {
   public:
    // The socket is of no use any more; called once, then the owner closes it. Not called for
    // Close.
    virtual void OnSocketLost(std::string_view why) = 0;
    // No TLS with this peer; called once, then the owner closes or lingers, so that the peer hears
    // of the reason.
    virtual void OnHandshakeFailed(std::string_view why) = 0;
    // A batch of bytes will be given to the session. False = not this one, and none after it; the
    // owner has said goodbye.
    virtual bool OnBytes(std::string_view /*bytes*/) { return true; }
    // A batch of bytes was given to the session.
    virtual void OnBytesRead(std::size_t bytes) = 0;
    // The session has nothing to send and the socket took everything.
    virtual void OnFlushed() = 0;

   protected:
    ~Owner() = default;
  };

  // Owns `fd`. The session is set before the loop wakes up the next time, and lives as long as
  // this. `tls` is of the same descriptor; null = plain text.
  SessionSocket(exec::EventLoop& loop, int fd, std::unique_ptr<TlsStream> tls,
                Duration stall_timeout, Owner& owner);
  ~SessionSocket();
  SessionSocket(const SessionSocket&) = delete;
  SessionSocket& operator=(const SessionSocket&) = delete;

  void set_session(nghttp2_session* session) { session_ = session; }

  // Flush at the end of this wake-up. Everyone who submits something calls it.
  void ScheduleFlush();
  // Not inside a callback of nghttp2.
  void Flush();

  // Sends nothing more, and closes when the peer has, or after a second: closing with bytes unread
  // would make the kernel take back what was just written.
  void Linger();
  void Close();
  [[nodiscard]] bool closed() const { return fd_ < 0; }
  [[nodiscard]] bool lingering() const { return lingering_; }
  // The TLS handshake is under way.
  [[nodiscard]] bool handshaking() const { return handshaking_; }

 private:
  void OnEvents(std::uint32_t events);
  void OnHangUp();
  void StepHandshake();
  void DropInput();
  void ReadInput();
  void ReadOn();
  bool Send(std::string_view bytes);
  ssize_t ReceiveBytes(std::uint8_t* out, std::size_t size);
  ssize_t SendBytes(std::string_view bytes);
  [[nodiscard]] std::string ErrorWords() const;
  void WaitForRoom();
  void StopWaitingForRoom();
  void ArmStallTimer();

  exec::EventLoop& loop_;
  Owner& owner_;
  nghttp2_session* session_ = nullptr;
  int fd_;
  const std::unique_ptr<TlsStream> tls_;
  exec::EventLoop::WatchId watch_ = 0;
  const Duration stall_timeout_;

  std::string unsent_;
  std::size_t unsent_from_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_sent_at_check_ = 0;
  exec::TimerId timer_ = 0;  // Stall, or lingering.
  bool handshaking_;
  bool heard_ = false;  // The first bytes of the peer have come.
  bool read_scheduled_ = false;
  bool flush_scheduled_ = false;
  bool waits_for_room_ = false;
  bool lingering_ = false;
};

}  // namespace millrace::rpc
