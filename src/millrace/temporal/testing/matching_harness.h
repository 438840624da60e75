#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/exec/manual_executor.h"
#include "millrace/sim/fault_plan.h"
#include "millrace/sim/sim_store.h"
#include "millrace/store/memory/memory_task_store.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/matching_service.h"
#include "millrace/temporal/poll_reply.h"
#include "millrace/temporal/proto_names.h"
#include "temporal/server/api/matchingservice/v1/request_response.pb.h"
#include "temporal/server/api/persistence/v1/task_queues.pb.h"

// The matching service on a manual clock, with a history service that does what the test says.
namespace millrace::temporal {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

inline constexpr char kNamespace[] = "0a1b2c3d-0000-4000-8000-000000000001";

// A history service. Starts are answered at once unless held back.
class FakeHistory final : public History {
 public:
  explicit FakeHistory(exec::Executor& executor) : executor_(executor) {}

  // What the next starts end with; ok when there is none left. `for_ever` after those.
  std::deque<rpc::RpcStatus> next;
  rpc::RpcStatus for_ever;
  bool hold = false;
  std::vector<StartRequest> started;  // As they came.

  void StartTask(StartRequest request, UniqueFunction<void(StartResult)> done) override {
    started.push_back(request);
    persistence_pb::TaskInfo task;
    EXPECT_TRUE(task.ParseFromString(request.task));
    StartResult result;
    result.status = for_ever;
    if (!next.empty()) {
      result.status = next.front();
      next.pop_front();
    }
    result.outcome = ClassifyStart(result.status);
    if (result.status.ok()) {
      matching_pb::PollWorkflowTaskQueueResponse response;
      response.set_task_token("token of " + task.workflow_id());
      response.mutable_workflow_execution()->set_workflow_id(task.workflow_id());
      result.response = response.SerializeAsString();
    }
    held_.push_back([done = std::move(done), result = std::move(result)]() mutable {
      done(std::move(result));
    });
    if (!hold) Release();
  }
  void IsTaskValid(TaskType, std::string, Instant, UniqueFunction<void(ValidResult)>) override {
    ADD_FAILURE() << "not called by this service";
  }
  void StartQuery(QueryStart, UniqueFunction<void(QueryStartResult)>) override {
    ADD_FAILURE() << "not called by this service";
  }
  void Release() {
    for (Closure& answer : std::exchange(held_, {})) executor_.Post(std::move(answer));
  }
  [[nodiscard]] std::size_t held() const { return held_.size(); }

 private:
  exec::Executor& executor_;
  std::vector<Closure> held_;
};

// What came of a call.
struct Ended {
  bool done = false;
  rpc::RpcStatus status;
  std::string response;
  Closure on_cancel;

  [[nodiscard]] ErrorKind kind() const { return ReadServiceError(status).kind; }
  [[nodiscard]] bool empty() const { return done && status.ok() && response.empty(); }
  // Of the task that a poll got; "" = none.
  [[nodiscard]] std::string workflow() const {
    matching_pb::PollWorkflowTaskQueueResponse reply;
    EXPECT_TRUE(reply.ParseFromString(response));
    return reply.workflow_execution().workflow_id();
  }
  [[nodiscard]] std::int64_t hint() const {
    matching_pb::PollWorkflowTaskQueueResponse reply;
    EXPECT_TRUE(reply.ParseFromString(response));
    return reply.backlog_count_hint();
  }
};

class FakeCall final : public rpc::ServerCall {
 public:
  // `vanished`: the client is gone by the time anybody asks.
  FakeCall(std::string request, Instant deadline, bool vanished, std::shared_ptr<Ended> ended)
      : request_(std::move(request)),
        deadline_(deadline),
        vanished_(vanished),
        ended_(std::move(ended)) {}
  ~FakeCall() override { EXPECT_TRUE(ended_->done) << "a call was dropped unanswered"; }

  [[nodiscard]] std::string_view request() const override { return request_; }
  [[nodiscard]] const rpc::Metadata& metadata() const override { return metadata_; }
  [[nodiscard]] Instant deadline() const override { return deadline_; }
  [[nodiscard]] std::string_view peer() const override { return "test"; }
  void OnCancel(Closure on_cancel) override {
    if (vanished_) return on_cancel();
    if (!ended_->done) ended_->on_cancel = std::move(on_cancel);
  }
  [[nodiscard]] bool cancelled() const override { return false; }
  void AddTrailer(std::string, std::string) override {}
  void Finish(rpc::RpcStatus status, std::string response) override {
    EXPECT_FALSE(ended_->done) << "answered twice";
    ended_->done = true;
    ended_->status = std::move(status);
    ended_->response = std::move(response);
    ended_->on_cancel = {};
  }

