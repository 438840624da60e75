#include "millrace/rpc/client_keepalive.h"

#include <utility>

namespace millrace::rpc {

ClientKeepalive::ClientKeepalive(exec::EventLoop& loop, const Options& options, Closure ping,
                                 Closure dead)
    : loop_(loop), options_(options), ping_(std::move(ping)), dead_(std::move(dead)) {}

void ClientKeepalive::OnActivity(std::size_t calls_open) {
  calls_open_ = calls_open;
  if (timer_ != 0 || options_.time == Duration::zero()) return;
  if (calls_open_ == 0 && !options_.without_calls) return;
  heard_ = false;
  Arm(options_.time);
}

void ClientKeepalive::Stop() {
  if (timer_ != 0) loop_.CancelTimer(std::exchange(timer_, 0));
}

void ClientKeepalive::Arm(Duration wait) {
  timer_ = loop_.PostAt(loop_.clock().Now() + wait, [this] {
    timer_ = 0;
    OnTimer();
  });
}

void ClientKeepalive::OnAnswer() {
  pinged_ = false;
  Stop();
  OnActivity(calls_open_);
}

void ClientKeepalive::OnTimer() {
  // Without calls the next one starts it again.
  if (pinged_) {
    dead_();
  } else if (heard_) {
    OnActivity(calls_open_);
  } else if (calls_open_ > 0 || options_.without_calls) {
    pinged_ = true;
    ping_();
    Arm(options_.timeout);
  }
}

}  // namespace millrace::rpc
