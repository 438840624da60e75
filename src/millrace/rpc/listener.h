#pragma once

#include <cstdint>
#include <string>

#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/base/status.h"
#include "millrace/exec/event_loop.h"

namespace millrace::rpc {

// A listening socket. A Unix socket's file is removed when it closes, and a file left by a process
// that is gone is replaced at the start.
//
// Thread: Open anywhere before Start; everything else on `loop`, destruction included once started.
// Fails: when the process is out of descriptors it stops accepting for 100 ms.
class Listener {
 public:
  // Gets a connected, non-blocking descriptor, which is then its own, and gRPC's name of the peer.
  using OnAccept = UniqueFunction<void(int fd, std::string peer)>;

  Listener(exec::EventLoop& loop, Log& log);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // How a port is shared with the listeners of other loops, so that the kernel spreads connections
  // over them. The first one still takes it only if nobody else has it, this user's other processes
  // included; siblings follow at the address that it got.
  enum class Sharing : std::uint8_t { kAlone, kFirst, kSibling };

  // Fails: kInvalidArgument malformed; kUnavailable cannot be bound, with the system's words.
  Status Open(const std::string& address, Sharing sharing = Sharing::kAlone);
  void Start(OnAccept on_accept);

  // The address bound, with the port that was chosen.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] bool is_unix() const { return !unix_path_.empty(); }

 private:
  void Accept();

  exec::EventLoop& loop_;
  Log& log_;
  OnAccept on_accept_;
  std::string address_;
  std::string unix_path_;
  int fd_ = -1;
  exec::EventLoop::WatchId watch_ = 0;
  exec::TimerId resume_timer_ = 0;
};

}  // namespace millrace::rpc
