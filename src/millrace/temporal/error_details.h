#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/base/status.h"
#include "millrace/rpc/status.h"
#include "temporal/api/enums/v1/failed_cause.pb.h"

namespace millrace::temporal {

// What an error between Temporal's services is beyond its gRPC code. Where a kind has a detail
// message, code and detail together make it, as Go's callers read it; one without the other is
// kOther. A kind exists only if this service makes it or acts on it.
enum class ErrorKind : std::uint8_t {
  kOther,     // Only the code counts.
  kNotFound,  // Any NOT_FOUND but kNamespaceNotFound.
  kNamespaceNotFound,
  kTaskAlreadyStarted,
  kShardOwnershipLost,
  kStickyWorkerUnavailable,
  kResourceExhausted,  // Any RESOURCE_EXHAUSTED.
  kNamespaceHandover,  // Told by its message alone.
  kObsoleteDispatchBuildId,
  kObsoleteMatchingTask,
  kActivityStartDuringTransition,
  kStalePartitionCounts,
  kQueryFailed,
  kRemoteSyncMatchFailed,  // Told by its message alone.
  kSystemWorkflow,         // An INTERNAL that is not this server's fault.
};

using ResourceExhaustedCause = ::temporal::api::enums::v1::ResourceExhaustedCause;
using ResourceExhaustedScope = ::temporal::api::enums::v1::ResourceExhaustedScope;

// An error read from a gRPC status.
struct ServiceError {
  ErrorKind kind = ErrorKind::kOther;
  rpc::Code code = rpc::Code::kOk;
  ResourceExhaustedCause cause = {};  // kResourceExhausted
  ResourceExhaustedScope scope = {};
  std::string owner_host;    // kShardOwnershipLost; empty = the answerer does not know.
  std::string current_host;  // kShardOwnershipLost: who answered.
  std::string failure;       // kQueryFailed: a temporal.api.failure.v1.Failure.
};

// Of a status that is not ok. Details that do not parse are as good as none.
ServiceError ReadServiceError(const rpc::RpcStatus& status);

// Statuses that Go's callers read as the error of that name. A status that came from elsewhere is
// passed on as it is, details and all.
rpc::RpcStatus NotFoundError(std::string message);
rpc::RpcStatus TaskAlreadyStartedError();
rpc::RpcStatus ShardOwnershipLostError(std::string owner_host, std::string current_host);
rpc::RpcStatus StickyWorkerUnavailableError();
rpc::RpcStatus ResourceExhaustedError(ResourceExhaustedCause cause, ResourceExhaustedScope scope,
                                      std::string message);
rpc::RpcStatus NamespaceHandoverError();
rpc::RpcStatus ObsoleteDispatchBuildIdError(std::string message);
rpc::RpcStatus ObsoleteMatchingTaskError(std::string message);
rpc::RpcStatus ActivityStartDuringTransitionError();
rpc::RpcStatus StalePartitionCountsError(std::string message);
// `failure`: a temporal.api.failure.v1.Failure, or empty.
rpc::RpcStatus QueryFailedError(std::string message, std::string failure);
// What a parent partition answers to a forwarded task that nobody waits for.
rpc::RpcStatus RemoteSyncMatchFailedError();
rpc::RpcStatus UnimplementedError(std::string_view what);

// How a failure of the engine looks to Temporal's services. Never NOT_FOUND, DATA_LOSS or INTERNAL:
// history would drop the task that it was adding, while the trouble may pass.
rpc::RpcStatus EngineError(const Status& status);

}  // namespace millrace::temporal
