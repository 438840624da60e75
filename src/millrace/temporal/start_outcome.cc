#include "millrace/temporal/start_outcome.h"

#include "millrace/temporal/error_details.h"

namespace millrace::temporal {
namespace {

constexpr StartOutcome kStarted{TaskFate::kStarted, PollerFate::kAnswer, DropReason::kNone, false};
constexpr StartOutcome kRetryLater{TaskFate::kRewrite, PollerFate::kPollOn, DropReason::kNone,
                                   true};
constexpr StartOutcome kRefusePoller{TaskFate::kRewrite, PollerFate::kError, DropReason::kNone,
                                     true};

constexpr StartOutcome Drop(DropReason reason) {
  return {TaskFate::kDrop, PollerFate::kPollOn, reason, false};
}

}  // namespace

std::string_view DropReasonName(DropReason reason) {
  switch (reason) {
    case DropReason::kNone:
      return "";
    case DropReason::kNotFound:
      return "not_found";
    case DropReason::kInvalid:
      return "invalid";
    case DropReason::kInternalError:
      return "internal_error";
    case DropReason::kDataLoss:
      return "data_loss";
  }
  return "";
}

StartOutcome ClassifyStart(const rpc::RpcStatus& status) {
  if (status.ok()) return kStarted;
  const ServiceError error = ReadServiceError(status);
  switch (error.kind) {
    case ErrorKind::kNotFound:
      return Drop(DropReason::kNotFound);
    case ErrorKind::kTaskAlreadyStarted:
    case ErrorKind::kObsoleteDispatchBuildId:
    case ErrorKind::kObsoleteMatchingTask:
    case ErrorKind::kActivityStartDuringTransition:
      return Drop(DropReason::kInvalid);
    case ErrorKind::kResourceExhausted:
      if (error.cause == ::temporal::api::enums::v1::RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW) {
        return {TaskFate::kRewrite, PollerFate::kPollOn, DropReason::kNone, false};
      }
      return kRefusePoller;
    case ErrorKind::kNamespaceHandover:
      return kRefusePoller;
    case ErrorKind::kNamespaceNotFound:
    case ErrorKind::kShardOwnershipLost:
    case ErrorKind::kStickyWorkerUnavailable:
    case ErrorKind::kStalePartitionCounts:
    case ErrorKind::kQueryFailed:
    case ErrorKind::kRemoteSyncMatchFailed:
    case ErrorKind::kSystemWorkflow:
      return kRetryLater;
    case ErrorKind::kOther:
      break;
  }
  if (error.code == rpc::Code::kInternal) return Drop(DropReason::kInternalError);
  if (error.code == rpc::Code::kDataLoss) return Drop(DropReason::kDataLoss);
  return kRetryLater;
}

}  // namespace millrace::temporal
