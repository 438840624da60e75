#include "millrace/queue/queue_service.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "millrace/backlog/metrics.h"
#include "millrace/base/check.h"
#include "millrace/queue/open_call.h"
#include "millrace/queue/queue_name.h"

namespace millrace::queue {
namespace {

constexpr int kInstanceTriesMax = 4;

void FinishWith(std::unique_ptr<rpc::ServerCall> call, const QueueError& error) {
  call->Finish(ToRpcStatus(error), std::string());
}

}  // namespace

QueueError QueueLookupError(const store::PhysicalQueueKey& key, const Status& status) {
  if (status.code() != StatusCode::kNotFound) return QueueError::From(status);
  return {rpc::Code::kNotFound, Reason::kQueueNotFound,
          "no queue \"" + key.persistence_name + "\""};
}

QueueService::QueueService(const QueueConfig& config, std::vector<exec::Executor*> executors,
                           store::AsyncTaskStore& store, Random& random, Log& log, Metrics& metrics)
    : config_(config),
      executors_(std::move(executors)),
      store_(store),
      log_(log),
      backlog_metrics_(
          std::make_unique<backlog::BacklogMetrics>(backlog::BacklogMetrics::Create(metrics))),
      metrics_(metrics),
      owner_watch_(store_, *executors_.front(), config_.backlog.update_interval),
      environment_{config_, store_, owner_watch_, random, *backlog_metrics_, log_},
      strand_(*executors_.front()),
      registry_(
          [this](const store::PhysicalQueueKey& key) -> QueuePtr {
            if (may_load_ && !may_load_(key.persistence_name)) return nullptr;
            const std::size_t slot =
                std::hash<std::string>()(key.persistence_name) % executors_.size();
            return std::make_shared<QueueRuntime>(key, environment_, *executors_[slot]);
          },
          *executors_.front(), config_.idle_unload, log_) {}

QueueService::~QueueService() = default;

void QueueService::Register(rpc::ServiceTable& table) {
  const auto add = [this, &table](const char* method, void (QueueService::*handler)(CallPtr)) {
    table.unary.emplace("/" + std::string(kQueueServiceName) + "/" + method,
                        [this, handler](CallPtr call) { (this->*handler)(std::move(call)); });
  };
  add("Enqueue", &QueueService::Enqueue);
  add("Lease", &QueueService::Lease);
  add("Complete", &QueueService::Complete);
  add("Fail", &QueueService::Fail);
  add("Extend", &QueueService::Extend);
  add("Release", &QueueService::Release);
  add("Peek", &QueueService::Peek);
  add("Describe", &QueueService::Describe);
  add("List", &QueueService::List);
  table.services.emplace_back(kQueueServiceName);
}

void QueueService::Unload(const std::function<bool(const std::string& queue)>& gone, Closure done) {
  registry_.UnloadIf(
      [&gone](const store::PhysicalQueueKey& key) { return gone(key.persistence_name); },
      backlog::UnloadCause::kForced, std::move(done));
}

void QueueService::Stop(Closure done) { registry_.StopAll(std::move(done)); }

std::size_t QueueService::loaded_queues() { return registry_.size(); }

std::vector<QueueService::QueueNumbers> QueueService::Numbers(std::size_t max) {
  const WallTime now = executors_.front()->clock().WallNow();
  std::vector<QueueNumbers> numbers;
  QueueNumbers rest;
  std::size_t count = 0;
  for (const QueuePtr& queue : registry_.Loaded()) {
    const QueueGauges& gauges = queue->gauges();
    const std::int64_t head_ns = gauges.head_create_ns.load(std::memory_order_relaxed);
    const QueueNumbers one{.queue = queue->key().persistence_name,
                           .waiting = gauges.waiting.load(std::memory_order_relaxed),
                           .leased = gauges.leased.load(std::memory_order_relaxed),
                           .dead = gauges.dead.load(std::memory_order_relaxed),
                           .ack_lag = gauges.ack_lag.load(std::memory_order_relaxed),
                           .head_age = head_ns == 0
                                           ? Duration::zero()
                                           : std::max(Duration::zero(), now - WallTime{head_ns})};
    if (++count <= max) {
      numbers.push_back(one);
      continue;
    }
    rest.waiting += one.waiting;
    rest.leased += one.leased;
    rest.dead += one.dead;
    rest.ack_lag = std::max(rest.ack_lag, one.ack_lag);
    rest.head_age = std::max(rest.head_age, one.head_age);
  }
  if (count > max) numbers.push_back(rest);
  return numbers;
}

void QueueService::WithQueue(const store::PhysicalQueueKey& key, CallPtr call, Op op, int tries) {
  std::shared_ptr<QueueRuntime> queue = registry_.GetOrLoad(key);
  if (queue == nullptr) {
    return FinishWith(std::move(call), QueueError::From(Status(StatusCode::kShuttingDown,
                                                               "this server gives its queues "
                                                               "away")));
  }
  QueueRuntime& runtime = *queue;
  runtime.Run([this, queue = std::move(queue), call = std::move(call), op = std::move(op),
               tries](const Status& ready) mutable {
    if (ready.ok()) return op(queue, std::move(call));
    if (ready.code() == StatusCode::kShuttingDown && tries + 1 < kInstanceTriesMax) {
      return WithQueue(store::PhysicalQueueKey(queue->key()), std::move(call), std::move(op),
                       tries + 1);
    }
    FinishWith(std::move(call), QueueError::From(ready));
  });
}

void QueueService::WithExistingQueue(const store::PhysicalQueueKey& key, CallPtr call, Op op) {
  if (registry_.Find(key) != nullptr) return WithQueue(key, std::move(call), std::move(op));
  store_.ReadMetadata(key, strand_,
                      [this, key, call = std::move(call),
                       op = std::move(op)](const Result<store::QueueMetadata>& metadata) mutable {
                        if (!metadata.ok())
                          return FinishWith(std::move(call),
                                            QueueLookupError(key, metadata.status()));
                        WithQueue(key, std::move(call), std::move(op));
                      });
}

}  // namespace millrace::queue