 private:
  std::string request_;
  Instant deadline_;
  const bool vanished_;
  std::shared_ptr<Ended> ended_;
  rpc::Metadata metadata_;
};

// One matching host on a durable store that outlives it.
class MatchingHost {
 public:
  MatchingHost(exec::ManualExecutor& executor, store::TaskStore& durable, History& history,
               const MatchingConfig& config, sim::FaultPlan& plan, Metrics& metrics = NullMetrics())
      : executor_(executor),
        store_(executor, durable, plan),
        random_(static_cast<std::uint64_t>(executor.clock().Now().ns)) {
    store_.set_traits({.exclusive = false, .counts_deletes = true});
    service_ = std::make_unique<MatchingService>(config, "me:7630",
                                                 std::vector<exec::Executor*>{&executor}, store_,
                                                 history, random_, log_, metrics);
    service_->Register(table_);
  }
  ~MatchingHost() { Stop(); }

  std::shared_ptr<Ended> StartRaw(const std::string& method, std::string bytes,
                                  Duration timeout = Duration::max(), bool vanished = false) {
    auto ended = std::make_shared<Ended>();
    const Instant deadline =
        timeout == Duration::max() ? Instant::Max() : executor_.clock().Now() + timeout;
    auto& handler = table_.unary.at("/" + std::string(kMatchingServiceName) + "/" + method);
    handler(std::make_unique<FakeCall>(std::move(bytes), deadline, vanished, ended));
    executor_.RunUntilIdle();
    return ended;
  }
  void BeginStop() {
    stopping_ = true;
    service_->Stop([this] { stopped_ = true; });
  }
  [[nodiscard]] bool stopped() const { return stopped_; }
  void Stop() {
    if (service_ == nullptr) return;
    if (!stopping_) BeginStop();
    for (int i = 0; i < 300 && !stopped_; ++i) executor_.AdvanceBy(milliseconds(100));
    EXPECT_TRUE(stopped_);
    executor_.RunUntilIdle();
    service_ = nullptr;
  }
  void Crash() {
    store_.Crash(random_);
    Stop();
  }
  [[nodiscard]] const rpc::ServiceTable& table() const { return table_; }
  sim::SimStore& store() { return store_; }
  MatchingService& service() { return *service_; }

 private:
  exec::ManualExecutor& executor_;
  sim::SimStore store_;
  SeededRandom random_;
  NullLog log_;
  std::unique_ptr<MatchingService> service_;
  rpc::ServiceTable table_;
  bool stopping_ = false;
  bool stopped_ = false;
};

class MatchingTest : public ::testing::Test {
 protected:
  MatchingTest() { Restart(); }

  void Restart() {
    host_ = nullptr;
    host_ = std::make_unique<MatchingHost>(executor_, durable_, history_, config_, *plan_);
  }
  void CrashAndRestart() {
    host_->Crash();
    Restart();
  }

