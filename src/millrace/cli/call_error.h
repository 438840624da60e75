#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "millrace/base/time.h"
#include "millrace/cli/exit_code.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/status.h"

namespace millrace::cli {

// A failed call, with what the server's details say beyond code and message.
struct CallError {
  struct Field {
    std::string name;
    std::string description;
  };

  rpc::Code code = rpc::Code::kUnknown;
  std::string message{};
  std::string reason{};  // From ErrorInfo, "" when the server gave none.
  std::vector<Field> fields{};
  std::optional<Duration> retry_delay{};
  bool never_sent = false;  // Surely no server saw it.

  // The same call may be sent again later with hope.
  [[nodiscard]] bool retryable() const;
  // The call may have had its effect although it failed.
  [[nodiscard]] bool outcome_unknown() const;
  [[nodiscard]] ExitCode exit_code() const;
};

// `status` is not ok. Damaged details are left out, never an error of their own.
CallError ReadCallError(const rpc::RpcStatus& status);
CallError ReadCallError(const rpc::CallResult& result);

// What the user can do about it; empty when there is nothing to say.
std::string HintFor(const CallError& error, const std::string& address);

// "error: what: message (REASON)", the fields, and the hint, each on its line.
void PrintCallError(std::ostream& err, const std::string& what, const CallError& error,
                    const std::string& address);

}  // namespace millrace::cli
