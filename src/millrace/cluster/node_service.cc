#include "millrace/cluster/node_service.h"

#include <millrace/v1/node.pb.h>

#include "millrace/queue/request_checks.h"

namespace millrace::cluster {
namespace {

constexpr char kServiceName[] = "millrace.v1.NodeService";

}  // namespace

void NodeService::Register(rpc::ServiceTable& table) {
  table.unary.emplace("/" + std::string(kServiceName) + "/List",
                      [this](std::unique_ptr<rpc::ServerCall> call) { List(std::move(call)); });
  table.services.emplace_back(kServiceName);
}

void NodeService::List(std::unique_ptr<rpc::ServerCall> call) const {
  const Answer answer = look_();
  v1::ListNodesResponse response;
  for (const store::NodeRow& row : answer.nodes) {
    v1::Node* node = response.add_nodes();
    node->set_id(row.id);
    node->set_address(row.address);
    node->set_state(row.state == store::NodeState::kLeaving ? v1::NODE_STATE_LEAVING
                                                            : v1::NODE_STATE_SERVING);
    node->set_loaded_queues(row.queues);
    node->set_answering(row.id == answer.self);
    queue::ToProto(row.started, node->mutable_start_time());
    queue::ToProto(row.age, node->mutable_heartbeat_age());
  }
  response.set_settled(answer.settled);
  call->FinishOk(response.SerializeAsString());
}

}  // namespace millrace::cluster
