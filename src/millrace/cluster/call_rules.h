#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/base/time.h"
#include "millrace/rpc/status.h"

// What the router has to know of QueueService's calls.
namespace millrace::cluster {

enum class CallKind : std::uint8_t {
  kOneQueue,   // Names a queue: its owner answers.
  kAllQueues,  // Each node knows a part of the answer.
};

struct CallRules {
  CallKind kind = CallKind::kOneQueue;
  // Done twice is as good as once, so a call whose connection broke may be made again.
  bool repeatable = false;
  // The answer rests on the range id alone, not on what the owner has in memory.
  bool judged_by_store = false;
  // Hands out tasks, and waits for them.
  bool leases = false;
};

// `method`: the full path. None for methods of other services.
std::optional<CallRules> RulesOf(std::string_view method);

// The queue that the request names, a view into it. Empty when it names none or does not parse:
// whoever answers will say what is wrong.
std::string_view QueueOf(std::string_view request);

// A Lease request's wait, or none if the server is to choose.
std::optional<Duration> WaitOf(std::string_view lease_request);
std::string WithWait(std::string_view lease_request, Duration wait);

// The server said that it surely did not do it, since it is not (any more) the one to do it.
bool IsTurnedAway(const rpc::RpcStatus& status);
// What a caller is told then.
rpc::RpcStatus TurnedAway(std::string message);
// And when it may have been done.
rpc::RpcStatus OutcomeUnknown(std::string message);

// The ListResponse of this node, with what another node has in memory put in from its response to
// the same request. Bytes that do not parse change nothing.
std::string MergeLists(std::string own, std::string_view other);

}  // namespace millrace::cluster
