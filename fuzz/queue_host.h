#pragma once

#include <google/protobuf/stubs/logging.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_input.h"
#include "millrace/exec/manual_executor.h"
#include "millrace/queue/queue_service.h"
#include "millrace/sim/fault_plan.h"
#include "millrace/sim/sim_store.h"
#include "millrace/store/memory/memory_task_store.h"

namespace millrace::fuzz {

// What came of a call.
struct Ended {
  bool done = false;
  rpc::RpcStatus status;
  std::string response;
  Closure on_cancel;
};

class FuzzCall final : public rpc::ServerCall {
 public:
  FuzzCall(std::string request, Instant deadline, std::shared_ptr<Ended> ended)
      : request_(std::move(request)), deadline_(deadline), ended_(std::move(ended)) {}
  ~FuzzCall() override { FUZZ_CHECK(ended_->done); }

  [[nodiscard]] std::string_view request() const override { return request_; }
  [[nodiscard]] const rpc::Metadata& metadata() const override { return metadata_; }
  [[nodiscard]] Instant deadline() const override { return deadline_; }
  [[nodiscard]] std::string_view peer() const override { return "fuzz"; }
  void OnCancel(Closure on_cancel) override { ended_->on_cancel = std::move(on_cancel); }
  [[nodiscard]] bool cancelled() const override { return false; }
  void AddTrailer(std::string, std::string) override {}
  void Finish(rpc::RpcStatus status, std::string response) override {
    FUZZ_CHECK(!ended_->done);
    ended_->done = true;
    ended_->status = std::move(status);
    ended_->response = std::move(response);
  }

 private:
  std::string request_;
  Instant deadline_;
  std::shared_ptr<Ended> ended_;
  rpc::Metadata metadata_;
};

// The queue service over a store in memory, on an executor whose time only the target moves.
// Invariants: at its end every call was answered exactly once.
class QueueHost {
 public:
  explicit QueueHost(store::TaskStore& durable, const queue::QueueConfig& config = {})
      : store_(executor_, durable, plan_) {
    store_.set_traits({.exclusive = true, .counts_deletes = true});
    service_ = std::make_unique<queue::QueueService>(
        config, std::vector<exec::Executor*>{&executor_}, store_, random_, log_, NullMetrics());
    service_->Register(table_);
    // It would say of every string what is wrong with it.
    google::protobuf::SetLogHandler(nullptr);
  }
  ~QueueHost() { Stop(); }
  QueueHost(const QueueHost&) = delete;
  QueueHost& operator=(const QueueHost&) = delete;

  std::shared_ptr<Ended> Call(const std::string& method, std::string request,
                              Instant deadline = Instant::Max()) {
    auto ended = std::make_shared<Ended>();
    calls_.push_back(ended);
    auto& handler = table_.unary.at("/" + std::string(queue::kQueueServiceName) + "/" + method);
    handler(std::make_unique<FuzzCall>(std::move(request), deadline, ended));
    executor_.RunUntilIdle();
    return ended;
  }
  void Advance(Duration time) { executor_.AdvanceBy(time); }
  exec::ManualExecutor& executor() { return executor_; }

  void Stop() {
    if (service_ == nullptr) return;
    bool stopped = false;
    service_->Stop([&stopped] { stopped = true; });
    for (int i = 0; i < 1'000 && !stopped; ++i) executor_.AdvanceBy(std::chrono::milliseconds(100));
    FUZZ_CHECK(stopped);
    executor_.RunUntilIdle();
    service_ = nullptr;
    for (const auto& call : calls_) FUZZ_CHECK(call->done);
  }

 private:
  exec::ManualExecutor executor_;
  sim::NoFaults plan_;
  sim::SimStore store_;
  SeededRandom random_{77};
  NullLog log_;
  std::unique_ptr<queue::QueueService> service_;
  rpc::ServiceTable table_;
  std::vector<std::shared_ptr<Ended>> calls_;
};

}  // namespace millrace::fuzz
