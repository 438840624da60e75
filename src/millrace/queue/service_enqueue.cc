// QueueService::Enqueue.
#include <millrace/v1/queue.pb.h>

#include <utility>

#include "millrace/queue/open_call.h"
#include "millrace/queue/queue_service.h"

namespace millrace::queue {
namespace {

constexpr std::int32_t kMaxAttemptsLimit = 1'000'000;
// Ten years: longer is as good as for ever, and stays far from the ends of the clock.
constexpr Duration kTimeToLiveMax = std::chrono::hours(24 * 366 * 10);

// What is wrong with one task; ok when nothing is.
QueueError CheckTask(const v1::NewTask& task, const QueueConfig& config) {
  if (task.payload().size() > config.payload_bytes_max) {
    return {rpc::Code::kInvalidArgument, Reason::kPayloadTooLarge,
            "payload of " + std::to_string(task.payload().size()) + " bytes; at most " +
                std::to_string(config.payload_bytes_max) + " are allowed"};
  }
  std::size_t header_bytes = 0;
  for (const auto& [name, value] : task.headers()) {
    if (name.empty())
      return {rpc::Code::kInvalidArgument, Reason::kNone, "a header without a name"};
    header_bytes += name.size() + value.size();
  }
  if (static_cast<std::size_t>(task.headers_size()) > config.header_count_max ||
      header_bytes > config.header_bytes_max) {
    return {rpc::Code::kInvalidArgument, Reason::kPayloadTooLarge,
            "at most " + std::to_string(config.header_count_max) + " headers of " +
                std::to_string(config.header_bytes_max) + " bytes in all are allowed"};
  }
  if (task.max_attempts() < 0 || task.max_attempts() > kMaxAttemptsLimit) {
    return {rpc::Code::kInvalidArgument, Reason::kNone,
            "max_attempts: 0 to " + std::to_string(kMaxAttemptsLimit) + " is allowed"};
  }
  if (task.has_time_to_live()) {
    const std::optional<Duration> ttl = FromProto(task.time_to_live());
    if (!ttl || *ttl <= Duration::zero() || *ttl > kTimeToLiveMax) {
      return {rpc::Code::kInvalidArgument, Reason::kNone,
              "time_to_live: more than 0 and up to 10 years is allowed"};
    }
  }
  return {};
}

backlog::NewTask ToNewTask(const v1::NewTask& task, WallTime now, const QueueConfig& config) {
  TaskRecord record;
  record.max_attempts = task.max_attempts() > 0 ? task.max_attempts() : config.max_attempts_default;
  record.payload = task.payload();
  for (const auto& [name, value] : task.headers()) record.headers.emplace_back(name, value);
  backlog::NewTask out;
  out.create_time = now;
  if (task.has_time_to_live()) out.expiry_time = now + *FromProto(task.time_to_live());
  out.payload = EncodeTaskRecord(record);
  return out;
}

}  // namespace

void QueueService::Enqueue(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<v1::EnqueueRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  FieldErrors errors;
  CheckQueue(request->queue(), errors);
  CheckItemCount("tasks", request->tasks_size(), config_.items_per_request_max, errors);
  if (RejectIfBad(errors, call)) return metrics_.rejected.Increment();

  const WallTime now = executors_.front()->clock().WallNow();
  std::vector<backlog::NewTask> tasks;
  tasks.reserve(static_cast<std::size_t>(request->tasks_size()));
  std::vector<QueueError> refused;  // One per task once any was refused; empty while all are good.
  for (int i = 0; i < request->tasks_size(); ++i) {
    QueueError error = CheckTask(request->tasks(i), config_);
    if (error.ok()) {
      tasks.push_back(ToNewTask(request->tasks(i), now, config_));
    } else {
      refused.resize(static_cast<std::size_t>(request->tasks_size()));
      refused[static_cast<std::size_t>(i)] = std::move(error);
    }
  }
  const auto reply = [this](CallPtr open, const std::vector<QueueError>& bad, std::uint64_t uid,
                            std::size_t count, const std::vector<store::TaskKey>& keys) {
    v1::EnqueueResponse response;
    std::size_t next = 0;
    for (std::size_t i = 0; i < count; ++i) {
      v1::EnqueueResult* result = response.add_results();
      if (!bad.empty() && !bad[i].ok()) {
        SetItemError(bad[i], result);
      } else {
        result->set_task_id(PublicTaskId(uid, keys[next++].level.id));
      }
    }
    metrics_.enqueued.Add(next);
    open->FinishOk(response.SerializeAsString());
  };
  const auto count = static_cast<std::size_t>(request->tasks_size());
  if (tasks.empty()) return reply(std::move(call), refused, 0, count, {});

  WithQueue(QueueKey(request->queue()), std::move(call),
            [tasks = std::move(tasks), refused = std::move(refused), count, reply](
                const QueuePtr& queue, CallPtr open) mutable {
              queue->Enqueue(std::move(tasks),
                             [open = std::move(open), refused = std::move(refused), count, reply,
                              uid = queue->uid()](const QueueError& error,
                                                  const std::vector<store::TaskKey>& keys) mutable {
                               if (!error.ok())
                                 return open->Finish(ToRpcStatus(error), std::string());
                               reply(std::move(open), refused, uid, count, keys);
                             });
            });
}

}  // namespace millrace::queue
