// QueueService::Peek.
#include <millrace/v1/queue.pb.h>

#include <utility>

#include "millrace/queue/open_call.h"
#include "millrace/queue/queue_service.h"

namespace millrace::queue {
namespace {

constexpr std::size_t kPageSizeDefault = 100;
constexpr std::size_t kPageSizeMax = 1'000;

v1::TaskState StateToProto(PeekState state) {
  switch (state) {
    case PeekState::kLeased:
      return v1::TASK_STATE_LEASED;
    case PeekState::kDead:
      return v1::TASK_STATE_DEAD;
    case PeekState::kWaiting:
    case PeekState::kWaitingAndLeased:
      break;
  }
  return v1::TASK_STATE_WAITING;
}

void Fill(const PeekedTask& task, std::uint64_t uid, bool full, v1::Task* out) {
  out->set_task_id(PublicTaskId(uid, task.first_id));
  out->set_state(StateToProto(task.state));
  if (full) {
    out->set_payload(task.record.payload.data(), task.record.payload.size());
    for (const auto& [name, value] : task.record.headers) {
      (*out->mutable_headers())[std::string(name)] = std::string(value);
    }
  }
  out->set_attempt(task.record.attempts_ended + (task.state == PeekState::kLeased ? 1 : 0));
  out->set_max_attempts(task.record.max_attempts);
  ToProto(task.enqueue_time, out->mutable_enqueue_time());
  if (task.expiry_time.is_set()) ToProto(task.expiry_time, out->mutable_expiry_time());
  if (task.state == PeekState::kLeased)
    ToProto(task.lease_time_left, out->mutable_lease_time_left());
  out->set_worker_id(task.worker_id);
  out->set_error_message(task.error_message);
}

}  // namespace

void QueueService::Peek(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<v1::PeekRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  FieldErrors errors;
  CheckQueue(request->queue(), errors);
  PeekParams params;
  params.limit = CheckPageSize(request->page_size(), kPageSizeDefault, kPageSizeMax, errors);
  switch (request->state()) {
    case v1::TASK_STATE_UNSPECIFIED:
      params.state = PeekState::kWaitingAndLeased;
      break;
    case v1::TASK_STATE_WAITING:
      params.state = PeekState::kWaiting;
      break;
    case v1::TASK_STATE_LEASED:
      params.state = PeekState::kLeased;
      break;
    case v1::TASK_STATE_DEAD:
      params.state = PeekState::kDead;
      break;
    default:
      errors.Add("state", "no such state: " + std::to_string(request->state()));
  }
  const std::optional<std::string> token = DecodePageToken(request->page_token());
  if (!token) errors.Add("page_token", "not a token of this server");
  if (RejectIfBad(errors, call)) return metrics_.rejected.Increment();
  params.after = *token;
  const bool full = request->view() != v1::TASK_VIEW_BASIC;
  const store::PhysicalQueueKey key = QueueKey(request->queue());

  Op peek = [params = std::move(params), full](const QueuePtr& queue, CallPtr open) mutable {
    queue->Peek(std::move(params), [open = std::move(open), uid = queue->uid(),
                                    full](Result<PeekPage> page) {
      if (!page.ok())
        return open->Finish(ToRpcStatus(QueueError::From(page.status())), std::string());
      v1::PeekResponse response;
      for (const PeekedTask& task : page->tasks) Fill(task, uid, full, response.add_tasks());
      response.set_next_page_token(EncodePageToken(page->next));
      open->FinishOk(response.SerializeAsString());
    });
  };
  WithExistingQueue(key, std::move(call), std::move(peek));
}

}  // namespace millrace::queue
