#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/mutex.h"
#include "millrace/server/application.h"
#include "millrace/store/memory/memory_task_store.h"

// Parts of a server for its own tests: a store whose health a test sets, and an application that
// notes what happens.
namespace millrace::server {

// What happened, in order. Thread: any.
class Events {
 public:
  void Add(const std::string& event) {
    MutexLock lock(mutex_);
    events_.push_back(event);
  }
  [[nodiscard]] std::vector<std::string> Get() const {
    MutexLock lock(mutex_);
    return events_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> events_ MR_GUARDED_BY(mutex_);
};

// Shared between a test and the store inside its server.
class HealthSwitch {
 public:
  void Set(Status health) {
    MutexLock lock(mutex_);
    health_ = std::move(health);
  }
  [[nodiscard]] Status Get() const {
    MutexLock lock(mutex_);
    return health_;
  }

 private:
  mutable Mutex mutex_;
  Status health_ MR_GUARDED_BY(mutex_);
};

class SwitchedStore final : public store::TaskStore {
 public:
  SwitchedStore(const HealthSwitch& health, Events& events) : health_(health), events_(events) {}
  ~SwitchedStore() override { events_.Add("store closed"); }

  [[nodiscard]] store::StoreTraits traits() const override { return inner_.traits(); }
  std::vector<Status> Commit(std::span<const store::QueueWrite> writes) override {
    return inner_.Commit(writes);
  }
  Result<store::QueueMetadata> ReadMetadata(const store::PhysicalQueueKey& queue) override {
    return inner_.ReadMetadata(queue);
  }
  Result<store::TaskPage> ReadTasks(const store::PhysicalQueueKey& queue, store::Subqueue subqueue,
                                    store::TaskLevel from, store::TaskLevel through,
                                    std::size_t limit, std::size_t max_bytes) override {
    return inner_.ReadTasks(queue, subqueue, from, through, limit, max_bytes);
  }
  Result<std::optional<std::int64_t>> DeleteTasksThrough(const store::PhysicalQueueKey& queue,
                                                         store::Subqueue subqueue,
                                                         store::TaskLevel through,
                                                         std::size_t limit) override {
    return inner_.DeleteTasksThrough(queue, subqueue, through, limit);
  }
  Result<store::SidePage> ReadSideRows(const store::PhysicalQueueKey& queue,
                                       std::string_view prefix, std::string_view after,
                                       std::size_t limit) override {
    return inner_.ReadSideRows(queue, prefix, after, limit);
  }
  Result<store::QueuePage> ListQueues(std::string_view page_token, std::size_t limit) override {
    return inner_.ListQueues(page_token, limit);
  }
  Status DeleteQueue(const store::PhysicalQueueKey& queue, RangeId expected_range_id) override {
    return inner_.DeleteQueue(queue, expected_range_id);
  }
  Status Health() override { return health_.Get(); }

 private:
  const HealthSwitch& health_;
  Events& events_;
  store::MemoryTaskStore inner_;
};

// Serves /test.Echo/Call, and /test.Echo/Wait, which answers when draining begins.
class EchoApplication final : public Application {
 public:
  explicit EchoApplication(Events& events) : events_(events) {}
  ~EchoApplication() override { events_.Add("application gone"); }

  rpc::ServiceTable Services() override {
    rpc::ServiceTable table;
    table.services.push_back("test.Echo");
    table.unary.emplace("/test.Echo/Call", [](std::unique_ptr<rpc::ServerCall> call) {
      std::string copy(call->request());
      call->FinishOk(std::move(copy));
    });
    table.unary.emplace("/test.Echo/Wait", [this](std::unique_ptr<rpc::ServerCall> call) {
      {
        MutexLock lock(mutex_);
        if (!draining_) {
          waiting_.push_back(std::move(call));
        }
      }
      if (call != nullptr) call->FinishOk("too late");
      events_.Add("call waits");
    });
    return table;
  }

  void BeginDrain() override {
    events_.Add("drain");
    std::vector<std::unique_ptr<rpc::ServerCall>> waiting;
    {
      MutexLock lock(mutex_);
      draining_ = true;
      waiting.swap(waiting_);
    }
    for (auto& call : waiting) call->FinishOk("drained");
  }

  void Stop(Closure done) override {
    events_.Add("stop");
    done();
  }

 private:
  Events& events_;
  Mutex mutex_;
  bool draining_ MR_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<rpc::ServerCall>> waiting_ MR_GUARDED_BY(mutex_);
};

inline ServerParts TestParts(const HealthSwitch& health, Events& events) {
  ServerParts parts;
  parts.application = [&events](const ApplicationEnvironment&) {
    return std::make_unique<EchoApplication>(events);
  };
  parts.store = [&health,
                 &events](const StoreEnvironment&) -> Result<std::unique_ptr<store::TaskStore>> {
    return std::unique_ptr<store::TaskStore>(std::make_unique<SwitchedStore>(health, events));
  };
  return parts;
}

}  // namespace millrace::server
