#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/base/mutex.h"
#include "millrace/cluster/channel_peers.h"
#include "millrace/cluster/membership.h"
#include "millrace/cluster/node_service.h"
#include "millrace/cluster/router.h"
#include "millrace/queue/queue_service.h"
#include "millrace/server/application.h"
#include "millrace/store/postgres/pg_node_table.h"
#include "millrace/store/threaded_node_table.h"

namespace millrace::server {

// "host-name-1a2b3c4d".
std::string DefaultNodeId(Random& random);
// Where other nodes reach a server that listens at `address`: the host's own name in the place of
// "all addresses".
std::string AdvertisedAddress(const std::string& address);

// One of several nodes on a PostgreSQL database: its membership, its connections to the others, and
// the router before the queue service.
//
//   Wrap (before calls come) -> Start -> BeginDrain -> Stop
//
// Thread: as Application.
class ClusterNode final : private cluster::MembershipListener {
 public:
  ClusterNode(const ApplicationEnvironment& environment, queue::QueueService& service);
  ~ClusterNode() override;

  void Wrap(rpc::ServiceTable& table);
  void Start(const std::vector<std::string>& addresses);
  // Gives this node's queues to the others. Waits for tasks end; other calls are passed on.
  void BeginDrain();
  // The service has stopped. `done` runs once, on any thread.
  void Stop(Closure done);

  [[nodiscard]] cluster::NodeService::Answer Look();

 private:
  void OnView(const cluster::ViewPtr& view, bool changed) override;
  void GiveUp(const cluster::MembershipState::GiveUp& what, Closure done) override;
  void OnClock(Duration ahead) override;
  std::int64_t LoadedQueues() override;
  [[nodiscard]] bool MayLoad(const std::string& queue);

  const NodeSettings settings_;
  const std::string id_;
  const std::uint64_t incarnation_;
  StoreClock& clock_;
  Random& random_;
  Log& log_;
  Metrics& metrics_;
  exec::Executor& home_;
  queue::QueueService& service_;
  Counter& queues_moved_;
  store::PgNodeTable table_;
  store::ThreadedNodeTable async_table_;
  cluster::ChannelPeers peers_;
  cluster::Router router_;
  std::unique_ptr<cluster::Membership> membership_;  // From Start on.
  Mutex mutex_;
  cluster::ViewPtr view_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::server
