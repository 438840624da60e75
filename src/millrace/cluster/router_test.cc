#include "millrace/cluster/router.h"

#include <gtest/gtest.h>
#include <millrace/v1/queue.pb.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/exec/manual_executor.h"
#include "millrace/queue/errors.h"
#include "millrace/queue/queue_service.h"

namespace millrace::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string PathOf(const std::string& method) {
  return "/" + std::string(queue::kQueueServiceName) + "/" + method;
}

// What became of a call.
struct Ended {
  bool done = false;
  rpc::RpcStatus status;
  std::string response;
  Closure on_cancel;
  bool cancelled = false;
};
using EndedPtr = std::shared_ptr<Ended>;

class FakeCall final : public rpc::ServerCall {
 public:
  FakeCall(std::string request, rpc::Metadata metadata, Instant deadline, EndedPtr ended,
           UniqueFunction<void(rpc::RpcStatus, std::string)> on_finish)
      : request_(std::move(request)),
        metadata_(std::move(metadata)),
        deadline_(deadline),
        ended_(std::move(ended)),
        on_finish_(std::move(on_finish)) {}
  ~FakeCall() override { EXPECT_TRUE(ended_->done) << "a call was dropped unanswered"; }

  [[nodiscard]] std::string_view request() const override { return request_; }
  [[nodiscard]] const rpc::Metadata& metadata() const override { return metadata_; }
  [[nodiscard]] Instant deadline() const override { return deadline_; }
  [[nodiscard]] std::string_view peer() const override { return "test"; }
  void OnCancel(Closure on_cancel) override { ended_->on_cancel = std::move(on_cancel); }
  [[nodiscard]] bool cancelled() const override { return ended_->cancelled; }
  void AddTrailer(std::string, std::string) override {}
  void Finish(rpc::RpcStatus status, std::string response) override {
    EXPECT_FALSE(ended_->done) << "answered twice";
    ended_->done = true;
    ended_->status = status;
    ended_->response = response;
    if (on_finish_) on_finish_(std::move(status), std::move(response));
  }

 private:
  std::string request_;
  rpc::Metadata metadata_;
  Instant deadline_;
  EndedPtr ended_;
  UniqueFunction<void(rpc::RpcStatus, std::string)> on_finish_;
};

// Calls between the nodes of a test. They take no time: one that goes in circles would never end,
// so there is a most.
class FakePeers final : public Peers {
 public:
  struct Open {
    EndedPtr ended;
    UniqueFunction<void(rpc::CallResult)> done;
    std::string node;
  };

  explicit FakePeers(exec::ManualExecutor& executor) : executor_(executor) {}

  CallId Call(const store::NodeRow& node, std::string_view method, std::string request,
              Instant deadline, UniqueFunction<void(rpc::CallResult)> done) override {
    const std::uint64_t id = ++last_;
    ++calls;
    open_.emplace(id, Open{std::make_shared<Ended>(), std::move(done), node.id});
    if (never_sent || calls > kCallsMax) {
      EndWith(id, rpc::Code::kUnavailable, true);
      return {1, 0, id};
    }
    rpc::ServiceTable* table = tables.at(node.id);
    executor_.Post([this, id, table, path = std::string(method), request = std::move(request),
                    deadline]() mutable {
      const auto it = open_.find(id);
      if (it == open_.end()) return;
      auto call = std::make_unique<FakeCall>(
          std::move(request), rpc::Metadata{{kPassedOnBy, self}}, deadline, it->second.ended,
          [this, id](rpc::RpcStatus status, std::string response) {
            rpc::CallResult result;
            result.status = std::move(status);
            result.response = std::move(response);
            End(id, std::move(result));
          });
      table->unary.at(path)(std::move(call));
    });
    return {1, 0, id};
  }
  void Cancel(CallId call) override {
    const auto it = open_.find(call.call);
    if (it == open_.end()) return;
    const EndedPtr ended = it->second.ended;
    EndWith(call.call, rpc::Code::kCancelled, false);
    ended->cancelled = true;
    if (ended->on_cancel) std::exchange(ended->on_cancel, {})();
  }
  void Keep(const std::vector<store::NodeRow>& nodes) override { kept = nodes; }

  // As if every connection broke.
  void Break() {
    while (!open_.empty()) EndWith(open_.begin()->first, rpc::Code::kUnavailable, false);
  }

