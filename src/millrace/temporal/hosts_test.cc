#include "millrace/temporal/hosts.h"

#include <gtest/gtest.h>

#include <string>

#include "millrace/temporal/history_hosts.h"

namespace millrace::temporal {
namespace {

constexpr char kNamespace[] = "11111111-2222-3333-4444-555555555555";

// The numbers are Go's.
TEST(Hosts, ShardsAndHostsAreThoseOfTheCluster) {
  const auto shards = [](const char* workflow) {
    return std::vector<std::int32_t>{HistoryShardOf(kNamespace, workflow, 1),
                                     HistoryShardOf(kNamespace, workflow, 4),
                                     HistoryShardOf(kNamespace, workflow, 512)};
  };
  EXPECT_EQ(shards(""), (std::vector<std::int32_t>{1, 3, 191}));
  EXPECT_EQ(shards("wf"), (std::vector<std::int32_t>{1, 4, 24}));
  EXPECT_EQ(shards("order-17"), (std::vector<std::int32_t>{1, 4, 376}));
  EXPECT_EQ(shards("f\xc3\xbc\xc3\x9f"), (std::vector<std::int32_t>{1, 1, 249}));
  struct {
    std::int32_t shard;
    std::size_t of_2;
    std::size_t of_3;
  } const hosts[] = {{1, 1, 2}, {2, 1, 0}, {3, 1, 1}, {4, 1, 1}, {100, 0, 2}, {512, 1, 0}};
  for (const auto& host : hosts) {
    EXPECT_EQ(HistoryHostOf(host.shard, 1), 0U);
    EXPECT_EQ(HistoryHostOf(host.shard, 2), host.of_2) << host.shard;
    EXPECT_EQ(HistoryHostOf(host.shard, 3), host.of_3) << host.shard;
  }
}

TEST(Hosts, PartitionsSpreadAsGosDo) {
  Partition root{kNamespace, "orders", {}, TaskType::kWorkflow, QueueKind::kNormal, 0};
  EXPECT_EQ(MatchingHostOf(root, 2), 0U);
  EXPECT_EQ(MatchingHostOf(root, 3), 2U);
  root.type = TaskType::kActivity;
  EXPECT_EQ(MatchingHostOf(root.Sibling(3), 2), 1U);
  EXPECT_EQ(MatchingHostOf(root.Sibling(3), 3), 2U);
  const Partition sticky{kNamespace,          "orders",           "host-1-sticky",
                         TaskType::kWorkflow, QueueKind::kSticky, 0};
  EXPECT_EQ(MatchingHostOf(sticky, 2), 0U);
  EXPECT_EQ(MatchingHostOf(sticky, 3), 2U);
}

TEST(HistoryHosts, AShardThatMovedIsFoundUntilItIsForgotten) {
  HistoryHosts hosts({"a:1", "b:1"});
  const std::string listed = hosts.HostOf(1);
  EXPECT_EQ(listed, "b:1");
  EXPECT_TRUE(hosts.Learn(1, "c:1"));
  EXPECT_EQ(hosts.HostOf(1), "c:1");
  EXPECT_EQ(hosts.HostOf(2), "b:1");
  hosts.Forget(1, "a:1");  // Says nothing about where it was learned to be.
  EXPECT_EQ(hosts.HostOf(1), "c:1");
  hosts.Forget(1, "c:1");
  EXPECT_EQ(hosts.HostOf(1), "b:1");
  EXPECT_TRUE(hosts.Learn(1, "a:1"));
  EXPECT_TRUE(hosts.Learn(1, "b:1"));  // Home again.
  EXPECT_EQ(hosts.HostOf(1), "b:1");
}

TEST(HistoryHosts, NonsenseIsNotLearned) {
  HistoryHosts hosts({"a:1"});
  for (const std::string& bad :
       {std::string(), std::string("host"), std::string("host:"), std::string(":1"),
        std::string("host:0"), std::string("host:65536"), std::string("host:1x"),
        std::string("ho st:1"), std::string("ho\nst:1"), std::string(300, 'a') + ":1"}) {
    EXPECT_FALSE(hosts.Learn(1, bad)) << bad;
    EXPECT_EQ(hosts.HostOf(1), "a:1") << bad;
  }
  EXPECT_TRUE(IsHostAddress("[::1]:7234"));
  EXPECT_TRUE(IsHostAddress("history-0.history.svc:7234"));
}

TEST(HistoryHosts, WhatItLearnsIsBounded) {
  HistoryHosts hosts({"a:1"});
  for (int i = 1; i <= 200; ++i) {
    const std::string host = "h" + std::to_string(i) + ":1";
    const bool room = i <= static_cast<int>(HistoryHosts::kHostsMax);
    EXPECT_EQ(hosts.Learn(i, host), room) << i;
    EXPECT_EQ(hosts.HostOf(i), room ? host : "a:1");
  }
}

}  // namespace
}  // namespace millrace::temporal
