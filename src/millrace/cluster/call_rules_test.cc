#include "millrace/cluster/call_rules.h"

#include <gtest/gtest.h>
#include <millrace/v1/queue.pb.h>

#include "millrace/queue/errors.h"

namespace millrace::cluster {
namespace {

TEST(CallRules, EveryMethodOfTheServiceHasRules) {
  const auto* service = v1::QueueInfo::descriptor()->file()->FindServiceByName("QueueService");
  ASSERT_NE(service, nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* method = service->method(i);
    const auto rules = RulesOf("/" + service->full_name() + "/" + method->name());
    ASSERT_TRUE(rules) << method->name();
    const auto* field = method->input_type()->FindFieldByName("queue");
    EXPECT_EQ(rules->kind == CallKind::kOneQueue, field != nullptr) << method->name();
    EXPECT_TRUE(field == nullptr || field->number() == 1) << method->name();
  }
  EXPECT_FALSE(RulesOf("/millrace.v1.QueueService/Other"));
  EXPECT_FALSE(RulesOf("/grpc.health.v1.Health/Check"));
}

TEST(CallRules, TheQueueIsFoundWhereverItStands) {
  v1::EnqueueRequest request;
  for (int i = 0; i < 3; ++i) request.add_tasks()->set_payload("\x0a\x03not");
  const std::string tasks = request.SerializeAsString();
  request.set_queue("mail/out");
  EXPECT_EQ(QueueOf(request.SerializeAsString()), "mail/out");
  v1::EnqueueRequest name;
  name.set_queue("mail/out");
  EXPECT_EQ(QueueOf(tasks + name.SerializeAsString()), "mail/out");
  // As a parser has it: the last one.
  v1::EnqueueRequest other;
  other.set_queue("other");
  EXPECT_EQ(QueueOf(other.SerializeAsString() + tasks + name.SerializeAsString()), "mail/out");
}

TEST(CallRules, WhatNamesNoQueueNamesNone) {
  EXPECT_EQ(QueueOf(""), "");
  const std::string whole = [] {
    v1::LeaseRequest request;
    request.set_queue("abcdef");
    request.set_max_tasks(300);
    request.set_worker_id("w");
    return request.SerializeAsString();
  }();
  v1::LeaseRequest parsed;
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const std::string part = whole.substr(0, cut);
    const std::string_view found = QueueOf(part);
    EXPECT_EQ(found, parsed.ParseFromString(part) ? parsed.queue() : "") << cut;
  }
  EXPECT_EQ(QueueOf("\x0a\xff\xff\xff\xff\x7f"), "");
}

TEST(CallRules, AWaitIsReadAndReplaced) {
  v1::LeaseRequest request;
  request.set_queue("q");
  request.set_max_tasks(7);
  EXPECT_FALSE(WaitOf(request.SerializeAsString()));
  request.mutable_wait_time()->set_seconds(3);
  request.mutable_wait_time()->set_nanos(5);
  EXPECT_EQ(WaitOf(request.SerializeAsString()), std::chrono::seconds(3) + Duration(5));
  v1::LeaseRequest changed;
  ASSERT_TRUE(changed.ParseFromString(
      WithWait(request.SerializeAsString(), std::chrono::milliseconds(1'500))));
  EXPECT_EQ(changed.wait_time().seconds(), 1);
  EXPECT_EQ(changed.wait_time().nanos(), 500'000'000);
  EXPECT_EQ(changed.max_tasks(), 7);
  EXPECT_EQ(WaitOf(WithWait(request.SerializeAsString(), Duration(-5))), Duration::zero());
}

TEST(CallRules, OnlyTheReasonTurnsAway) {
  EXPECT_TRUE(IsTurnedAway(TurnedAway("no")));
  EXPECT_FALSE(IsTurnedAway(OutcomeUnknown("who knows")));
  EXPECT_FALSE(IsTurnedAway({rpc::Code::kUnavailable, "connection lost", {}}));
  EXPECT_FALSE(IsTurnedAway({}));
  EXPECT_FALSE(IsTurnedAway(
      queue::ToRpcStatus({rpc::Code::kUnavailable, queue::Reason::kStoreReadOnly, "full"})));
}

TEST(CallRules, AListTakesWhatOthersHaveInMemory) {
  const auto add = [](v1::ListResponse& list, const std::string& name, bool loaded, int range,
                      int waiting) {
    v1::QueueInfo* queue = list.add_queues();
    queue->set_name(name);
    queue->set_loaded(loaded);
    queue->mutable_backlog()->set_range_id(range);
    queue->mutable_counts()->set_waiting(waiting);
  };
  v1::ListResponse own;
  add(own, "a", false, 1, 1);
  add(own, "b", true, 5, 2);
  add(own, "c", false, 1, 3);
  add(own, "d", true, 3, 4);
  own.set_next_page_token("token");
  v1::ListResponse other;
  add(other, "a", true, 1, 10);
  add(other, "b", true, 4, 20);
  add(other, "c", false, 1, 30);
  add(other, "d", true, 4, 40);
  add(other, "e", true, 1, 50);
  other.set_next_page_token("other");
  v1::ListResponse merged;
  ASSERT_TRUE(
      merged.ParseFromString(MergeLists(own.SerializeAsString(), other.SerializeAsString())));
  ASSERT_EQ(merged.queues_size(), 4);
  EXPECT_EQ(merged.queues(0).counts().waiting(), 10);
  EXPECT_EQ(merged.queues(1).counts().waiting(), 2);
  EXPECT_EQ(merged.queues(2).counts().waiting(), 3);
  EXPECT_EQ(merged.queues(3).counts().waiting(), 40);
  EXPECT_EQ(merged.next_page_token(), "token");
  EXPECT_EQ(MergeLists("own", "\xff"), "own");
}

}  // namespace
}  // namespace millrace::cluster
