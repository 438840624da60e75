#include "millrace/sim_world/server_world.h"

#include <algorithm>
#include <utility>

namespace millrace::sim {
namespace {

using std::chrono::seconds;

}  // namespace

void ServerWorld::StartServer(std::size_t host) {
  const int life = ++server_lives_;
  servers_.push_back(
      std::make_shared<ServerProcess>(judge_, hosts_[host], life, Serve(host, life)));
  scheduler_.Trace("server", static_cast<std::int64_t>(host), hosts_[host]->life);
}

void ServerWorld::OnHostCrashing(std::size_t host) {
  for (const ServerPtr& server : servers_) {
    if (&server->host() != hosts_[host].get()) continue;
    server->Sever();
    OnSevered(*server);
  }
}

void ServerWorld::OnHostCrashed(std::size_t host) {
  for (const ServerPtr& server : servers_) {
    if (&server->host() == hosts_[host].get()) server->Stop();
  }
}

ServerWorld::ServerPtr ServerWorld::ServerOn(std::size_t host) const {
  if (hosts_[host] == nullptr) return nullptr;
  for (const ServerPtr& server : servers_) {
    if (&server->host() == hosts_[host].get() && !server->severed() && !server->stopping())
      return server;
  }
  return nullptr;
}

void ServerWorld::Call(const ServerPtr& server, const std::string& method, std::string request,
                       Duration timeout, Check check, Closure lost, Reply reply) {
  struct Client {
    bool done = false;     // The client has its answer, or has given up.
    bool checked = false;  // The server has answered.
    std::shared_ptr<CallState> state;
    exec::TimerId timer = 0;
    Closure lost;
    Reply reply;
  };
  auto client = std::make_shared<Client>();
  client->lost = std::move(lost);
  client->reply = std::move(reply);
  ++calls_open_;
  const auto end = [this, client](bool answered, const rpc::RpcStatus& status,
                                  const std::string& response) {
    if (client->done) return;
    client->done = true;
    driver_.CancelTimer(client->timer);
    --calls_open_;
    Reply run = std::move(client->reply);
    run(answered, status, response);
  };
  driver_.PostAt(world_clock_.Now() + NetworkDelay(),
                 [this, server, method, request = std::move(request), timeout,
                  check = std::move(check), client, end]() mutable {
                   if (client->done) {  // Gave up before it was sent.
                     if (client->lost) client->lost();
                     return;
                   }
                   if (server->severed()) {
                     client->checked = true;
                     if (client->lost) client->lost();
                     return end(false, {}, {});
                   }
                   client->state = server->Call(
                       method, std::move(request), timeout,
                       [this, client, end, check = std::move(check)](const rpc::RpcStatus& status,
                                                                     const std::string& response) {
                         client->checked = true;
                         check(status, response);
                         driver_.PostAt(world_clock_.Now() + NetworkDelay(),
                                        [end, status, response] { end(true, status, response); });
                       });
                   // A server that dies answers nobody; what it did is unknown.
                   client->timer =
                       driver_.PostAt(world_clock_.Now() + timeout, [client, end, server] {
                         CallState::Cancel(client->state);
                         // Otherwise the server still answers, to nobody, and the books hear of it
                         // then.
                         if (server->severed() && !client->checked && client->lost) client->lost();
                         end(false, {}, {});
                       });
                 });
}

void ServerWorld::StopSomething() {
  const std::size_t host = random().Below(hosts_.size());
  const ServerPtr server = ServerOn(host);
  if (server == nullptr) return;
  coverage_.Reach("act clean stop");
  server->Stop();
}

void ServerWorld::RestartCleanly() {
  for (const ServerPtr& server : servers_) server->Stop();
  std::vector<std::weak_ptr<ServerProcess>> old(servers_.begin(), servers_.end());
  const bool stopped = RunSteps(
      [&old] {
        return std::all_of(old.begin(), old.end(), [](const auto& weak) { return weak.expired(); });
      },
      seconds(90));
  judge_.Expect(stopped || judge_.failed(),
                [] { return "servers do not stop within 90 s without faults"; });
  if (!judge_.failed()) durable_.CheckAgainstStore();
}

void ServerWorld::BeginStop() {
  working_ = false;
  for (const ServerPtr& server : servers_) server->Stop();
}

void ServerWorld::Reap() {
  std::vector<std::size_t> restart;
  std::erase_if(servers_, [this, &restart](const ServerPtr& server) {
    if (!server->stopping() || server.use_count() > 1 || !server->Destroyable()) return false;
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].get() == &server->host()) restart.push_back(i);
    }
    return true;
  });
  if (working_) {
    for (const std::size_t host : restart) StartServer(host);
  }
  std::erase_if(old_hosts_,
                [](const std::shared_ptr<SimHost>& host) { return host.use_count() == 1; });
}

}  // namespace millrace::sim