  static taskqueue_pb::TaskQueue Queue(const std::string& name) {
    taskqueue_pb::TaskQueue queue;
    queue.set_name(name);
    queue.set_kind(enums_pb::TASK_QUEUE_KIND_NORMAL);
    return queue;
  }
  static taskqueue_pb::TaskQueue Sticky(const std::string& name, const std::string& normal = "q") {
    taskqueue_pb::TaskQueue queue;
    queue.set_name(name);
    queue.set_kind(enums_pb::TASK_QUEUE_KIND_STICKY);
    queue.set_normal_name(normal);
    return queue;
  }
  static matching_pb::AddWorkflowTaskRequest AddRequest(const std::string& workflow,
                                                        const taskqueue_pb::TaskQueue& queue) {
    matching_pb::AddWorkflowTaskRequest request;
    request.set_namespace_id(kNamespace);
    request.mutable_execution()->set_workflow_id(workflow);
    request.mutable_execution()->set_run_id("run");
    *request.mutable_task_queue() = queue;
    request.set_scheduled_event_id(2);
    return request;
  }
  std::shared_ptr<Ended> Add(const std::string& workflow,
                             const taskqueue_pb::TaskQueue& queue = Queue("q"),
                             Duration life = Duration::zero()) {
    auto request = AddRequest(workflow, queue);
    request.mutable_schedule_to_start_timeout()->set_seconds(life.count() / 1'000'000'000);
    return host_->StartRaw("AddWorkflowTask", request.SerializeAsString(), seconds(10));
  }
  // Adds and lets the store work.
  void MustAdd(const std::string& workflow, const taskqueue_pb::TaskQueue& queue = Queue("q"),
               Duration life = Duration::zero()) {
    const auto ended = Add(workflow, queue, life);
    executor_.AdvanceBy(milliseconds(10));
    ASSERT_TRUE(ended->done) << workflow;
    ASSERT_TRUE(ended->status.ok()) << workflow << ": " << ended->status.message;
  }
  struct PollOptions {
    std::string identity = "worker";
    std::string worker_key = {};
    std::string poller_id = {};
    Duration timeout = seconds(70);
    bool no_wait = false;
    bool vanished = false;
  };
  std::shared_ptr<Ended> Poll(const taskqueue_pb::TaskQueue& queue, const PollOptions& options) {
    matching_pb::PollWorkflowTaskQueueRequest request;
    request.set_namespace_id(kNamespace);
    request.set_poller_id(options.poller_id);
    auto* poll = request.mutable_poll_request();
    poll->set_namespace_("space");
    *poll->mutable_task_queue() = queue;
    poll->set_identity(options.identity);
    poll->set_worker_instance_key(options.worker_key);
    request.mutable_conditions()->set_no_wait(options.no_wait);
    return host_->StartRaw("PollWorkflowTaskQueue", request.SerializeAsString(), options.timeout,
                           options.vanished);
  }
  std::shared_ptr<Ended> Poll() { return Poll(Queue("q"), {}); }
  // Polls once and gives the workflow of the task, "" when none came.
  std::string Take(const taskqueue_pb::TaskQueue& queue = Queue("q")) {
    const auto poll = Poll(queue, {.timeout = seconds(3)});
    for (int i = 0; i < 40 && !poll->done; ++i) executor_.AdvanceBy(milliseconds(100));
    EXPECT_TRUE(poll->done);
    EXPECT_TRUE(poll->status.ok()) << poll->status.message;
    return poll->workflow();
  }
  template <typename Response, typename Request>
  Response Call(const std::string& method, const Request& request) {
    const auto ended = host_->StartRaw(method, request.SerializeAsString(), seconds(10));
    executor_.AdvanceBy(milliseconds(50));
    EXPECT_TRUE(ended->done) << method;
    EXPECT_TRUE(ended->status.ok()) << method << ": " << ended->status.message;
    Response response;
    EXPECT_TRUE(response.ParseFromString(ended->response));
    return response;
  }
  workflow_pb::DescribeTaskQueueResponse Describe(const std::string& name = "q") {
    matching_pb::DescribeTaskQueueRequest request;
    request.set_namespace_id(kNamespace);
    auto* asked = request.mutable_desc_request();
    *asked->mutable_task_queue() = Queue(name);
    asked->set_task_queue_type(enums_pb::TASK_QUEUE_TYPE_WORKFLOW);
    asked->set_include_task_queue_status(true);
    asked->set_report_stats(true);
    return Call<matching_pb::DescribeTaskQueueResponse>("DescribeTaskQueue", request)
        .desc_response();
  }
  void Cancel(const std::shared_ptr<Ended>& call) {
    ASSERT_TRUE(call->on_cancel);
    Closure cancel = std::move(call->on_cancel);
    cancel();
  }
  [[nodiscard]] std::size_t StoredQueues() {
    auto page = durable_.ListQueues({}, 100);
    EXPECT_TRUE(page.ok());
    return page->queues.size();
  }

  MatchingConfig config_;
  exec::ManualExecutor executor_;
  store::MemoryTaskStore durable_;
  FakeHistory history_{executor_};
  sim::NoFaults no_faults_;
  sim::FaultPlan* plan_ = &no_faults_;
  std::unique_ptr<MatchingHost> host_;
};

}  // namespace millrace::temporal
