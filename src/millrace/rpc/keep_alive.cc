#include "millrace/rpc/keep_alive.h"

#include <utility>

namespace millrace::rpc {

KeepAlive::Step KeepAlive::OnTimer() {
  if (std::exchange(heard_, false)) {
    asked_ = false;
    return Step::kWait;
  }
  return std::exchange(asked_, true) ? Step::kGiveUp : Step::kPing;
}

}  // namespace millrace::rpc
