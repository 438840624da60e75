#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/time.h"
#include "millrace/cluster/members.h"
#include "millrace/store/node_table.h"

namespace millrace::cluster {

using MembersPtr = std::shared_ptr<const Members>;

// What one node knows of all nodes, as of one beat. Constant.
//
// A queue is served by its owner among `members`, and only while that node is `fresh`: its row in
// the table has surely not expired, so nobody else takes its queues. It is brought into memory only
// once nobody else can still have it: when the members are `settled`, that is when every live node
// has said that it gave up what is not its own among the same members; or, before that, when it was
// this node's all along.
struct View {
  std::string self;
  MembersPtr members = std::make_shared<const Members>();
  std::vector<store::NodeRow> nodes;  // All live ones, leaving ones too, by id.
  bool settled = false;
  // This node was not fresh for a while and gives up all queues before it serves any.
  bool recovering = false;
  Instant fresh_until{};
  // Members since the last settled ones, those included; empty = none to go by.
  std::vector<MembersPtr> since_settled;

  [[nodiscard]] bool Fresh(Instant now) const { return now < fresh_until; }
  // Tasks in memory are surely nobody else's.
  [[nodiscard]] bool MayLease(Instant now) const { return Fresh(now) && !recovering; }
  [[nodiscard]] bool MayLoad(std::string_view queue, Instant now) const;
  // Null when it is not alive.
  [[nodiscard]] const store::NodeRow* Find(std::string_view id) const;
};

using ViewPtr = std::shared_ptr<const View>;

}  // namespace millrace::cluster
