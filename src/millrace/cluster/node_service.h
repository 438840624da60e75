#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/rpc/service.h"
#include "millrace/store/node_table.h"

namespace millrace::cluster {

// millrace.v1.NodeService: who is there.
//
// Thread: handlers from any.
class NodeService {
 public:
  struct Answer {
    std::vector<store::NodeRow> nodes;
    std::string self;
    bool settled = false;
  };
  // `look`: any thread, waits for nothing.
  explicit NodeService(std::function<Answer()> look) : look_(std::move(look)) {}

  // The service must outlive the table's use.
  void Register(rpc::ServiceTable& table);

 private:
  void List(std::unique_ptr<rpc::ServerCall> call) const;

  std::function<Answer()> look_;
};

}  // namespace millrace::cluster
