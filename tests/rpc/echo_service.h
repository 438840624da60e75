#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "millrace/base/mutex.h"
#include "millrace/rpc/service.h"

namespace millrace::rpc {

// A service of raw bytes for other people's clients, millrace.test.Echo:
//   Unary          the request
//   Metadata       the request; metadata x-... comes back in headers and trailers alike
//   Fail           the status named by the metadata code, message and details-bin
//   Park           waits until the call is cancelled
//   WaitCancelled  once as many Park calls as the request says (text) were cancelled
//   Stream         every message, as it comes
//   Count          as many messages as the request says (text), then the status OUT_OF_RANGE
// Thread: any.
class EchoService {
 public:
  EchoService() = default;
  EchoService(const EchoService&) = delete;
  EchoService& operator=(const EchoService&) = delete;

  void AddTo(ServiceTable* table);

 private:
  void Park(std::unique_ptr<ServerCall> call) MR_EXCLUDES(mutex_);
  void WaitCancelled(std::unique_ptr<ServerCall> call) MR_EXCLUDES(mutex_);
  void OnCancelled() MR_EXCLUDES(mutex_);

  struct Waiter {
    std::size_t count;
    std::unique_ptr<ServerCall> call;
  };
  Mutex mutex_;
  std::size_t cancelled_ MR_GUARDED_BY(mutex_) = 0;
  std::vector<Waiter> waiters_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::rpc
