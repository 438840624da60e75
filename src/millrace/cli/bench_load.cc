#include "millrace/cli/bench_load.h"

#include <algorithm>
#include <utility>

#include "millrace/base/random.h"
#include "millrace/cli/call_error.h"
#include "millrace/cli/methods.h"
#include "millrace/cli/proto_time.h"

namespace millrace::cli {
namespace {

constexpr Duration kErrorPause = std::chrono::milliseconds(10);
constexpr Duration kLease = std::chrono::minutes(5);
constexpr Duration kLeaseWait = std::chrono::seconds(2);

std::string SerializedTasks(int batch, std::size_t payload_bytes) {
  SeededRandom random(
      1);  // Not compressible, as real payloads mostly are after their own compression.
  v1::EnqueueRequest request;
  for (int i = 0; i < batch; ++i) {
    std::string payload(payload_bytes, '\0');
    for (char& c : payload) c = static_cast<char>(random.Next());
    request.add_tasks()->set_payload(std::move(payload));
  }
  return request.SerializeAsString();
}

}  // namespace

BenchLoad::BenchLoad(exec::EventLoop& loop, rpc::Channel& channel, const Options& options,
                     Closure on_end)
    : loop_(loop),
      channel_(channel),
      options_(options),
      on_end_(std::move(on_end)),
      quota_left_(options.tasks_max) {
  tasks_bytes_ = SerializedTasks(options.batch, options.payload_bytes);
  for (int i = 0; i < options.queues; ++i) {
    queue_names_.push_back(options.queue_prefix + std::to_string(i));
  }
  SetDuration(*lease_request_.mutable_lease_duration(), kLease);
  SetDuration(*lease_request_.mutable_wait_time(),
              options.mode == Mode::kDrain ? Duration::zero() : kLeaseWait);
  lease_request_.set_worker_id("bench");
  callers_.resize(static_cast<std::size_t>(options.callers));
  for (int i = 0; i < options.callers; ++i)
    callers_[static_cast<std::size_t>(i)].queue = i % options.queues;
}

void BenchLoad::Start() {
  running_ = options_.callers;
  for (Caller& caller : callers_) BeginRound(caller);
}

void BenchLoad::ClearLatencies() {
  for (LatencyHistogram& histogram : latency_) histogram.Clear();
}

bool BenchLoad::TakeQuota() {
  if (options_.tasks_max == 0) return true;
  if (quota_left_ <= 0) return false;
  quota_left_ -= options_.batch;
  return true;
}

void BenchLoad::BeginRound(Caller& caller) {
  const bool drained = options_.mode == Mode::kDrain && caller.empty_queues >= options_.queues;
  if (stopping_ || drained || (options_.mode != Mode::kDrain && !TakeQuota())) {
    if (--running_ == 0) loop_.Post(std::move(on_end_));
    return;
  }
  caller.round_begun = loop_.clock().Now();
  if (options_.mode == Mode::kDrain) {
    caller.owed = options_.batch;
    Lease(caller);
  } else {
    Enqueue(caller);
  }
}

void BenchLoad::EndRound(Caller& caller) {
  latency_[kWholeCycle].Add(loop_.clock().Now() - caller.round_begun);
  // With fewer queues than callers each stays with its own, and all are used alike.
  if (options_.mode != Mode::kDrain && options_.queues > options_.callers) {
    caller.queue = (caller.queue + options_.callers) % options_.queues;
  }
  BeginRound(caller);
}

template <typename Done>
void BenchLoad::Call(Caller& caller, Operation operation, std::string_view method,
                     std::string request, void (BenchLoad::*again)(Caller&), Done done) {
  ++counts_.calls;
  caller.call_begun = loop_.clock().Now();
  rpc::CallOptions options;
  options.deadline = caller.call_begun + options_.call_timeout;
  channel_.Call(
      method, std::move(request), std::move(options),
      [this, &caller, operation, again, done](rpc::CallResult result) {
        if (result.status.ok()) {
          latency_[operation].Add(loop_.clock().Now() - caller.call_begun);
          done(result.response);
          return;
        }
        const CallError error = ReadCallError(result);
        CountError(error.reason.empty() ? std::string(rpc::CodeName(error.code)) : error.reason);
        loop_.PostAt(loop_.clock().Now() + kErrorPause, [this, &caller, again] {
          if (stopping_) {
            BeginRound(caller);  // Ends it.
          } else {
            (this->*again)(caller);
          }
        });
      });
}

void BenchLoad::Enqueue(Caller& caller) {
  const std::string& queue = queue_names_[static_cast<std::size_t>(caller.queue)];
  std::string request;
  request.reserve(tasks_bytes_.size() + queue.size() + 2);
  request += '\x0A';  // Field 1, the queue's name: length-delimited, and shorter than 128 bytes.
  request += static_cast<char>(queue.size());
  request += queue;
  request += tasks_bytes_;
  Call(caller, kEnqueueCall, methods::kEnqueue, std::move(request), &BenchLoad::Enqueue,
       [this, &caller](const std::string& response) {
         int stored = 0;
         if (enqueue_response_.ParseFromString(response)) {
           for (const v1::EnqueueResult& result : enqueue_response_.results()) {
             if (result.has_error()) {
               CountError(result.error().reason());
             } else {
               ++stored;
             }
           }
         }
         counts_.enqueued += stored;
         caller.owed = stored;
         if (options_.mode == Mode::kEnqueue || stored == 0) {
           EndRound(caller);
         } else {
           Lease(caller);
         }
       });
}

void BenchLoad::Lease(Caller& caller) {
  lease_request_.set_queue(queue_names_[static_cast<std::size_t>(caller.queue)]);
  lease_request_.set_max_tasks(caller.owed);
  Call(caller, kLeaseCall, methods::kLease, lease_request_.SerializeAsString(), &BenchLoad::Lease,
       [this, &caller](const std::string& response) { OnLeased(caller, response); });
}

void BenchLoad::OnLeased(Caller& caller, const std::string& response) {
  if (!lease_response_.ParseFromString(response)) CountError("UNREADABLE");
  if (lease_response_.tasks().empty()) {
    if (options_.mode == Mode::kDrain) {
      ++caller.empty_queues;
      caller.queue = (caller.queue + 1) % options_.queues;
      BeginRound(caller);
    } else if (stopping_) {
      EndRound(caller);
    } else {
      Lease(caller);
    }
    return;
  }
  caller.empty_queues = 0;
  caller.complete.set_queue(queue_names_[static_cast<std::size_t>(caller.queue)]);
  caller.complete.clear_lease_tokens();
  for (v1::LeasedTask& task : *lease_response_.mutable_tasks()) {
    caller.complete.add_lease_tokens()->swap(*task.mutable_lease_token());
  }
  Complete(caller);
}

void BenchLoad::Complete(Caller& caller) {
  Call(caller, kCompleteCall, methods::kComplete, caller.complete.SerializeAsString(),
       &BenchLoad::Complete, [this, &caller](const std::string& response) {
         if (complete_response_.ParseFromString(response)) {
           for (const v1::ItemResult& result : complete_response_.results()) {
             if (result.has_error()) {
               CountError(result.error().reason());
             } else {
               ++counts_.completed;
             }
           }
         }
         caller.owed -= caller.complete.lease_tokens_size();
         if (options_.mode == Mode::kDrain || caller.owed <= 0) {
           EndRound(caller);
         } else {
           Lease(caller);
         }
       });
}

}  // namespace millrace::cli
