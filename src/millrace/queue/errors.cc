#include "millrace/queue/errors.h"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>

namespace millrace::queue {
namespace {

constexpr char kDomain[] = "millrace";

bool WaitingHelps(Reason reason) {
  return reason == Reason::kQuotaExceeded || reason == Reason::kStoreReadOnly ||
         reason == Reason::kDraining || reason == Reason::kOutcomeUnknown;
}

}  // namespace

std::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
    case Reason::kLeaseLost:
      return "LEASE_LOST";
    case Reason::kQueueNotFound:
      return "QUEUE_NOT_FOUND";
    case Reason::kPayloadTooLarge:
      return "PAYLOAD_TOO_LARGE";
    case Reason::kQuotaExceeded:
      return "QUOTA_EXCEEDED";
    case Reason::kStoreReadOnly:
      return "STORE_READ_ONLY";
    case Reason::kOutcomeUnknown:
      return "OUTCOME_UNKNOWN";
    case Reason::kDraining:
      return "DRAINING";
    case Reason::kDataDamaged:
      return "DATA_DAMAGED";
  }
  return "";
}

QueueError QueueError::From(const Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case StatusCode::kOk:
      return {};
    case StatusCode::kUnavailable:
      return {rpc::Code::kUnavailable, Reason::kStoreReadOnly, message};
    case StatusCode::kUnknownOutcome:
      return {rpc::Code::kUnavailable, Reason::kOutcomeUnknown, message};
    case StatusCode::kFenced:
    case StatusCode::kShuttingDown:
      return {rpc::Code::kUnavailable, Reason::kDraining, message};
    case StatusCode::kResourceExhausted:
      return {rpc::Code::kResourceExhausted, Reason::kQuotaExceeded, message};
    case StatusCode::kNotFound:
      return {rpc::Code::kNotFound, Reason::kNone, message};
    case StatusCode::kInvalidArgument:
      return {rpc::Code::kInvalidArgument, Reason::kNone, message};
    case StatusCode::kAlreadyExists:
      return {rpc::Code::kAlreadyExists, Reason::kNone, message};
    case StatusCode::kFailedPrecondition:
      return {rpc::Code::kFailedPrecondition, Reason::kNone, message};
    case StatusCode::kCancelled:
      return {rpc::Code::kCancelled, Reason::kNone, message};
    case StatusCode::kDeadlineExceeded:
      return {rpc::Code::kDeadlineExceeded, Reason::kNone, message};
    case StatusCode::kCorruption:
      return {rpc::Code::kDataLoss, Reason::kDataDamaged, message};
    case StatusCode::kInternal:
      return {rpc::Code::kInternal, Reason::kNone, message};
  }
  return {rpc::Code::kInternal, Reason::kNone, message};
}

QueueError QueueError::LeaseLost() {
  return {rpc::Code::kFailedPrecondition, Reason::kLeaseLost,
          "the token is not the task's current lease: it was finished, its time ran out, or it was "
          "handed out again"};
}

rpc::RpcStatus ToRpcStatus(const QueueError& error) {
  rpc::RpcStatus status{error.code, error.message, {}};
  if (error.ok() || error.reason == Reason::kNone) return status;
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(error.code));
  rich.set_message(error.message);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(ReasonName(error.reason)));
  info.set_domain(kDomain);
  rich.add_details()->PackFrom(info);
  if (WaitingHelps(error.reason)) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(200'000'000);
    rich.add_details()->PackFrom(retry);
  }
  status.details = rich.SerializeAsString();
  return status;
}

void FieldErrors::Add(std::string field, std::string description) {
  if (!message_.empty()) message_ += "; ";
  message_ += field + ": " + description;
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field(std::move(field));
  violation->set_description(std::move(description));
  // Serialized repeated fields concatenate.
  bad.AppendToString(&violations_);
}

rpc::RpcStatus FieldErrors::ToRpcStatus() const {
  google::rpc::BadRequest bad;
  bad.ParseFromString(violations_);
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(rpc::Code::kInvalidArgument));
  rich.set_message(message_);
  rich.add_details()->PackFrom(bad);
  return {rpc::Code::kInvalidArgument, message_, rich.SerializeAsString()};
}

}  // namespace millrace::queue
