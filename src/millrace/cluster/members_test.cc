#include "millrace/cluster/members.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace millrace::cluster {
namespace {

constexpr int kQueues = 20'000;

std::string Queue(int i) {
  return "tenant-" + std::to_string(i % 17) + "/queue-" + std::to_string(i);
}

std::vector<Members::Member> Nodes(int count) {
  std::vector<Members::Member> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back({"node-" + std::to_string(i), 100u + i});
  return nodes;
}

TEST(Members, NobodyOwnsNothing) {
  const Members none;
  EXPECT_EQ(none.OwnerOf("q"), nullptr);
  EXPECT_FALSE(none.Owns("a", "q"));
  EXPECT_NE(none.fingerprint(), 0u);
}

TEST(Members, TheOrderTheyAreNamedInDoesNotMatter) {
  const Members one({{"a", 1}, {"b", 2}, {"c", 3}});
  const Members two({{"c", 3}, {"a", 1}, {"b", 2}});
  EXPECT_EQ(one.fingerprint(), two.fingerprint());
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(*one.OwnerOf(Queue(i)), *two.OwnerOf(Queue(i)));
}

// Nodes of different builds must agree.
TEST(Members, OwnersArePinned) {
  const Members members({{"a", 1}, {"b", 2}, {"c", 3}});
  std::string owners;
  for (int i = 0; i < 24; ++i) owners += *members.OwnerOf(Queue(i));
  EXPECT_EQ(owners, "cbaabbabbbbabbbbcbacbbbb");
}

TEST(Members, SharesAreEven) {
  for (const int nodes : {2, 3, 5, 16}) {
    const Members members(Nodes(nodes));
    std::map<std::string, int> shares;
    for (int i = 0; i < kQueues; ++i) ++shares[*members.OwnerOf(Queue(i))];
    ASSERT_EQ(shares.size(), static_cast<std::size_t>(nodes));
    const double fair = static_cast<double>(kQueues) / nodes;
    for (const auto& [id, share] : shares) {
      EXPECT_NEAR(share, fair, 0.1 * fair) << id << " of " << nodes;
    }
  }
}

TEST(Members, ANodeThatGoesLeavesOnlyItsOwnQueuesAndOneThatComesTakesOnlyItsShare) {
  const Members all(Nodes(5));
  std::vector<Members::Member> rest = Nodes(5);
  rest.erase(rest.begin() + 2);
  const Members fewer(rest);
  int moved = 0;
  for (int i = 0; i < kQueues; ++i) {
    const std::string& before = *all.OwnerOf(Queue(i));
    const std::string& after = *fewer.OwnerOf(Queue(i));
    if (before == "node-2") {
      ++moved;
    } else {
      EXPECT_EQ(before, after) << Queue(i);
    }
  }
  EXPECT_NEAR(moved, kQueues / 5, kQueues / 50);
}

TEST(Members, AFingerprintTellsSetsApart) {
  const Members one({{"a", 1}, {"b", 2}});
  EXPECT_NE(one.fingerprint(), Members({{"a", 1}}).fingerprint());
  EXPECT_NE(one.fingerprint(), Members({{"a", 1}, {"c", 2}}).fingerprint());
  EXPECT_NE(one.fingerprint(), Members({{"a", 1}, {"b", 3}}).fingerprint()) << "a new process";
  EXPECT_NE(one.fingerprint(), Members({{"a", 2}, {"b", 1}}).fingerprint());
}

}  // namespace
}  // namespace millrace::cluster
