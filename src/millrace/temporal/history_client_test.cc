// The history client against history services of the test's own, on real sockets.

#include "millrace/temporal/history_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/rpc/server.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/hosts.h"
#include "millrace/temporal/poll_reply.h"
#include "millrace/temporal/proto_names.h"
#include "millrace/temporal/wire_vectors.h"

namespace millrace::temporal {
namespace {

namespace enums = ::temporal::api::enums::v1;
using rpc::Code;
using vectors::Bytes;

constexpr char kNamespace[] = "11111111-2222-3333-4444-555555555555";
constexpr char kService[] = "/temporal.server.api.historyservice.v1.HistoryService/";
constexpr Duration kLong = std::chrono::seconds(60);  // Never waited for in full.

// One host of a history service; the test says what each call is answered. Thread: any.
class HistoryHost {
 public:
  struct Call {
    std::string method;
    std::string request;
    rpc::Metadata metadata;
  };
  using Answer = std::function<void(const Call&, std::unique_ptr<rpc::ServerCall>)>;

  HistoryHost(exec::EventLoop& loop, Answer answer) : answer_(std::move(answer)) {
    rpc::ServiceTable services;
    for (const char* method :
         {"RecordWorkflowTaskStarted", "RecordActivityTaskStarted", "IsWorkflowTaskValid",
          "IsActivityTaskValid", "GetMutableState", "GetWorkflowExecutionHistory"}) {
      services.unary[std::string(kService) + method] =
          [this, method](std::unique_ptr<rpc::ServerCall> call) {
            Call seen{method, std::string(call->request()), call->metadata()};
            {
              MutexLock lock(mutex_);
              calls_.push_back(seen);
            }
            answer_(seen, std::move(call));
          };
    }
    rpc::ServerOptions options;
    options.listen = {"127.0.0.1:0"};
    server_ =
        rpc::Server::Create({&loop}, std::move(options), std::move(services), log_, NullMetrics());
    const Status started = server_->Start();
    EXPECT_TRUE(started.ok()) << started;
  }

  [[nodiscard]] std::string address() const { return server_->addresses().front(); }
  [[nodiscard]] std::vector<Call> calls() {
    MutexLock lock(mutex_);
    return calls_;
  }
  [[nodiscard]] std::size_t count() { return calls().size(); }

 private:
  NullLog log_;
  const Answer answer_;
  Mutex mutex_;
  std::vector<Call> calls_ MR_GUARDED_BY(mutex_);
  std::unique_ptr<rpc::Server> server_;
};

void Fail(std::unique_ptr<rpc::ServerCall> call, rpc::RpcStatus status) {
  call->Finish(std::move(status), {});
}

std::string Task(const std::string& workflow = "wf") {
  persistence_pb::TaskInfo task;
  task.set_namespace_id(kNamespace);
  task.set_workflow_id(workflow);
  task.set_run_id("run");
  task.set_scheduled_event_id(5);
  return task.SerializeAsString();
}

class HistoryClientTest : public testing::Test {
 protected:
  HistoryHost& AddHost(HistoryHost::Answer answer) {
    hosts_.push_back(std::make_unique<HistoryHost>(*server_loop_, std::move(answer)));
    return *hosts_.back();
  }

  void Connect(std::vector<std::string> hosts) {
    HistoryClientConfig config;
    config.hosts = std::move(hosts);
    config.backoff_min = std::chrono::milliseconds(1);
    config.backoff_max = std::chrono::milliseconds(4);
    client_ = std::make_unique<HistoryClient>(
        config, std::vector<exec::EventLoop*>{loop_.get(), second_loop_.get()});
  }

