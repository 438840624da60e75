#include "millrace/sim_world/server_process.h"

#include <utility>

namespace millrace::sim {

ServerProcess::ServerProcess(Judge& judge, std::shared_ptr<SimHost> host, int number,
                             std::unique_ptr<ServedService> service)
    : judge_(judge), host_(std::move(host)), number_(number), service_(std::move(service)) {
  service_->Register(table_);
}

std::shared_ptr<CallState> ServerProcess::Call(
    const std::string& method, std::string request, Duration timeout,
    std::function<void(const rpc::RpcStatus&, const std::string&)> on_finish) {
  auto state = std::make_shared<CallState>();
  state->judge = &judge_;
  state->server_loop = &host_->loop(next_loop_++);
  state->what = "a call of " + method;
  state->request = std::move(request);
  state->deadline = host_->clock.Now() + timeout;
  state->on_finish = std::move(on_finish);
  state->severed = severed_;
  calls_.push_back(state);
  state->server_loop->Post([this, state, path = "/" + service_->name() + "/" + method] {
    table_.unary.at(path)(std::make_unique<SimCall>(state));
  });
  return state;
}

void ServerProcess::Sever() {
  severed_ = true;
  for (const auto& call : calls_) call->severed = true;
}

void ServerProcess::Stop() {
  if (stopping_) return;
  stopping_ = true;
  host_->loop(0).Post([this] { service_->Stop([this] { stopped_ = true; }); });
}

std::size_t ServerProcess::OpenCalls() {
  std::erase_if(calls_, [](const std::shared_ptr<CallState>& call) { return call->finished; });
  return calls_.size();
}

bool ServerProcess::Destroyable() {
  if (!stopped_ || OpenCalls() > 0 || host_->store.calls_in_flight() > 0) return false;
  for (const auto& loop : host_->loops) {
    if (loop->pending_closures() > 0) return false;
  }
  return true;
}

}  // namespace millrace::sim