  std::string self;
  std::map<std::string, rpc::ServiceTable*> tables;
  std::vector<store::NodeRow> kept;
  bool never_sent = false;
  int calls = 0;

 private:
  void EndWith(std::uint64_t id, rpc::Code code, bool never_sent_at_all) {
    rpc::CallResult result;
    result.status = {code, "the connection broke", {}};
    result.never_sent = never_sent_at_all;
    End(id, std::move(result));
  }
  void End(std::uint64_t id, rpc::CallResult result) {
    auto node = open_.extract(id);
    if (node.empty()) return;
    executor_.Post([done = std::move(node.mapped().done), result = std::move(result)]() mutable {
      done(std::move(result));
    });
  }

  static constexpr int kCallsMax = 10'000;

  exec::ManualExecutor& executor_;
  std::map<std::uint64_t, Open> open_;
  std::uint64_t last_ = 0;
};

// A node whose service keeps calls until the test answers them.
class Node {
 public:
  Node(exec::ManualExecutor& executor, const std::string& node_id)
      : id(node_id),
        peers(executor),
        executor_(executor),
        router(id, {.patience = seconds(10), .waiting_max = 50}, executor, peers, random_,
               NullMetrics(), [this] { ++nudges; }) {
    peers.self = id;
    for (const char* method : {"Enqueue", "Lease", "Complete", "Describe", "List"}) {
      table.unary.emplace(PathOf(method), [this](std::unique_ptr<rpc::ServerCall> call) {
        here.push_back(std::move(call));
      });
    }
    table.unary.emplace("/other.Service/Call", [this](std::unique_ptr<rpc::ServerCall> call) {
      here.push_back(std::move(call));
    });
    router.Wrap(table);
  }

  EndedPtr Start(const std::string& method, std::string request,
                 Instant deadline = Instant::Max()) {
    auto ended = std::make_shared<Ended>();
    table.unary.at(PathOf(method))(
        std::make_unique<FakeCall>(std::move(request), rpc::Metadata{}, deadline, ended,
                                   UniqueFunction<void(rpc::RpcStatus, std::string)>()));
    executor_.RunUntilIdle();
    return ended;
  }
  // The oldest call that waits for its answer here.
  std::unique_ptr<rpc::ServerCall> TakeHere() {
    MR_CHECK(!here.empty());
    std::unique_ptr<rpc::ServerCall> call = std::move(here.front());
    here.pop_front();
    return call;
  }
  void Answer(const std::string& response) {
    TakeHere()->FinishOk(response);
    executor_.RunUntilIdle();
  }
  void Refuse() {
    TakeHere()->Finish(TurnedAway("not now"), {});
    executor_.RunUntilIdle();
  }

  const std::string id;
  FakePeers peers;
  rpc::ServiceTable table;
  std::deque<std::unique_ptr<rpc::ServerCall>> here;
  int nudges = 0;

 private:
  exec::ManualExecutor& executor_;
  SeededRandom random_{1};

 public:
  Router router;
};

std::string EnqueueTo(const std::string& queue) {
  v1::EnqueueRequest request;
  request.set_queue(queue);
  request.add_tasks()->set_payload("p");
  return request.SerializeAsString();
}

std::string LeaseFrom(const std::string& queue, std::optional<int> wait_seconds) {
  v1::LeaseRequest request;
  request.set_queue(queue);
  if (wait_seconds) request.mutable_wait_time()->set_seconds(*wait_seconds);
  return request.SerializeAsString();
}

