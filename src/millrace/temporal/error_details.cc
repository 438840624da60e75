#include "millrace/temporal/error_details.h"

#include <string_view>
#include <utility>

#include <google/rpc/status.pb.h>

#include "temporal/api/errordetails/v1/message.pb.h"
#include "temporal/server/api/errordetails/v1/message.pb.h"

namespace millrace::temporal {
namespace {

namespace api = ::temporal::api::errordetails::v1;
namespace server = ::temporal::server::api::errordetails::v1;
namespace enums = ::temporal::api::enums::v1;
using rpc::Code;
using rpc::RpcStatus;

constexpr std::string_view kHandoverMessage = "Namespace replication in Handover state.";
constexpr std::string_view kRemoteSyncMatchMessage = "remote sync match failed";

RpcStatus WithDetail(Code code, std::string message, const google::protobuf::Message& detail) {
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(code));
  rich.set_message(message);
  rich.add_details()->PackFrom(detail);
  return {code, std::move(message), rich.SerializeAsString()};
}

template <typename Detail>
RpcStatus WithEmptyDetail(Code code, std::string message) {
  return WithDetail(code, std::move(message), Detail());
}

// The first detail is the one that counts.
google::protobuf::Any FirstDetail(const RpcStatus& status) {
  google::rpc::Status rich;
  if (status.details.empty() || !rich.ParseFromString(status.details) || rich.details().empty()) {
    return {};
  }
  return std::move(*rich.mutable_details(0));
}

ErrorKind FailedPreconditionKind(const google::protobuf::Any& detail) {
  if (detail.Is<server::ObsoleteDispatchBuildIdFailure>()) {
    return ErrorKind::kObsoleteDispatchBuildId;
  }
  if (detail.Is<server::ObsoleteMatchingTaskFailure>()) return ErrorKind::kObsoleteMatchingTask;
  if (detail.Is<server::ActivityStartDuringTransitionFailure>()) {
    return ErrorKind::kActivityStartDuringTransition;
  }
  return ErrorKind::kOther;
}

void ReadAborted(const google::protobuf::Any& detail, ServiceError& error) {
  if (detail.Is<server::StalePartitionCountsFailure>()) {
    error.kind = ErrorKind::kStalePartitionCounts;
  }
  server::ShardOwnershipLostFailure lost;
  if (!detail.UnpackTo(&lost)) return;
  error.kind = ErrorKind::kShardOwnershipLost;
  error.owner_host = std::move(*lost.mutable_owner_host());
  error.current_host = std::move(*lost.mutable_current_host());
}

void ReadInvalidArgument(const google::protobuf::Any& detail, ServiceError& error) {
  api::QueryFailedFailure failed;
  if (!detail.UnpackTo(&failed)) return;
  error.kind = ErrorKind::kQueryFailed;
  error.failure = std::move(*failed.mutable_failure());
}

}  // namespace

ServiceError ReadServiceError(const RpcStatus& status) {
  ServiceError error;
  error.code = status.code;
  const google::protobuf::Any detail = FirstDetail(status);
  switch (status.code) {
    case Code::kNotFound:
      error.kind = detail.Is<api::NamespaceNotFoundFailure>() ? ErrorKind::kNamespaceNotFound
                                                              : ErrorKind::kNotFound;
      break;
    case Code::kAlreadyExists:
      if (detail.Is<server::TaskAlreadyStartedFailure>()) {
        error.kind = ErrorKind::kTaskAlreadyStarted;
      }
      break;
    case Code::kAborted:
      ReadAborted(detail, error);
      break;
    case Code::kUnavailable:
      if (detail.Is<server::StickyWorkerUnavailableFailure>()) {
        error.kind = ErrorKind::kStickyWorkerUnavailable;
      } else if (status.message == kHandoverMessage) {
        error.kind = ErrorKind::kNamespaceHandover;
      }
      break;
    case Code::kResourceExhausted: {
      error.kind = ErrorKind::kResourceExhausted;
      api::ResourceExhaustedFailure failure;
      if (detail.UnpackTo(&failure)) {
        error.cause = failure.cause();
        error.scope = failure.scope();
      }
      break;
    }
    case Code::kFailedPrecondition:
      error.kind = FailedPreconditionKind(detail);
      break;
    case Code::kInvalidArgument:
      ReadInvalidArgument(detail, error);
      break;
    case Code::kCancelled:
      if (status.message == kRemoteSyncMatchMessage) {
        error.kind = ErrorKind::kRemoteSyncMatchFailed;
      }
      break;
    case Code::kInternal:
      if (detail.Is<api::SystemWorkflowFailure>()) error.kind = ErrorKind::kSystemWorkflow;
      break;
    default:
      break;
  }
  return error;
}

