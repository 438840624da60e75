#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "millrace/exec/executor.h"
#include "millrace/rpc/service.h"
#include "millrace/sim_world/judge.h"

namespace millrace::sim {

// What server and client share of one simulated call.
struct CallState {
  Judge* judge = nullptr;
  exec::Executor* server_loop = nullptr;
  std::string what;  // For complaints.
  std::string request;
  Instant deadline = Instant::Max();  // On the server's clock.
  // Runs inside Finish, on the server, unless the server was cut off before.
  std::function<void(const rpc::RpcStatus&, const std::string& response)> on_finish;

  bool finished = false;
  bool cancelled = false;
  bool severed = false;  // The server crashed: what it says goes nowhere.
  Closure on_cancel;

  // The client vanished, reset the call, or its deadline passed. Called from outside of the server.
  static void Cancel(const std::shared_ptr<CallState>& state) {
    if (state->finished || state->cancelled) return;
    state->cancelled = true;
    PostCancel(state);
  }

  static void PostCancel(const std::shared_ptr<CallState>& state) {
    if (!state->on_cancel) return;
    state->server_loop->Post([state] {
      if (state->finished || !state->on_cancel) return;
      Closure run = std::move(state->on_cancel);
      state->on_cancel = nullptr;
      run();
    });
  }
};

// The server's end of a simulated call: no socket, no HTTP. Complains about a handler that drops or
// ends it twice.
class SimCall final : public rpc::ServerCall {
 public:
  explicit SimCall(std::shared_ptr<CallState> state) : state_(std::move(state)) {}
  ~SimCall() override {
    if (!state_->finished) state_->judge->Fail(state_->what + " was dropped without an answer");
  }
  SimCall(const SimCall&) = delete;
  SimCall& operator=(const SimCall&) = delete;

  [[nodiscard]] std::string_view request() const override { return state_->request; }
  [[nodiscard]] const rpc::Metadata& metadata() const override { return metadata_; }
  [[nodiscard]] Instant deadline() const override { return state_->deadline; }
  [[nodiscard]] std::string_view peer() const override { return "simulated"; }

  void OnCancel(Closure on_cancel) override {
    state_->on_cancel = std::move(on_cancel);
    if (state_->cancelled) CallState::PostCancel(state_);
  }
  [[nodiscard]] bool cancelled() const override { return state_->cancelled; }
  void AddTrailer(std::string, std::string) override {}

  void Finish(rpc::RpcStatus status, std::string response) override {
    if (state_->finished) {
      state_->judge->Fail(state_->what + " was answered twice");
      return;
    }
    state_->finished = true;
    state_->on_cancel = nullptr;
    // Moved out: it holds the client, and the client holds the state.
    const auto on_finish = std::exchange(state_->on_finish, nullptr);
    if (!state_->severed) on_finish(status, response);
  }

 private:
  const std::shared_ptr<CallState> state_;
  const rpc::Metadata metadata_;
};

}  // namespace millrace::sim
