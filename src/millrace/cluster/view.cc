#include "millrace/cluster/view.h"

#include <algorithm>

namespace millrace::cluster {

bool View::MayLoad(std::string_view queue, Instant now) const {
  if (!MayLease(now) || !members->Owns(self, queue)) return false;
  if (settled) return true;
  return !since_settled.empty() &&
         std::all_of(since_settled.begin(), since_settled.end(),
                     [&](const MembersPtr& then) { return then->Owns(self, queue); });
}

const store::NodeRow* View::Find(std::string_view id) const {
  const auto it = std::find_if(nodes.begin(), nodes.end(),
                               [id](const store::NodeRow& node) { return node.id == id; });
  return it == nodes.end() ? nullptr : &*it;
}

}  // namespace millrace::cluster
