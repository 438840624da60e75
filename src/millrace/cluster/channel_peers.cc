#include "millrace/cluster/channel_peers.h"

#include <algorithm>

#include "millrace/base/check.h"

namespace millrace::cluster {

ChannelPeers::ChannelPeers(const std::string& self, std::vector<exec::EventLoop*> loops,
                           rpc::ChannelOptions options)
    : loops_(std::move(loops)), options_(std::move(options)), passed_on_{{kPassedOnBy, self}} {
  MR_CHECK(!loops_.empty());
}

ChannelPeers::~ChannelPeers() {
  MutexLock lock(mutex_);
  MR_CHECK(nodes_.empty());
}

std::size_t ChannelPeers::CurrentLoop() const {
  const exec::Executor* current = exec::Executor::Current();
  const auto it = std::find(loops_.begin(), loops_.end(), current);
  return it == loops_.end() ? 0 : static_cast<std::size_t>(it - loops_.begin());
}

Peers::CallId ChannelPeers::Call(const store::NodeRow& node, std::string_view method,
                                 std::string request, Instant deadline,
                                 UniqueFunction<void(rpc::CallResult)> done) {
  const std::size_t loop = CurrentLoop();
  MutexLock lock(mutex_);
  if (closed_) {
    loops_[loop]->Post([done = std::move(done)]() mutable {
      rpc::CallResult result;
      result.status = {rpc::Code::kCancelled, "the node is stopping", {}};
      result.never_sent = true;
      done(std::move(result));
    });
    return {};
  }
  Node& known = nodes_[{node.id, node.incarnation}];
  if (known.number == 0) {
    known.number = ++last_number_;
    known.channels.resize(loops_.size());
  }
  std::unique_ptr<rpc::Channel>& channel = known.channels[loop];
  if (channel == nullptr) {
    rpc::ChannelOptions options = options_;
    options.target = node.address;
    channel = rpc::Channel::Create(*loops_[loop], std::move(options));
  }
  rpc::CallOptions options;
  options.deadline = deadline;
  options.metadata = passed_on_;
  // Under the lock, so that the channel is not dropped meanwhile; nothing in it waits.
  const rpc::Channel::CallId id =
      channel->Call(method, std::move(request), std::move(options), std::move(done));
  return {known.number, loop, id};
}

void ChannelPeers::Cancel(CallId call) {
  MutexLock lock(mutex_);
  for (auto& [key, node] : nodes_) {
    if (node.number != call.node) continue;
    if (node.channels[call.loop] != nullptr) node.channels[call.loop]->Cancel(call.call);
    return;
  }
}

void ChannelPeers::Keep(const std::vector<store::NodeRow>& nodes) {
  std::vector<Node> gone;
  {
    MutexLock lock(mutex_);
    for (auto it = nodes_.begin(); it != nodes_.end();) {
      const bool there = std::any_of(nodes.begin(), nodes.end(), [&](const store::NodeRow& row) {
        return row.id == it->first.first && row.incarnation == it->first.second;
      });
      if (there) {
        ++it;
      } else {
        gone.push_back(std::move(it->second));
        it = nodes_.erase(it);
      }
    }
  }
  Drop(std::move(gone), [] {});
}

void ChannelPeers::Close(Closure done) {
  std::vector<Node> all;
  {
    MutexLock lock(mutex_);
    MR_CHECK(!closed_);
    closed_ = true;
    for (auto& [key, node] : nodes_) all.push_back(std::move(node));
    nodes_.clear();
  }
  Drop(std::move(all), std::move(done));
}

void ChannelPeers::Drop(std::vector<Node> nodes, Closure then) {
  // Runs when the last closure that shares it is gone.
  auto last = std::shared_ptr<Closure>(new Closure(std::move(then)), [](Closure* closure) {
    (*closure)();
    delete closure;
  });
  for (Node& node : nodes) {
    for (std::size_t i = 0; i < node.channels.size(); ++i) {
      if (node.channels[i] == nullptr) continue;
      exec::EventLoop& loop = *loops_[i];
      loop.Post([&loop, channel = std::move(node.channels[i]), last]() mutable {
        channel.reset();
        // Behind the ends of its calls, which that posted.
        loop.Post([last] {});
      });
    }
  }
}

}  // namespace millrace::cluster
