#pragma once

#include <cstdint>

#include "millrace/base/function.h"
#include "millrace/base/time.h"
#include "millrace/exec/event_loop.h"

namespace millrace::rpc {

// Finds out whether a silent server is still there: a PING when nothing came for a while, and the
// connection is dead when still nothing comes.
//
//   off -> watching -> (silent for `time`) pinged -> (silent for `timeout`) dead
//
// Thread: the loop's.
// Bounds: one timer, and none while there is no call (unless wanted). A ping goes out between one
// and two times `time` after the last byte; nothing is counted or timed for each byte that comes.
class ClientKeepalive {
 public:
  struct Options {
    Duration time = Duration::zero();  // 0 = never.
    Duration timeout{};
    bool without_calls = false;
  };
  // `ping` sends one; `dead` may destroy this object's owner later, not at once.
  ClientKeepalive(exec::EventLoop& loop, const Options& options, Closure ping, Closure dead);
  ~ClientKeepalive() { Stop(); }
  ClientKeepalive(const ClientKeepalive&) = delete;
  ClientKeepalive& operator=(const ClientKeepalive&) = delete;

  // There is a call, or the connection is ready.
  void OnActivity(std::size_t calls_open);
  // Something came from the server.
  void OnBytesRead() {
    heard_ = true;
    if (pinged_) OnAnswer();
  }
  void Stop();

 private:
  void Arm(Duration wait);
  void OnTimer();
  void OnAnswer();

  exec::EventLoop& loop_;
  const Options options_;
  Closure ping_;
  Closure dead_;
  exec::TimerId timer_ = 0;
  std::size_t calls_open_ = 0;
  bool heard_ = false;
  bool pinged_ = false;
};

}  // namespace millrace::rpc
