#include "millrace/temporal/task_queue_name.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace millrace::temporal {
namespace {

namespace enums = ::temporal::api::enums::v1;
using PbQueue = ::temporal::api::taskqueue::v1::TaskQueue;
using PbPartition = ::temporal::server::api::taskqueue::v1::TaskQueuePartition;

PbQueue Queue(std::string name, enums::TaskQueueKind kind = enums::TASK_QUEUE_KIND_NORMAL,
              std::string normal_name = {}) {
  PbQueue queue;
  queue.set_name(std::move(name));
  queue.set_kind(kind);
  queue.set_normal_name(std::move(normal_name));
  return queue;
}

StatusCode CodeOf(const PbQueue& queue, TaskType type = TaskType::kWorkflow) {
  return PartitionOf(queue, "ns", type).code();
}

TEST(TaskQueueName, NormalPartitionsGoThereAndBack) {
  for (const std::string& base : {std::string("orders"), std::string("a/b/7"), std::string("/_sys"),
                                  std::string("/"), std::string("\xc3\xa9#|:")}) {
    for (const int number : {0, 1, 3, 19, 1000}) {
      const Partition partition{"ns", base, {}, TaskType::kActivity, QueueKind::kNormal, number};
      EXPECT_EQ(partition.RpcName(),
                number == 0 ? base : "/_sys/" + base + "/" + std::to_string(number));
      const auto read = PartitionOf(ToTaskQueue(partition), "ns", TaskType::kActivity);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, partition);
      EXPECT_EQ(read->is_root(), number == 0);
      EXPECT_EQ(read->is_child(), number != 0);
    }
  }
  EXPECT_EQ(
      PartitionOf(Queue("q", enums::TASK_QUEUE_KIND_UNSPECIFIED), "ns", TaskType::kNexus)->kind,
      QueueKind::kNormal);
}

TEST(TaskQueueName, StickyAndWorkerCommandQueuesHaveOnePartition) {
  const auto sticky = PartitionOf(Queue("host-1", enums::TASK_QUEUE_KIND_STICKY, "orders"), "ns",
                                  TaskType::kWorkflow);
  ASSERT_TRUE(sticky.ok());
  EXPECT_EQ(sticky->sticky_name, "host-1");
  EXPECT_EQ(sticky->base_name, "orders");
  EXPECT_FALSE(sticky->is_root());
  EXPECT_FALSE(sticky->is_child());
  EXPECT_EQ(sticky->PersistenceName(), "host-1");
  EXPECT_EQ(ToTaskQueue(*sticky).normal_name(), "orders");
  EXPECT_EQ(*PartitionOf(ToTaskQueue(*sticky), "ns", TaskType::kWorkflow), *sticky);
  // Older workers do not say what their normal queue is.
  EXPECT_TRUE(
      PartitionOf(Queue("host-1", enums::TASK_QUEUE_KIND_STICKY), "ns", TaskType::kWorkflow).ok());

  const auto commands =
      PartitionOf(Queue("w1", enums::TASK_QUEUE_KIND_WORKER_COMMANDS), "ns", TaskType::kNexus);
  ASSERT_TRUE(commands.ok());
  EXPECT_EQ(commands->RpcName(), "w1");
  EXPECT_EQ(*PartitionOf(ToTaskQueue(*commands), "ns", TaskType::kNexus), *commands);
}