  std::future<StartResult> StartLater(TaskType type, Duration limit, std::string task = Task()) {
    StartRequest request;
    request.type = type;
    request.task = std::move(task);
    request.poll_request = Bytes(vectors::kWorkflowPoll);
    request.namespace_name = "default";
    request.request_id = "req";
    request.deadline = clock_.Now() + limit;
    auto promise = std::make_shared<std::promise<StartResult>>();
    client_->StartTask(std::move(request),
                       [promise](StartResult result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }
  StartResult Start(TaskType type, Duration limit = kLong, std::string task = Task()) {
    return StartLater(type, limit, std::move(task)).get();
  }

  QueryStartResult Query(const std::string& polled_queue) {
    matching_pb::QueryWorkflowRequest request;
    request.set_namespace_id(kNamespace);
    request.mutable_query_request()->set_namespace_("default");
    request.mutable_query_request()->mutable_execution()->set_workflow_id("wf");
    request.mutable_query_request()->set_query("q");
    auto promise = std::make_shared<std::promise<QueryStartResult>>();
    client_->StartQuery(
        {request.SerializeAsString(), "token", polled_queue, clock_.Now() + kLong},
        [promise](QueryStartResult result) { promise->set_value(std::move(result)); });
    return promise->get_future().get();
  }

  ValidResult Valid(TaskType type, Duration limit = kLong, std::string task = Task()) {
    auto promise = std::make_shared<std::promise<ValidResult>>();
    client_->IsTaskValid(type, std::move(task), clock_.Now() + limit,
                         [promise](ValidResult result) { promise->set_value(std::move(result)); });
    return promise->get_future().get();
  }

  SystemClock clock_;
  std::unique_ptr<exec::EventLoop> server_loop_ = exec::EventLoop::Create("server", clock_);
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("client1", clock_);
  std::unique_ptr<exec::EventLoop> second_loop_ = exec::EventLoop::Create("client2", clock_);
  std::vector<std::unique_ptr<HistoryHost>> hosts_;
  std::unique_ptr<HistoryClient> client_;
};

TEST_F(HistoryClientTest, StartsAWorkflowTask) {
  HistoryHost& host = AddHost([](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
    call->FinishOk(Bytes(vectors::kWorkflowStarted));
  });
  Connect({host.address()});
  const StartResult result = Start(TaskType::kWorkflow, kLong, Bytes(vectors::kWorkflowTask));
  EXPECT_EQ(result.outcome.task, TaskFate::kStarted);
  EXPECT_EQ(result.outcome.poller, PollerFate::kAnswer);
  matching_pb::PollWorkflowTaskQueueResponse reply;
  ASSERT_TRUE(reply.ParseFromString(result.response));
  EXPECT_EQ(reply.task_token(), Bytes(vectors::kWorkflowToken));
  const auto calls = host.calls();
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].method, "RecordWorkflowTaskStarted");
  EXPECT_EQ(calls[0].request, Bytes(vectors::kWorkflowStart));
  const std::set<std::pair<std::string, std::string>> metadata(calls[0].metadata.begin(),
                                                               calls[0].metadata.end());
  EXPECT_TRUE(metadata.contains({"caller-name", "default"}));
  EXPECT_TRUE(metadata.contains({"caller-type", "api"}));
}

TEST_F(HistoryClientTest, StartsAnActivityTask) {
  HistoryHost& host = AddHost([](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
    call->FinishOk(Bytes(vectors::kActivityStarted));
  });
  Connect({host.address()});
  const StartResult result = Start(TaskType::kActivity, kLong, Bytes(vectors::kActivityTask));
  EXPECT_EQ(result.outcome.task, TaskFate::kStarted);
  EXPECT_EQ(result.response, Bytes(vectors::kActivityReply));
  EXPECT_EQ(host.calls()[0].method, "RecordActivityTaskStarted");
}

TEST_F(HistoryClientTest, EachWorkflowGoesToTheHostOfItsShard) {
  const auto ok = [](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
    call->FinishOk({});
  };
  AddHost(ok);
  AddHost(ok);
  AddHost(ok);
  Connect({hosts_[0]->address(), hosts_[1]->address(), hosts_[2]->address()});
  std::vector<std::size_t> expected(3);
  for (int i = 0; i < 30; ++i) {
    const std::string workflow = "wf-" + std::to_string(i);
    ++expected[HistoryHostOf(HistoryShardOf(kNamespace, workflow, 4), 3)];
    EXPECT_EQ(Start(TaskType::kWorkflow, kLong, Task(workflow)).outcome.task, TaskFate::kStarted);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(hosts_[i]->count(), expected[i]) << i;
}

TEST_F(HistoryClientTest, FollowsAShardThatMovedAndRemembersIt) {
  HistoryHost& owner = AddHost(
      [](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) { call->FinishOk({}); });
  HistoryHost& listed =
      AddHost([&owner](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
        Fail(std::move(call), ShardOwnershipLostError(owner.address(), "me:1"));
      });
  Connect({listed.address()});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Start(TaskType::kWorkflow).outcome.task, TaskFate::kStarted);
  }
  EXPECT_EQ(listed.count(), 1U);
  EXPECT_EQ(owner.count(), 3U);
  EXPECT_EQ(owner.calls()[0].request, listed.calls()[0].request);
}

TEST_F(HistoryClientTest, HostsThatPointToEachOtherAreAskedNoFasterThanTheBackoff) {
  struct Addresses {
    std::string first;
    std::string second;
  };
  // The hosts are still asked after this function's end.
  const auto addresses = std::make_shared<Addresses>();
  HistoryHost& first =
      AddHost([addresses](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
        Fail(std::move(call), ShardOwnershipLostError(addresses->second, addresses->first));
      });
  HistoryHost& second =
      AddHost([addresses](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
        Fail(std::move(call), ShardOwnershipLostError(addresses->first, addresses->second));
      });
  *addresses = {first.address(), second.address()};
  Connect({addresses->first});
  const Duration limit = std::chrono::milliseconds(200);
  const StartResult result = Start(TaskType::kWorkflow, limit);
  EXPECT_EQ(result.outcome.task, TaskFate::kRewrite);
  EXPECT_EQ(result.outcome.poller, PollerFate::kPollOn);
  EXPECT_FALSE(result.status.ok());
  // One, two, four and then again and again four milliseconds, each at least half; four redirects
  // and one ask between two rests.
  EXPECT_LE(first.count() + second.count(), 5U * (200 / 2 + 3));
}

TEST_F(HistoryClientTest, AnOwnerThatIsNobodyOrNonsenseIsNotFollowed) {
  for (const std::string& owner : {std::string(), std::string("nobody"), std::string("a b:1")}) {
    std::atomic<int> asked = 0;
    HistoryHost& host =
        AddHost([&](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
          if (++asked < 4) return Fail(std::move(call), ShardOwnershipLostError(owner, "me:1"));
          call->FinishOk({});
        });
    Connect({host.address()});
    EXPECT_EQ(Start(TaskType::kWorkflow).outcome.task, TaskFate::kStarted) << owner;
    EXPECT_EQ(asked, 4) << owner;
    client_.reset();
  }
}

TEST_F(HistoryClientTest, TriesAgainWithTheSameRequestId) {
  for (const Code code : {Code::kUnavailable, Code::kInternal}) {
    std::atomic<int> asked = 0;
    HistoryHost& host =
        AddHost([&](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
          if (++asked < 3) return Fail(std::move(call), {code, "later", {}});
          call->FinishOk({});
        });
    Connect({host.address()});
    EXPECT_EQ(Start(TaskType::kWorkflow).outcome.task, TaskFate::kStarted);
    const auto calls = host.calls();
    ASSERT_EQ(calls.size(), 3U);
    for (const auto& call : calls) {
      history_pb::RecordWorkflowTaskStartedRequest request;
      ASSERT_TRUE(request.ParseFromString(call.request));
      EXPECT_EQ(request.request_id(), "req");
    }
    client_.reset();
  }
}

TEST_F(HistoryClientTest, AnInternalErrorThatStaysIsBelieved) {
  HistoryHost& host = AddHost([](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
    Fail(std::move(call), {Code::kInternal, "broken", {}});
  });
  Connect({host.address()});
  const StartResult result = Start(TaskType::kWorkflow);
  EXPECT_EQ(result.outcome.task, TaskFate::kDrop);
  EXPECT_EQ(result.outcome.drop_reason, DropReason::kInternalError);
  EXPECT_EQ(host.count(), 3U);
}

// Each of these is history's last word: asking again would only be a burden.
TEST_F(HistoryClientTest, WhatIsDecidedIsAskedOnce) {
  const std::vector<rpc::RpcStatus> decided = {
      NotFoundError("n"),
      TaskAlreadyStartedError(),
      ObsoleteMatchingTaskError("o"),
      NamespaceHandoverError(),
      ResourceExhaustedError(enums::RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED,
                             enums::RESOURCE_EXHAUSTED_SCOPE_SYSTEM, "r"),
      {Code::kDataLoss, "d", {}},
      {Code::kInvalidArgument, "i", {}},
      {Code::kUnimplemented, "u", {}},
      {Code::kUnknown, "u", {}},
  };
  std::size_t at = 0;
  HistoryHost& host = AddHost([&](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
    Fail(std::move(call), decided[at]);
  });
  Connect({host.address()});
  for (; at < decided.size(); ++at) {
    const StartResult result = Start(at % 2 == 0 ? TaskType::kWorkflow : TaskType::kActivity);
    EXPECT_EQ(result.status.code, decided[at].code);
    EXPECT_EQ(result.status.message, decided[at].message);
    EXPECT_EQ(result.status.details, decided[at].details);
    EXPECT_EQ(result.outcome.task, ClassifyStart(decided[at]).task);
    EXPECT_EQ(host.count(), at + 1) << decided[at].message;
  }
}

TEST_F(HistoryClientTest, NobodyThereEndsInTime) {
  std::string address;
  {
    HistoryHost gone(*server_loop_,
                     [](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall>) {});
    address = gone.address();
  }
  Connect({address});
  const StartResult result = Start(TaskType::kActivity, std::chrono::milliseconds(100));
  EXPECT_EQ(result.outcome.task, TaskFate::kRewrite);
  EXPECT_TRUE(result.outcome.wait_before_next);
}

TEST_F(HistoryClientTest, ASlowHistoryEndsAtTheDeadline) {
  Mutex mutex;
  std::vector<std::unique_ptr<rpc::ServerCall>> parked;
  HistoryHost& host = AddHost([&](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
    MutexLock lock(mutex);
    parked.push_back(std::move(call));
  });
  Connect({host.address()});
  const StartResult result = Start(TaskType::kWorkflow, std::chrono::milliseconds(300));
  EXPECT_EQ(result.status.code, Code::kDeadlineExceeded);
  EXPECT_EQ(result.outcome.task, TaskFate::kRewrite);
  EXPECT_LE(host.count(), 1U);
  MutexLock lock(mutex);
  for (auto& call : parked) call->FinishOk({});
}

TEST_F(HistoryClientTest, NonsenseAsAnAnswerIsAnInternalError) {
  HistoryHost& host = AddHost([](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
    call->FinishOk("\xff\xff");
  });
  Connect({host.address()});
  for (const TaskType type : {TaskType::kWorkflow, TaskType::kActivity}) {
    const StartResult result = Start(type);
    EXPECT_EQ(result.status.code, Code::kInternal);
    EXPECT_EQ(result.outcome.drop_reason, DropReason::kInternalError);
    EXPECT_EQ(Valid(type).status.code, Code::kInternal);
    EXPECT_TRUE(Valid(type).valid);
  }
  EXPECT_EQ(Query("q").status.code, Code::kInternal);
}

TEST_F(HistoryClientTest, AStoredTaskThatIsNoneIsDataLoss) {
  Connect({"127.0.0.1:1"});
  const StartResult result = Start(TaskType::kWorkflow, kLong, "\xff");
  EXPECT_EQ(result.outcome.drop_reason, DropReason::kDataLoss);
  EXPECT_EQ(Valid(TaskType::kWorkflow, kLong, "\xff").status.code, Code::kDataLoss);
}

TEST_F(HistoryClientTest, AsksWhetherATaskIsStillWanted) {
  HistoryHost& host =
      AddHost([](const HistoryHost::Call& seen, std::unique_ptr<rpc::ServerCall> call) {
        history_pb::IsActivityTaskValidResponse response;
        response.set_is_valid(seen.method == "IsActivityTaskValid");
        call->FinishOk(response.SerializeAsString());
      });
  Connect({host.address()});
  EXPECT_FALSE(Valid(TaskType::kWorkflow).valid);
  EXPECT_TRUE(Valid(TaskType::kActivity, kLong, Bytes(vectors::kActivityTask)).valid);
  history_pb::IsActivityTaskValidRequest request;
  ASSERT_TRUE(request.ParseFromString(host.calls()[1].request));
  EXPECT_EQ(request.namespace_id(), kNamespace);
  EXPECT_EQ(request.execution().workflow_id(), "wf");
  EXPECT_EQ(request.scheduled_event_id(), 5);
  EXPECT_EQ(request.stamp(), 4);
  EXPECT_EQ(request.component_ref(), "ref");
}

TEST_F(HistoryClientTest, BringsAQueryToAWorker) {
  HistoryHost& host =
      AddHost([](const HistoryHost::Call& seen, std::unique_ptr<rpc::ServerCall> call) {
        if (seen.method == "GetMutableState") {
          history_pb::GetMutableStateResponse state;
          state.mutable_sticky_task_queue()->set_name("sticky");
          return call->FinishOk(state.SerializeAsString());
        }
        history_pb::GetWorkflowExecutionHistoryRequest request;
        EXPECT_TRUE(request.ParseFromString(seen.request));
        EXPECT_EQ(request.namespace_id(), kNamespace);
        EXPECT_EQ(request.request().namespace_(), "default");
        EXPECT_EQ(request.request().execution().workflow_id(), "wf");
        EXPECT_TRUE(request.request().skip_archival());
        history_pb::GetWorkflowExecutionHistoryResponse history;
        history.mutable_response()->set_history("events");
        call->FinishOk(history.SerializeAsString());
      });
  Connect({host.address()});
  matching_pb::PollWorkflowTaskQueueResponse reply;
  ASSERT_TRUE(reply.ParseFromString(Query("sticky").response));
  EXPECT_TRUE(reply.sticky_execution_enabled());
  EXPECT_EQ(reply.task_token(), "token");
  EXPECT_EQ(host.count(), 1U);
  ASSERT_TRUE(reply.ParseFromString(Query("orders").response));
  EXPECT_FALSE(reply.sticky_execution_enabled());
  EXPECT_EQ(reply.history(), "events");
  EXPECT_EQ(host.count(), 3U);
}

// Whatever a call is doing, it ends when the client goes.
TEST_F(HistoryClientTest, DestructionEndsEveryCall) {
  std::promise<void> asked;
  Mutex mutex;
  std::vector<std::unique_ptr<rpc::ServerCall>> parked;
  HistoryHost& slow = AddHost([&](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
    MutexLock lock(mutex);
    parked.push_back(std::move(call));
    if (parked.size() == 1) asked.set_value();
  });
  HistoryClientConfig config;
  config.hosts = {slow.address()};
  config.backoff_min = config.backoff_max = kLong;
  client_ = std::make_unique<HistoryClient>(config, std::vector<exec::EventLoop*>{loop_.get()});
  std::future<StartResult> waiting = StartLater(TaskType::kWorkflow, kLong * 2);
  asked.get_future().wait();
  client_.reset();
  EXPECT_EQ(waiting.get().status.code, Code::kCancelled);

  std::atomic<int> refused = 0;
  HistoryHost& busy = AddHost([&](const HistoryHost::Call&, std::unique_ptr<rpc::ServerCall> call) {
    ++refused;
    Fail(std::move(call), {Code::kUnavailable, "later", {}});
  });
  config.hosts = {busy.address()};
  client_ = std::make_unique<HistoryClient>(config, std::vector<exec::EventLoop*>{loop_.get()});
  waiting = StartLater(TaskType::kWorkflow, kLong * 3);
  while (refused == 0) std::this_thread::yield();
  client_.reset();
  EXPECT_EQ(waiting.get().outcome.task, TaskFate::kRewrite);
  MutexLock lock(mutex);
  for (auto& call : parked) call->FinishOk({});
}

TEST(HistoryClientConfig, IsChecked) {
  HistoryClientConfig config;
  EXPECT_EQ(CheckHistoryClientConfig(config).code(), StatusCode::kInvalidArgument);
  config.hosts = {"history:7234"};
  EXPECT_TRUE(CheckHistoryClientConfig(config).ok());
  config.shards = 0;
  EXPECT_EQ(CheckHistoryClientConfig(config).code(), StatusCode::kInvalidArgument);
  config.shards = 1;
  config.hosts.emplace_back("nowhere");
  EXPECT_EQ(CheckHistoryClientConfig(config).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::temporal