std::string ReasonOf(const rpc::RpcStatus& status) {
  if (IsTurnedAway(status)) return "DRAINING";
  return status.details.find("OUTCOME_UNKNOWN") != std::string::npos ? "OUTCOME_UNKNOWN" : "";
}

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    for (Node* node : {&a_, &b_, &c_}) {
      for (Node* other : {&a_, &b_, &c_}) node->peers.tables[other->id] = &other->table;
    }
    SetView({"a", "b", "c"});
  }
  ~RouterTest() override {
    for (Node* node : {&a_, &b_, &c_}) {
      bool stopped = false;
      node->router.Stop([&] { stopped = true; });
      node->peers.Break();
      executor_.AdvanceBy(seconds(1));
      EXPECT_TRUE(stopped);
      EXPECT_TRUE(node->here.empty());
    }
  }

  ViewPtr ViewOf(const std::string& self, const std::vector<std::string>& members,
                 Duration fresh = seconds(1'000)) {
    auto view = std::make_shared<View>();
    view->self = self;
    std::vector<Members::Member> named;
    for (const std::string& id : members) named.push_back({id, 1});
    view->members = std::make_shared<const Members>(named);
    for (const char* id : {"a", "b", "c"}) {
      store::NodeRow row;
      row.id = id;
      view->nodes.push_back(row);
    }
    view->settled = true;
    view->fresh_until = executor_.clock().Now() + fresh;
    return view;
  }
  void SetView(Node& node, const std::vector<std::string>& members) {
    node.router.OnView(ViewOf(node.id, members), true);
    executor_.RunUntilIdle();
  }
  void SetView(const std::vector<std::string>& members) {
    for (Node* node : {&a_, &b_, &c_}) SetView(*node, members);
  }
  // A queue that `owner` owns among a, b and c, and `next` without it.
  std::string QueueOf2(const std::string& owner, const std::string& next) {
    const Members all({{"a", 1}, {"b", 1}, {"c", 1}});
    std::vector<Members::Member> rest;
    for (const char* id : {"a", "b", "c"}) {
      if (id != owner) rest.push_back({id, 1});
    }
    const Members without(rest);
    for (int i = 0;; ++i) {
      const std::string queue = "queue-" + std::to_string(i);
      if (*all.OwnerOf(queue) == owner && *without.OwnerOf(queue) == next) return queue;
    }
  }

  exec::ManualExecutor executor_;
  Node a_{executor_, "a"};
  Node b_{executor_, "b"};
  Node c_{executor_, "c"};
};

TEST_F(RouterTest, TheOwnersOwnCallsStayWithIt) {
  const EndedPtr ended = a_.Start("Enqueue", EnqueueTo(QueueOf2("a", "b")));
  a_.Answer("stored");
  EXPECT_EQ(ended->response, "stored");
  EXPECT_EQ(a_.peers.calls, 0);
}

TEST_F(RouterTest, OtherCallsArePassedOnToTheOwnerWhoSeesWhatTheCallerSent) {
  const std::string request = EnqueueTo(QueueOf2("b", "a"));
  const Instant deadline = executor_.clock().Now() + seconds(3);
  const EndedPtr ended = a_.Start("Enqueue", request, deadline);
  ASSERT_EQ(b_.here.size(), 1u);
  EXPECT_EQ(b_.here.front()->request(), request);
  EXPECT_EQ(b_.here.front()->deadline(), deadline);
  EXPECT_FALSE(ended->done);
  b_.Answer("stored");
  EXPECT_TRUE(ended->status.ok());
  EXPECT_EQ(ended->response, "stored");
  EXPECT_TRUE(c_.here.empty());
}

TEST_F(RouterTest, ErrorsComeBackAsTheyWere) {
  const EndedPtr ended = a_.Start("Describe", EnqueueTo(QueueOf2("b", "a")));
  const rpc::RpcStatus status =
      queue::ToRpcStatus({rpc::Code::kNotFound, queue::Reason::kQueueNotFound, "no such queue"});
  b_.TakeHere()->Finish(status, {});
  executor_.RunUntilIdle();
  EXPECT_EQ(ended->status.code, rpc::Code::kNotFound);
  EXPECT_EQ(ended->status.message, "no such queue");
  EXPECT_EQ(ended->status.details, status.details);
}

TEST_F(RouterTest, WhatNamesNoQueueAndOtherServicesAreAnsweredHere) {
  const EndedPtr ended = a_.Start("Enqueue", "\xff\xff");
  ASSERT_EQ(a_.here.size(), 1u);
  a_.Answer("bad");
  EXPECT_EQ(ended->response, "bad");
}