TEST(TaskQueueName, WhatDoesNotGoTogetherIsRefused) {
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;
  for (const char* name :
       {"", "/_sys/", "/_sys/q", "/_sys//1", "/_sys/q/", "/_sys/q/0", "/_sys/q/-1", "/_sys/q/+1",
        "/_sys/q/01", "/_sys/q/1x", "/_sys/q/x", "/_sys/q/99999999999999999999", "/_sys/q/1000001",
        "/_sys//_sys/q/1/2"}) {
    EXPECT_EQ(CodeOf(Queue(name)), kInvalid) << name;
  }
  EXPECT_EQ(CodeOf(Queue(std::string(1'001, 'a'))), kInvalid);
  EXPECT_EQ(CodeOf(Queue(std::string(1'000, 'a'))), StatusCode::kOk);
  EXPECT_EQ(CodeOf(Queue("q", static_cast<enums::TaskQueueKind>(4))), kInvalid);
  EXPECT_EQ(CodeOf(Queue("q", enums::TASK_QUEUE_KIND_NORMAL, "n")), kInvalid);
  EXPECT_EQ(CodeOf(Queue("/_sys/q/1", enums::TASK_QUEUE_KIND_STICKY, "n")), kInvalid);
  EXPECT_EQ(CodeOf(Queue("q", enums::TASK_QUEUE_KIND_STICKY, "n"), TaskType::kActivity), kInvalid);
  EXPECT_EQ(CodeOf(Queue("q", enums::TASK_QUEUE_KIND_STICKY, std::string(1'001, 'n'))), kInvalid);
  EXPECT_EQ(CodeOf(Queue("q", enums::TASK_QUEUE_KIND_WORKER_COMMANDS)), kInvalid);
  EXPECT_EQ(CodeOf(Queue("/_sys/q/1", enums::TASK_QUEUE_KIND_WORKER_COMMANDS), TaskType::kNexus),
            kInvalid);
  EXPECT_EQ(PartitionOf(Queue("q"), "", TaskType::kWorkflow).code(), kInvalid);
  EXPECT_EQ(TaskTypeOf(0).code(), kInvalid);
  EXPECT_EQ(TaskTypeOf(4).code(), kInvalid);
  EXPECT_EQ(*TaskTypeOf(3), TaskType::kNexus);
}

TEST(TaskQueueName, PartitionMessagesAreReadAlike) {
  PbPartition from;
  from.set_task_queue("orders");
  from.set_task_queue_type(enums::TASK_QUEUE_TYPE_ACTIVITY);
  EXPECT_EQ(PartitionOf(from, "ns")->RpcName(), "orders");
  from.set_normal_partition_id(4);
  EXPECT_EQ(PartitionOf(from, "ns")->RpcName(), "/_sys/orders/4");
  from.set_normal_partition_id(-1);
  EXPECT_EQ(PartitionOf(from, "ns").code(), StatusCode::kInvalidArgument);
  from.set_sticky_name("host-1");
  EXPECT_EQ(PartitionOf(from, "ns").code(), StatusCode::kInvalidArgument);
  from.set_task_queue_type(enums::TASK_QUEUE_TYPE_WORKFLOW);
  EXPECT_EQ(PartitionOf(from, "ns")->RpcName(), "host-1");
  from.mutable_worker_commands();
  EXPECT_EQ(PartitionOf(from, "ns").code(), StatusCode::kInvalidArgument);
  from.set_task_queue_type(enums::TASK_QUEUE_TYPE_NEXUS);
  EXPECT_EQ(PartitionOf(from, "ns")->kind, QueueKind::kWorkerCommands);
  for (const char* name : {"", "/_sys/q/1"}) {
    from.set_task_queue(name);
    EXPECT_EQ(PartitionOf(from, "ns").code(), StatusCode::kInvalidArgument) << name;
  }
  from.set_task_queue("q");
  from.set_task_queue_type(enums::TASK_QUEUE_TYPE_UNSPECIFIED);
  EXPECT_EQ(PartitionOf(from, "ns").code(), StatusCode::kInvalidArgument);
}

TEST(TaskQueueName, EveryPartitionsPathLeadsToTheRoot) {
  for (int degree = 1; degree <= 25; ++degree) {
    std::set<int> with_children;
    for (int child = 1; child < 300; ++child) {
      const int parent = ParentPartition(child, degree);
      EXPECT_EQ(parent,
                (child + degree - 1) / degree - 1);  // As the clients of the cluster have it.
      EXPECT_LT(parent, child);
      EXPECT_GE(parent, 0);
    }
  }
  const Partition root{"ns", "q", {}, TaskType::kWorkflow, QueueKind::kNormal, 0};
  EXPECT_EQ(root.Sibling(21).Parent(20), root.Sibling(1));
  EXPECT_EQ(root.Sibling(20).Parent(20), root);
}

TEST(TaskQueueName, StoredNames) {
  const Partition root{"ns", "orders", {}, TaskType::kActivity, QueueKind::kNormal, 0};
  const Partition third = root.Sibling(3);
  EXPECT_EQ(third.UnversionedQueue(), (store::PhysicalQueueKey{"ns", "/_sys/orders/3", 2}));
  EXPECT_EQ(root.UnversionedQueue(), (store::PhysicalQueueKey{"ns", "orders", 2}));
  EXPECT_EQ(PersistenceNameOfBuildId(root, "1.0"), "/_sys/orders/MS4w#0");
  EXPECT_EQ(PersistenceNameOfBuildId(third, "v1"), "/_sys/orders/djE=#3");
  EXPECT_EQ(PersistenceNameOfBuildId(third, "\xff\xfe?"), "/_sys/orders/__4_#3");
  EXPECT_EQ(PersistenceNameOfDeployment(third, "dep", "v1"), "/_sys/orders/ZGVw|djE#3");
  EXPECT_EQ(PersistenceNameOfVersionSet(third, "set-1"), "/_sys/orders/set-1:3");
  EXPECT_EQ(third.RoutingKey(), "ns:/_sys/orders/3:2");
}

}  // namespace
}  // namespace millrace::temporal
