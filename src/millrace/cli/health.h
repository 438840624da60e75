#pragma once

#include <optional>
#include <string>

#include "millrace/base/time.h"
#include "millrace/cli/call_error.h"
#include "millrace/cli/client_session.h"

namespace millrace::cli {

// What grpc.health.v1 says about the whole server.
struct Health {
  bool serving = false;
  std::string word;  // "serving", "not serving", "unknown" or "unreachable".
  std::optional<CallError> error;
};

Health AskHealth(ClientSession& session, Duration timeout);

}  // namespace millrace::cli
