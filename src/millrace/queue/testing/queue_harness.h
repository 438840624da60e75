#pragma once

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <gtest/gtest.h>
#include <millrace/v1/queue.pb.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/exec/manual_executor.h"
#include "millrace/queue/queue_service.h"
#include "millrace/queue/request_checks.h"
#include "millrace/sim/fault_plan.h"
#include "millrace/sim/sim_store.h"
#include "millrace/store/memory/memory_task_store.h"

// The queue service on a manual clock, as its tests drive it: calls without sockets, a durable
// store that outlives the server.
namespace millrace::queue {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// What came of a call.
struct Ended {
  bool done = false;
  rpc::RpcStatus status;
  std::string response;
  Closure on_cancel;

  [[nodiscard]] std::string reason() const {
    google::rpc::Status rich;
    google::rpc::ErrorInfo info;
    if (!rich.ParseFromString(status.details)) return {};
    for (const auto& detail : rich.details()) {
      if (detail.UnpackTo(&info)) return info.reason();
    }
    return {};
  }
};

class FakeCall final : public rpc::ServerCall {
 public:
  FakeCall(std::string request, Instant deadline, std::shared_ptr<Ended> ended)
      : request_(std::move(request)), deadline_(deadline), ended_(std::move(ended)) {}
  ~FakeCall() override { EXPECT_TRUE(ended_->done) << "a call was dropped unanswered"; }

