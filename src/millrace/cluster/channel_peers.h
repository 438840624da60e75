#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/mutex.h"
#include "millrace/cluster/peers.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"

namespace millrace::cluster {

// Peers over gRPC: per node one channel on each event loop, so that a call that is passed on stays
// on the loop it came in on.
//
// Thread: any; `done` runs on the loop that made the call (the first one when it was none). Bounds:
// connections: nodes times loops; calls as given. Destroy only after Close is done.
class ChannelPeers final : public Peers {
 public:
  // `options`: what is the same for all; the target is each node's own.
  ChannelPeers(const std::string& self, std::vector<exec::EventLoop*> loops,
               rpc::ChannelOptions options);
  ~ChannelPeers() override;

  CallId Call(const store::NodeRow& node, std::string_view method, std::string request,
              Instant deadline, UniqueFunction<void(rpc::CallResult)> done) override;
  void Cancel(CallId call) override;
  void Keep(const std::vector<store::NodeRow>& nodes) override;

  // Ends every call. `done` runs once, on a loop, after the last of them. No call may be made any
  // more. Once.
  void Close(Closure done);

 private:
  // One process: an id that came back is another.
  using NodeKey = std::pair<std::string, std::uint64_t>;
  struct Node {
    std::uint64_t number = 0;
    std::vector<std::unique_ptr<rpc::Channel>> channels;  // By loop; null until used.
  };

  [[nodiscard]] std::size_t CurrentLoop() const;
  // Each channel is destroyed on its own loop, where that does not block. `then` runs once, after
  // the last of their calls' ends.
  void Drop(std::vector<Node> nodes, Closure then);

  const std::vector<exec::EventLoop*> loops_;
  const rpc::ChannelOptions options_;
  const rpc::Metadata passed_on_;

  Mutex mutex_;
  std::map<NodeKey, Node> nodes_ MR_GUARDED_BY(mutex_);
  std::uint64_t last_number_ MR_GUARDED_BY(mutex_) = 0;
  bool closed_ MR_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::cluster
