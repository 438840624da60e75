#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/base/random.h"
#include "millrace/base/time.h"
#include "millrace/cli/call_error.h"
#include "millrace/cli/context.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"

namespace millrace::cli {

// A command's connection to the server: one event loop, one channel, typed blocking calls.
//
// Thread: one at a time, not the loop's; loop() and channel() as their classes say.
class ClientSession {
 public:
  explicit ClientSession(const Context& context, int connections = 1);
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  // Blocks until the call ended or the timeout (context's, if none is given) has passed. Empty
  // optional = ok.
  template <typename Request, typename Response>
  std::optional<CallError> Call(std::string_view method, const Request& request, Response& response,
                                std::optional<Duration> timeout = std::nullopt) {
    const rpc::CallResult result =
        CallBytes(method, request.SerializeAsString(), timeout.value_or(timeout_));
    if (!result.status.ok()) return ReadCallError(result);
    if (!response.ParseFromString(result.response)) return Unreadable();
    return std::nullopt;
  }

  // Runs `closure` on the loop and waits for it.
  void RunOnLoop(Closure closure);

  [[nodiscard]] exec::EventLoop& loop() { return *loop_; }
  [[nodiscard]] rpc::Channel& channel() { return *channel_; }
  [[nodiscard]] const Clock& clock() const { return clock_; }

 private:
  rpc::CallResult CallBytes(std::string_view method, std::string request, Duration timeout);
  static CallError Unreadable();

  SystemClock clock_;
  const Duration timeout_;
  std::unique_ptr<exec::EventLoop> loop_;
  std::unique_ptr<rpc::Channel> channel_;
};

}  // namespace millrace::cli