  [[nodiscard]] std::string_view request() const override { return request_; }
  [[nodiscard]] const rpc::Metadata& metadata() const override { return metadata_; }
  [[nodiscard]] Instant deadline() const override { return deadline_; }
  [[nodiscard]] std::string_view peer() const override { return "test"; }
  void OnCancel(Closure on_cancel) override { ended_->on_cancel = std::move(on_cancel); }
  [[nodiscard]] bool cancelled() const override { return false; }
  void AddTrailer(std::string, std::string) override {}
  void Finish(rpc::RpcStatus status, std::string response) override {
    EXPECT_FALSE(ended_->done) << "answered twice";
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

// One server process on a durable store that outlives it.
class Host {
 public:
  Host(exec::ManualExecutor& executor, store::TaskStore& durable, const QueueConfig& config,
       std::unique_ptr<sim::FaultPlan> plan = std::make_unique<sim::NoFaults>(),
       bool exclusive = true)
      : executor_(executor), plan_(std::move(plan)), store_(executor, durable, *plan_) {
    store_.set_traits({.exclusive = exclusive, .counts_deletes = true});
    service_ = std::make_unique<QueueService>(config, std::vector<exec::Executor*>{&executor},
                                              store_, random_, log_, NullMetrics());
    service_->Register(table_);
  }
  ~Host() { Stop(); }

  std::shared_ptr<Ended> Start(const std::string& method, const google::protobuf::Message& request,
                               Instant deadline = Instant::Max()) {
    return StartRaw(method, request.SerializeAsString(), deadline);
  }
  std::shared_ptr<Ended> StartRaw(const std::string& method, std::string bytes,
                                  Instant deadline = Instant::Max()) {
    auto ended = std::make_shared<Ended>();
    auto& handler = table_.unary.at("/" + std::string(kQueueServiceName) + "/" + method);
    handler(std::make_unique<FakeCall>(std::move(bytes), deadline, ended));
    executor_.RunUntilIdle();
    return ended;
  }
  void Stop() {
    if (service_ == nullptr) return;
    bool stopped = false;
    service_->Stop([&] { stopped = true; });
    for (int i = 0; i < 100 && !stopped; ++i) executor_.AdvanceBy(milliseconds(100));
    EXPECT_TRUE(stopped);
    executor_.RunUntilIdle();
    service_ = nullptr;
  }
  // The process dies: what had not reached the store never does.
  void Crash() {
    store_.Crash(random_);
    Stop();
  }
  sim::SimStore& store() { return store_; }
  QueueService& service() { return *service_; }

 private:
  exec::ManualExecutor& executor_;
  const std::unique_ptr<sim::FaultPlan> plan_;
  sim::SimStore store_;
  SeededRandom random_{77};
  NullLog log_;
  std::unique_ptr<QueueService> service_;
  rpc::ServiceTable table_;
};

class QueueServiceTest : public ::testing::Test {
 protected:
  QueueServiceTest() { Restart(); }

  void Restart() {
    host_ = nullptr;
    host_ = std::make_unique<Host>(executor_, durable_, config_);
  }
  void CrashAndRestart() {
    host_->Crash();
    Restart();
  }

  template <typename Response, typename Request>
  Response Call(const std::string& method, const Request& request) {
    const auto ended = host_->Start(method, request);
    executor_.AdvanceBy(milliseconds(50));
    EXPECT_TRUE(ended->done) << method;
    EXPECT_TRUE(ended->status.ok()) << method << ": " << ended->status.message;
    Response response;
    EXPECT_TRUE(response.ParseFromString(ended->response));
    return response;
  }
  std::vector<std::string> Enqueue(const std::vector<std::string>& payloads, int max_attempts = 0,
                                   Duration ttl = Duration::zero()) {
    v1::EnqueueRequest request;
    request.set_queue("q");
    for (const std::string& payload : payloads) {
      v1::NewTask* task = request.add_tasks();
      task->set_payload(payload);
      task->set_max_attempts(max_attempts);
      if (ttl > Duration::zero()) ToProto(ttl, task->mutable_time_to_live());
    }
    std::vector<std::string> ids;
    const auto response = Call<v1::EnqueueResponse>("Enqueue", request);
    for (const auto& result : response.results()) {
      EXPECT_FALSE(result.has_error()) << result.error().message();
      ids.push_back(result.task_id());
    }
    return ids;
  }
  static v1::LeaseRequest LeaseRequest(int max, int lease_seconds, int wait_seconds = 0) {
    v1::LeaseRequest request;
    request.set_queue("q");
    request.set_max_tasks(max);
    request.set_worker_id("worker");
    request.mutable_lease_duration()->set_seconds(lease_seconds);
    request.mutable_wait_time()->set_seconds(wait_seconds);
    return request;
  }
  std::vector<v1::LeasedTask> Lease(int max, int lease_seconds = 30) {
    const auto response = Call<v1::LeaseResponse>("Lease", LeaseRequest(max, lease_seconds));
    return {response.tasks().begin(), response.tasks().end()};
  }
  // "" = ok, else the item's reason.
  std::string Complete(const std::string& token) {
    v1::CompleteRequest request;
    request.set_queue("q");
    request.add_lease_tokens(token);
    return Call<v1::CompleteResponse>("Complete", request).results(0).error().reason();
  }
  std::string Fail(const std::string& token, bool permanent = false) {
    v1::FailRequest request;
    request.set_queue("q");
    v1::FailItem* item = request.add_items();
    item->set_lease_token(token);
    item->set_error_message("it broke");
    item->set_permanent(permanent);
    return Call<v1::FailResponse>("Fail", request).results(0).error().reason();
  }
  std::string Release(const std::string& token) {
    v1::ReleaseRequest request;
    request.set_queue("q");
    request.add_lease_tokens(token);
    return Call<v1::ReleaseResponse>("Release", request).results(0).error().reason();
  }
  std::string Extend(const std::string& token, int lease_seconds) {
    v1::ExtendRequest request;
    request.set_queue("q");
    request.add_lease_tokens(token);
    request.mutable_lease_duration()->set_seconds(lease_seconds);
    return Call<v1::ExtendResponse>("Extend", request).results(0).error().reason();
  }
  v1::QueueInfo Describe(bool count_rows = true) {
    v1::DescribeRequest request;
    request.set_queue("q");
    request.set_count_rows(count_rows);
    v1::QueueInfo info = Call<v1::DescribeResponse>("Describe", request).queue();
    const v1::QueueCounts& c = info.counts();
    EXPECT_EQ(c.accepted(), c.done() + c.waiting() + c.leased() + c.dead() + c.dropped());
    if (count_rows) {
      const v1::RowCounts& r = info.row_counts();
      EXPECT_EQ(r.accepted(), r.done() + r.task_rows() + r.dead() + r.dropped());
      EXPECT_EQ(r.dead_rows(), r.dead_total());
    }
    return info;
  }
  std::vector<v1::Task> Peek(v1::TaskState state, int page_size = 0) {
    v1::PeekRequest request;
    request.set_queue("q");
    request.set_state(state);
    request.set_page_size(page_size);
    std::vector<v1::Task> tasks;
    do {
      const auto response = Call<v1::PeekResponse>("Peek", request);
      tasks.insert(tasks.end(), response.tasks().begin(), response.tasks().end());
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    return tasks;
  }

  QueueConfig config_;
  exec::ManualExecutor executor_;
  store::MemoryTaskStore durable_;
  std::unique_ptr<Host> host_;
};

}  // namespace millrace::queue
