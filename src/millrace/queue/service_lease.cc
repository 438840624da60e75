// QueueService::Lease.
#include <millrace/v1/queue.pb.h>

#include <algorithm>
#include <utility>

#include "millrace/queue/open_call.h"
#include "millrace/queue/queue_service.h"

namespace millrace::queue {
namespace {

constexpr std::size_t kWorkerIdBytesMax = 200;
// How long a call that would not wait gives a backlog that is not in memory yet.
constexpr Duration kLoadGrace = std::chrono::seconds(1);

std::string BuildReply(const std::vector<GrantedTask>& tasks, std::uint64_t uid,
                       Duration duration) {
  google::protobuf::Arena arena;
  auto* response = google::protobuf::Arena::CreateMessage<v1::LeaseResponse>(&arena);
  for (const GrantedTask& task : tasks) {
    v1::LeasedTask* out = response->add_tasks();
    out->set_task_id(PublicTaskId(uid, task.first_id));
    out->set_lease_token(task.token);
    out->set_payload(task.record.payload.data(), task.record.payload.size());
    for (const auto& [name, value] : task.record.headers) {
      (*out->mutable_headers())[std::string(name)] = std::string(value);
    }
    out->set_attempt(task.record.attempts_ended + 1);
    out->set_max_attempts(task.record.max_attempts);
    ToProto(task.enqueue_time, out->mutable_enqueue_time());
    ToProto(duration, out->mutable_lease_duration());
  }
  return response->SerializeAsString();
}

}  // namespace

void QueueService::Lease(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<v1::LeaseRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  FieldErrors errors;
  CheckQueue(request->queue(), errors);
  if (request->max_tasks() < 0 ||
      static_cast<std::size_t>(request->max_tasks()) > config_.items_per_request_max) {
    errors.Add("max_tasks", "0 to " + std::to_string(config_.items_per_request_max) +
                                " is allowed, not " + std::to_string(request->max_tasks()));
  }
  if (request->worker_id().size() > kWorkerIdBytesMax) {
    errors.Add("worker_id", "longer than " + std::to_string(kWorkerIdBytesMax) + " bytes");
  }
  LeaseParams params;
  params.max_tasks = static_cast<std::size_t>(std::max(1, request->max_tasks()));
  params.duration = CheckDuration("lease_duration", request->has_lease_duration(),
                                  request->lease_duration(), config_.lease_duration_default,
                                  config_.lease_duration_min, config_.lease_duration_max, errors);
  // A longer wait than the server allows is cut to that, not refused: the caller asks again anyway.
  const Duration wait = std::min(
      config_.poll_wait_max,
      CheckDuration("wait_time", request->has_wait_time(), request->wait_time(),
                    config_.poll_wait_max, Duration::zero(), std::chrono::hours(24), errors));
  if (RejectIfBad(errors, call)) return metrics_.rejected.Increment();
  params.worker_id = request->worker_id();
  const Instant now = executors_.front()->clock().Now();
  const Instant margin = call->deadline() - config_.poll_deadline_margin;
  params.wait_until = std::min(now + wait, std::max(margin, now));

  WithQueue(
      QueueKey(request->queue()), std::move(call),
      [this, params = std::move(params), margin](const QueuePtr& queue, CallPtr open) mutable {
        const Instant ready = executors_.front()->clock().Now();
        if (params.wait_until <= ready && !queue->HasLoaded() &&
            queue->Describe().counts.waiting > 0) {
          params.wait_until = std::max(ready, std::min(ready + kLoadGrace, margin));
        }
        // The call lives until its lease callback has run, and cancelling comes before that or not
        // at all.
        rpc::ServerCall* raw = open.get();
        const Duration duration = params.duration;
        const matching::Matcher::PollerId poller = queue->Lease(
            std::move(params),
            [this, open = std::move(open), uid = queue->uid(), duration](
                const QueueError& error, const std::vector<GrantedTask>& tasks) mutable {
              if (!error.ok()) return open->Finish(ToRpcStatus(error), std::string());
              if (tasks.empty()) {
                metrics_.empty_polls.Increment();
              } else {
                metrics_.leased.Add(tasks.size());
              }
              open->FinishOk(BuildReply(tasks, uid, duration));
            });
        raw->OnCancel([weak = std::weak_ptr(queue), poller] {
          const std::shared_ptr<QueueRuntime> alive = weak.lock();
          if (alive == nullptr) return;
          QueueRuntime& runtime = *alive;
          runtime.Run([alive, poller](const Status& status) {
            if (status.ok()) alive->CancelLease(poller);
          });
        });
      });
}

}  // namespace millrace::queue
