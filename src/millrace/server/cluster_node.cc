#include "millrace/server/cluster_node.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

#include "millrace/server/host_port.h"

namespace millrace::server {
namespace {

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

rpc::ChannelOptions PeerOptions(const ServerConfig& config) {
  rpc::ChannelOptions options;
  options.connect_timeout = config.node.expiry;
  options.backoff_max = config.node.heartbeat;
  // A reply is ours to pass on, whatever its size.
  options.receive_message_bytes_max = std::size_t{1} << 30;
  if (config.rpc.tls.cert_file.empty()) return options;
  const NodeSettings& node = config.node;
  const bool own = node.tls_cert_file.empty();
  options.tls = {.ca_file = node.tls_ca_file,
                 .cert_file = own ? config.rpc.tls.cert_file : node.tls_cert_file,
                 .key_file = own ? config.rpc.tls.key_file : node.tls_key_file,
                 .server_name = node.tls_server_name};
  return options;
}

}  // namespace

std::string DefaultNodeId(Random& random) {
  std::array<char, 16> suffix{};
  std::snprintf(suffix.data(), suffix.size(), "-%08x", static_cast<unsigned>(random.Next()));
  return HostName() + suffix.data();
}

std::string AdvertisedAddress(const std::string& address) {
  Result<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok() || (parsed->host != "0.0.0.0" && parsed->host != "::")) return address;
  parsed->host = HostName();
  return parsed->ToString();
}

ClusterNode::ClusterNode(const ApplicationEnvironment& environment, queue::QueueService& service)
    : settings_(environment.config.node),
      id_(settings_.id.empty() ? DefaultNodeId(environment.random) : settings_.id),
      incarnation_(environment.random.Next()),
      clock_(environment.clock),
      random_(environment.random),
      log_(environment.log),
      metrics_(environment.metrics),
      home_(*environment.loops.front()),
      service_(service),
      queues_moved_(metrics_.GetCounter("millrace_node_queues_moved_total",
                                        "Queues given up because another node is to own them.")),
      table_(environment.config.postgres, settings_.expiry),
      async_table_(table_),
      peers_(id_, environment.loops, PeerOptions(environment.config)),
      router_(id_,
              {.patience = 2 * settings_.expiry + 3 * settings_.heartbeat,
               .poll_wait_max = environment.config.queue.poll_wait_max},
              home_, peers_, random_, metrics_, [this] { membership_->Nudge(); }),
      view_(std::make_shared<const cluster::View>()) {
  service_.SetLoadGate([this](const std::string& queue) { return MayLoad(queue); });
}

ClusterNode::~ClusterNode() = default;

void ClusterNode::Wrap(rpc::ServiceTable& table) { router_.Wrap(table); }

void ClusterNode::Start(const std::vector<std::string>& addresses) {
  cluster::MembershipConfig config;
  config.id = id_;
  config.incarnation = incarnation_;
  config.address = settings_.advertise_address.empty() ? AdvertisedAddress(addresses.front())
                                                       : settings_.advertise_address;
  config.heartbeat = settings_.heartbeat;
  config.expiry = settings_.expiry;
  config.hurried_beat = std::min(config.hurried_beat, settings_.heartbeat);
  log_.Write(LogLevel::kInfo, "cluster", "one of several nodes on this database",
             {{"node", std::string_view(id_)}, {"address", std::string_view(config.address)}});
  membership_ =
      std::make_unique<cluster::Membership>(config, async_table_, home_, random_, log_, metrics_,
                                            static_cast<cluster::MembershipListener&>(*this));
  membership_->Start();
}

void ClusterNode::BeginDrain() {
  router_.BeginDrain();
  if (membership_ != nullptr) membership_->Leave([] {});
}

void ClusterNode::Stop(Closure done) {
  auto after = [this, done = std::move(done)]() mutable {
    // Both run to their end by themselves; the second closure's end is the last.
    auto last = std::make_shared<Closure>(std::move(done));
    peers_.Close([this, last] { router_.Stop([last] { (*last)(); }); });
  };
  if (membership_ == nullptr) return after();
  membership_->Stop(std::move(after));
}

cluster::NodeService::Answer ClusterNode::Look() {
  MutexLock lock(mutex_);
  return {.nodes = view_->nodes, .self = id_, .settled = view_->settled};
}

void ClusterNode::OnView(const cluster::ViewPtr& view, bool changed) {
  {
    MutexLock lock(mutex_);
    view_ = view;
  }
  router_.OnView(view, changed);
}

bool ClusterNode::MayLoad(const std::string& queue) {
  cluster::ViewPtr view;
  {
    MutexLock lock(mutex_);
    view = view_;
  }
  return view->MayLoad(queue, home_.clock().Now());
}

void ClusterNode::GiveUp(const cluster::MembershipState::GiveUp& what, Closure done) {
  std::int64_t count = 0;
  service_.Unload(
      [&](const std::string& queue) {
        const bool gone = what.all || !what.members->Owns(id_, queue);
        count += gone ? 1 : 0;
        return gone;
      },
      std::move(done));
  if (count == 0) return;
  queues_moved_.Add(static_cast<std::uint64_t>(count));
  log_.Write(LogLevel::kInfo, "cluster", "queues given up", {{"queues", count}});
}

void ClusterNode::OnClock(Duration ahead) {
  if (ahead > std::chrono::seconds(5) || ahead < std::chrono::seconds(-5)) {
    log_.Write(LogLevel::kWarn, "cluster",
               "this machine's clock is not the database's; the database's counts",
               {{"seconds_behind", std::chrono::duration<double>(ahead).count()}});
  }
  clock_.Correct(ahead);
}

std::int64_t ClusterNode::LoadedQueues() {
  return static_cast<std::int64_t>(service_.loaded_queues());
}

}  // namespace millrace::server