// a believes in b, and b in a.
TEST_F(RouterTest, NodesWithDifferentViewsDoNotPassACallInCircles) {
  SetView(a_, {"b"});
  SetView(b_, {"a"});
  const EndedPtr ended = a_.Start("Enqueue", EnqueueTo("q"));
  executor_.AdvanceBy(seconds(2));
  EXPECT_FALSE(ended->done);
  EXPECT_EQ(b_.peers.calls, 0) << "b never passes on what came from a";
  EXPECT_TRUE(a_.here.empty() && b_.here.empty());
  EXPECT_LT(a_.peers.calls, 30) << "and a does not hammer";
  EXPECT_GT(a_.nudges + b_.nudges, 0) << "somebody is behind: they look";
  // They come to agree.
  SetView(b_, {"b"});
  executor_.AdvanceBy(seconds(1));
  ASSERT_EQ(b_.here.size(), 1u);
  b_.Answer("stored");
  EXPECT_EQ(ended->response, "stored");
}

TEST_F(RouterTest, ThoseThatNeverAgreeCostTheCallerItsPatienceAndNothingElse) {
  SetView(a_, {"b"});
  SetView(b_, {"a"});
  const EndedPtr ended = a_.Start("Enqueue", EnqueueTo("q"));
  executor_.AdvanceBy(milliseconds(9'900));
  EXPECT_FALSE(ended->done);
  executor_.AdvanceBy(milliseconds(200));
  ASSERT_TRUE(ended->done);
  EXPECT_EQ(ended->status.code, rpc::Code::kUnavailable);
  EXPECT_EQ(ReasonOf(ended->status), "DRAINING");
  const Instant deadline = executor_.clock().Now() + seconds(1);
  const EndedPtr hasty = a_.Start("Enqueue", EnqueueTo("q"), deadline);
  executor_.AdvanceBy(milliseconds(950));
  EXPECT_TRUE(hasty->done) << "its own deadline comes first";
}

TEST_F(RouterTest, AQueueThatMovesIsFollowed) {
  const std::string queue = QueueOf2("b", "c");
  const EndedPtr here = b_.Start("Enqueue", EnqueueTo(queue));
  const EndedPtr there = a_.Start("Enqueue", EnqueueTo(queue));
  ASSERT_EQ(b_.here.size(), 2u);
  // b gives it up: what it has in hand it turns away.
  SetView({"a", "c"});
  b_.Refuse();
  b_.Refuse();
  executor_.AdvanceBy(milliseconds(300));
  ASSERT_EQ(c_.here.size(), 2u);
  c_.Answer("one");
  c_.Answer("two");
  EXPECT_TRUE(here->status.ok() && there->status.ok());
  EXPECT_EQ(here->response + there->response, "onetwo");
}

TEST_F(RouterTest, ANewViewIsActedOnAtOnce) {
  SetView(std::vector<std::string>{});
  const EndedPtr ended = a_.Start("Enqueue", EnqueueTo("q"));
  executor_.AdvanceBy(seconds(1));
  EXPECT_FALSE(ended->done);
  SetView(a_, {"a"});
  ASSERT_EQ(a_.here.size(), 1u);
  a_.Answer("stored");
  EXPECT_EQ(ended->response, "stored");
}

TEST_F(RouterTest, ABrokenConnectionLeavesTheOutcomeUnknownUnlessTheCallMayBeRepeated) {
  const std::string queue = QueueOf2("b", "c");
  const EndedPtr enqueue = a_.Start("Enqueue", EnqueueTo(queue));
  const EndedPtr complete = a_.Start("Complete", EnqueueTo(queue));
  const EndedPtr lease = a_.Start("Lease", LeaseFrom(queue, 30));
  const EndedPtr describe = a_.Start("Describe", EnqueueTo(queue));
  ASSERT_EQ(b_.here.size(), 4u);
  a_.peers.Break();
  executor_.RunUntilIdle();
  EXPECT_EQ(ReasonOf(enqueue->status), "OUTCOME_UNKNOWN");
  EXPECT_EQ(enqueue->status.code, rpc::Code::kUnavailable);
  EXPECT_EQ(ReasonOf(complete->status), "OUTCOME_UNKNOWN");
  EXPECT_EQ(ReasonOf(lease->status), "OUTCOME_UNKNOWN") << "a task may be on its way to nobody";
  EXPECT_FALSE(describe->done);
  for (int i = 0; i < 4; ++i) b_.Answer("nobody hears it");
  SetView({"a", "c"});
  executor_.AdvanceBy(milliseconds(300));
  ASSERT_EQ(c_.here.size(), 1u);
  c_.Answer("queue");
  EXPECT_EQ(describe->response, "queue");
}

TEST_F(RouterTest, WhatWasNeverSentIsSentAgain) {
  const std::string queue = QueueOf2("b", "c");
  a_.peers.never_sent = true;
  const EndedPtr ended = a_.Start("Enqueue", EnqueueTo(queue));
  executor_.AdvanceBy(seconds(1));
  EXPECT_FALSE(ended->done);
  a_.peers.never_sent = false;
  executor_.AdvanceBy(seconds(1));
  ASSERT_EQ(b_.here.size(), 1u);
  b_.Answer("stored");
  EXPECT_EQ(ended->response, "stored");
}

TEST_F(RouterTest, ALeaseThatMovesWaitsNoLongerThanItAskedFor) {
  const std::string queue = QueueOf2("b", "c");
  const EndedPtr lease = a_.Start("Lease", LeaseFrom(queue, 60));
  executor_.AdvanceBy(seconds(45));
  SetView({"a", "c"});
  b_.Refuse();
  executor_.AdvanceBy(seconds(1));
  ASSERT_EQ(c_.here.size(), 1u);
  const Duration wait = WaitOf(c_.here.front()->request()).value();
  EXPECT_GT(wait, seconds(13));
  EXPECT_LE(wait, seconds(15));
  c_.Answer("task");
  EXPECT_EQ(lease->response, "task");
}

TEST_F(RouterTest, NoTaskIsTheOwnersWord) {
  SetView(std::vector<std::string>{});
  const EndedPtr lease = a_.Start("Lease", LeaseFrom("q", 0));
  executor_.AdvanceBy(seconds(4));
  EXPECT_FALSE(lease->done);
  SetView(a_, {"a"});
  ASSERT_EQ(a_.here.size(), 1u);
  EXPECT_EQ(WaitOf(a_.here.front()->request()), Duration::zero());
  a_.Answer("a task");
  EXPECT_EQ(lease->response, "a task");
}

TEST_F(RouterTest, ALeaseAtItsOwnNodeThatMovesIsPassedOn) {
  const std::string queue = QueueOf2("a", "c");
  const EndedPtr lease = a_.Start("Lease", LeaseFrom(queue, std::nullopt));
  executor_.AdvanceBy(seconds(20));
  SetView({"b", "c"});
  a_.Refuse();
  executor_.AdvanceBy(seconds(1));
  ASSERT_EQ(c_.here.size(), 1u);
  EXPECT_LE(WaitOf(c_.here.front()->request()).value(), seconds(40));
  c_.Answer("task");
  EXPECT_EQ(lease->response, "task");
}

// After a pause: what it has in memory may be another's by now.
TEST_F(RouterTest, ANodeThatIsNotFreshHandsNothingOut) {
  const std::string queue = QueueOf2("a", "c");
  a_.router.OnView(ViewOf("a", {"a", "b", "c"}, seconds(5)), true);
  executor_.AdvanceBy(seconds(6));
  const EndedPtr lease = a_.Start("Lease", LeaseFrom(queue, 30));
  const EndedPtr from_b = b_.Start("Lease", LeaseFrom(queue, 30));
  const EndedPtr complete = b_.Start("Complete", EnqueueTo(queue));
  EXPECT_TRUE(a_.here.empty()) << "it would refuse tokens of the next owner";
  // What is written is judged by the range id.
  const EndedPtr enqueue = a_.Start("Enqueue", EnqueueTo(queue));
  EXPECT_EQ(a_.here.size(), 1u);
  a_.Answer("stored");
  SetView(a_, {"a", "b", "c"});
  EXPECT_EQ(a_.here.size(), 3u);
  a_.Answer("one");
  a_.Answer("two");
  a_.Answer("three");
  EXPECT_TRUE(complete->done);
  executor_.RunUntilIdle();
  EXPECT_TRUE(lease->done && from_b->done && enqueue->done);
}

TEST_F(RouterTest, WhatANodeFoundBeforeItWasPausedIsNotAnAnswer) {
  const std::string queue = QueueOf2("a", "c");
  a_.router.OnView(ViewOf("a", {"a", "b", "c"}, seconds(5)), true);
  executor_.RunUntilIdle();
  const EndedPtr describe = a_.Start("Describe", EnqueueTo(queue));
  const EndedPtr complete = a_.Start("Complete", EnqueueTo(queue));
  executor_.AdvanceBy(seconds(6));
  a_.Answer("old news");
  EXPECT_FALSE(describe->done);
  a_.Answer("written");
  EXPECT_EQ(complete->response, "written") << "the store has judged it";
  SetView(a_, {"a", "b", "c"});
  executor_.AdvanceBy(milliseconds(300));
  a_.Answer("as it is");
  EXPECT_EQ(describe->response, "as it is");
}

TEST_F(RouterTest, ACallerThatGoesAwayIsForgottenEverywhere) {
  const std::string queue = QueueOf2("b", "c");
  const EndedPtr passed_on = a_.Start("Lease", LeaseFrom(queue, 30));
  bool told = false;
  b_.here.front()->OnCancel([&told] { told = true; });
  passed_on->cancelled = true;
  std::exchange(passed_on->on_cancel, {})();
  executor_.RunUntilIdle();
  EXPECT_TRUE(told);
  EXPECT_TRUE(passed_on->done);
  b_.TakeHere()->FinishOk({});
  SetView(std::vector<std::string>{});
  const EndedPtr waiting = a_.Start("Lease", LeaseFrom(queue, 30));
  waiting->cancelled = true;
  std::exchange(waiting->on_cancel, {})();
  EXPECT_TRUE(waiting->done);
  EXPECT_EQ(waiting->status.code, rpc::Code::kCancelled);
}

TEST_F(RouterTest, OneMoreThanMayWaitIsTurnedAway) {
  SetView(std::vector<std::string>{});
  std::vector<EndedPtr> calls;
  for (int i = 0; i < 51; ++i) calls.push_back(a_.Start("Enqueue", EnqueueTo("q")));
  EXPECT_TRUE(calls.back()->done);
  EXPECT_EQ(ReasonOf(calls.back()->status), "DRAINING");
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(calls[static_cast<std::size_t>(i)]->done);
}

TEST_F(RouterTest, ADrainingNodeEndsWaitsAndPassesOtherCallsOn) {
  const std::string queue = QueueOf2("b", "c");
  const EndedPtr poll = a_.Start("Lease", LeaseFrom(queue, 30));
  a_.router.BeginDrain();
  executor_.RunUntilIdle();
  ASSERT_TRUE(poll->done);
  EXPECT_EQ(ReasonOf(poll->status), "OUTCOME_UNKNOWN") << "its task may be on its way";
  b_.TakeHere()->FinishOk({});
  const EndedPtr late = a_.Start("Lease", LeaseFrom(queue, 30));
  EXPECT_EQ(ReasonOf(late->status), "DRAINING");
  const EndedPtr enqueue = a_.Start("Enqueue", EnqueueTo(queue));
  b_.Answer("stored");
  EXPECT_EQ(enqueue->response, "stored");
  // The last of all nodes has nobody to pass on to.
  SetView(a_, {});
  EXPECT_EQ(ReasonOf(a_.Start("Enqueue", EnqueueTo(queue))->status), "DRAINING");
}

TEST_F(RouterTest, AListHasWhatEachNodeHasInMemory) {
  const auto list = [](bool q1, bool q2) {
    v1::ListResponse response;
    for (const auto& [name, loaded] : {std::pair{"q1", q1}, std::pair{"q2", q2}}) {
      v1::QueueInfo* queue = response.add_queues();
      queue->set_name(name);
      queue->set_loaded(loaded);
    }
    return response.SerializeAsString();
  };
  for (const bool broken : {false, true}) {
    const EndedPtr ended = a_.Start("List", {});
    ASSERT_TRUE(b_.here.empty()) << "others are asked once this node's part is there";
    a_.Answer(list(false, false));
    ASSERT_EQ(b_.here.size(), 1u);
    ASSERT_EQ(c_.here.size(), 1u);
    b_.Answer(list(true, false));
    if (broken) a_.peers.Break();
    c_.Answer(list(false, true));
    ASSERT_TRUE(ended->done);
    v1::ListResponse got;
    ASSERT_TRUE(got.ParseFromString(ended->response));
    ASSERT_EQ(got.queues_size(), 2);
    EXPECT_TRUE(got.queues(0).loaded());
    EXPECT_EQ(got.queues(1).loaded(), !broken) << "one that does not answer hides nothing";
  }
  EXPECT_EQ(b_.peers.calls, 0) << "who is asked by a node does not ask others";
}

}  // namespace
}  // namespace millrace::cluster
