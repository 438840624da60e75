#include <gtest/gtest.h>

#include <string>

#include "millrace/rpc/keep_alive.h"
#include "millrace/rpc/peer_conduct.h"

namespace millrace::rpc {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using Step = KeepAlive::Step;

TEST(KeepAliveTest, SilenceIsAskedAboutAndThenGivenUp) {
  KeepAlive keep_alive(minutes(1), seconds(20));
  EXPECT_TRUE(keep_alive.enabled());
  EXPECT_EQ(keep_alive.wait(), minutes(1));
  EXPECT_EQ(keep_alive.OnTimer(), Step::kPing);
  EXPECT_EQ(keep_alive.wait(), seconds(20));
  EXPECT_EQ(keep_alive.OnTimer(), Step::kGiveUp);
}

TEST(KeepAliveTest, AnyByteIsASignOfLife) {
  KeepAlive keep_alive(minutes(1), seconds(20));
  keep_alive.OnBytes();
  EXPECT_EQ(keep_alive.OnTimer(), Step::kWait);
  EXPECT_EQ(keep_alive.wait(), minutes(1));
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(keep_alive.OnTimer(), Step::kPing);
    keep_alive.OnBytes();
    EXPECT_EQ(keep_alive.OnTimer(), Step::kWait);
    EXPECT_EQ(keep_alive.wait(), minutes(1));
  }
  EXPECT_FALSE(KeepAlive(Duration::zero(), seconds(20)).enabled());
}

TEST(PingPolicyTest, TwoPingsTooEarlyAreForgivenTheThirdIsNot) {
  PeerConduct conduct({.interval_min = seconds(5)});
  Instant now{1};
  EXPECT_EQ(conduct.OnPing(now, false), "");
  for (int i = 0; i < 10; ++i) {
    now = now + seconds(5);
    EXPECT_EQ(conduct.OnPing(now, false), "");
  }
  for (int i = 0; i < 2; ++i) {
    now = now + seconds(4);
    EXPECT_EQ(conduct.OnPing(now, true), "");
  }
  now = now + seconds(4);
  EXPECT_EQ(conduct.OnPing(now, true), "too_many_pings");
}

TEST(PingPolicyTest, WhatIsSentForgivesAll) {
  PeerConduct conduct({.interval_min = minutes(5)});
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(conduct.OnPing(Instant{1}, true), "");
    conduct.OnSent();
  }
}

TEST(PingPolicyTest, WithoutCallsPingsMayHaveToBeRare) {
  PeerConduct conduct({.interval_min = seconds(5), .only_with_calls = true});
  Instant now{1};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(conduct.OnPing(now, true), "");
    now = now + seconds(5);
  }
  for (int i = 0; i < 5; ++i) {
    now = now + hours(2);
    EXPECT_EQ(conduct.OnPing(now, false), "");
  }
  for (int i = 0; i < 2; ++i) {
    now = now + minutes(1);
    EXPECT_EQ(conduct.OnPing(now, false), "");
  }
  EXPECT_EQ(conduct.OnPing(now + minutes(1), false), "too_many_pings");
}

}  // namespace
}  // namespace millrace::rpc