RpcStatus NotFoundError(std::string message) {
  return WithEmptyDetail<api::NotFoundFailure>(Code::kNotFound, std::move(message));
}

RpcStatus TaskAlreadyStartedError() {
  return WithEmptyDetail<server::TaskAlreadyStartedFailure>(Code::kAlreadyExists,
                                                            "the task was started already");
}

RpcStatus ShardOwnershipLostError(std::string owner_host, std::string current_host) {
  std::string message =
      "the shard belongs to '" + owner_host + "' and not to '" + current_host + "'";
  server::ShardOwnershipLostFailure detail;
  detail.set_owner_host(std::move(owner_host));
  detail.set_current_host(std::move(current_host));
  return WithDetail(Code::kAborted, std::move(message), detail);
}

RpcStatus StickyWorkerUnavailableError() {
  return WithEmptyDetail<server::StickyWorkerUnavailableFailure>(
      Code::kUnavailable, "no worker polls this sticky queue: use the normal one");
}

RpcStatus ResourceExhaustedError(ResourceExhaustedCause cause, ResourceExhaustedScope scope,
                                 std::string message) {
  api::ResourceExhaustedFailure detail;
  detail.set_cause(cause);
  detail.set_scope(scope);
  return WithDetail(Code::kResourceExhausted, std::move(message), detail);
}

RpcStatus NamespaceHandoverError() {
  return {Code::kUnavailable, std::string(kHandoverMessage), {}};
}

RpcStatus ObsoleteDispatchBuildIdError(std::string message) {
  return WithEmptyDetail<server::ObsoleteDispatchBuildIdFailure>(Code::kFailedPrecondition,
                                                                 std::move(message));
}

RpcStatus ObsoleteMatchingTaskError(std::string message) {
  return WithEmptyDetail<server::ObsoleteMatchingTaskFailure>(Code::kFailedPrecondition,
                                                              std::move(message));
}

RpcStatus ActivityStartDuringTransitionError() {
  return WithEmptyDetail<server::ActivityStartDuringTransitionFailure>(
      Code::kFailedPrecondition, "the workflow is moving to another deployment");
}

RpcStatus StalePartitionCountsError(std::string message) {
  return WithEmptyDetail<server::StalePartitionCountsFailure>(Code::kAborted, std::move(message));
}

RpcStatus QueryFailedError(std::string message, std::string failure) {
  api::QueryFailedFailure detail;
  if (!failure.empty()) detail.set_failure(std::move(failure));
  return WithDetail(Code::kInvalidArgument, std::move(message), detail);
}

RpcStatus RemoteSyncMatchFailedError() {
  return {Code::kCancelled, std::string(kRemoteSyncMatchMessage), {}};
}

RpcStatus UnimplementedError(std::string_view what) {
  return {
      Code::kUnimplemented, std::string(what) + " is not served by this matching service yet", {}};
}

RpcStatus EngineError(const Status& status) {
  std::string message(status.message());
  switch (status.code()) {
    case StatusCode::kOk:
      return {};
    case StatusCode::kResourceExhausted:
      return ResourceExhaustedError(enums::RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED,
                                    enums::RESOURCE_EXHAUSTED_SCOPE_SYSTEM, std::move(message));
    case StatusCode::kInvalidArgument:
      return {Code::kInvalidArgument, std::move(message), {}};
    case StatusCode::kFailedPrecondition:
      return {Code::kFailedPrecondition, std::move(message), {}};
    case StatusCode::kCancelled:
      return {Code::kCancelled, std::move(message), {}};
    case StatusCode::kDeadlineExceeded:
      return {Code::kDeadlineExceeded, std::move(message), {}};
    case StatusCode::kUnavailable:
    case StatusCode::kUnknownOutcome:  // A task added twice is started once.
    case StatusCode::kFenced:
    case StatusCode::kShuttingDown:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kCorruption:
    case StatusCode::kInternal:
      break;
  }
  return {Code::kUnavailable, std::move(message), {}};
}

}  // namespace millrace::temporal
