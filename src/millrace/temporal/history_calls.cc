#include "millrace/temporal/history_calls.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/hosts.h"

namespace millrace::temporal {

HistoryCalls::HistoryCalls(HistoryClientConfig config, std::vector<exec::EventLoop*> loops)
    : config_(std::move(config)),
      loops_(std::move(loops)),
      hosts_(config_.hosts),
      channels_(loops_.size()) {
  MR_CHECK(!loops_.empty());
}

std::int32_t HistoryCalls::ShardOf(std::string_view namespace_id,
                                   std::string_view workflow_id) const {
  return HistoryShardOf(namespace_id, workflow_id, config_.shards);
}

std::size_t HistoryCalls::LoopHere() const {
  const auto it = std::find(loops_.begin(), loops_.end(), exec::Executor::Current());
  return it == loops_.end() ? 0 : static_cast<std::size_t>(it - loops_.begin());
}

void HistoryCalls::Post(Closure closure) { loops_[LoopHere()]->Post(std::move(closure)); }

void HistoryCalls::Start(std::unique_ptr<HistoryCall> call) {
  {
    MutexLock lock(mutex_);
    ++calls_;
  }
  call->loop = LoopHere();
  call->backoff = config_.backoff_min;
  call->host = hosts_.HostOf(call->shard);
  Ask(std::move(call));
}

std::shared_ptr<rpc::Channel> HistoryCalls::ChannelTo(const std::string& host, std::size_t loop) {
  MutexLock lock(mutex_);
  if (closed_) return nullptr;
  std::shared_ptr<rpc::Channel>& channel = channels_[loop][host];
  if (channel == nullptr) {
    rpc::ChannelOptions options;
    options.target = host;
    options.receive_message_bytes_max = config_.reply_bytes_max;
    options.backoff_max = config_.backoff_max;
    // As often as a history service takes it.
    options.keepalive_time = std::chrono::minutes(5);
    channel = rpc::Channel::Create(*loops_[loop], std::move(options));
  }
  return channel;
}

void HistoryCalls::Ask(std::unique_ptr<HistoryCall> call) {
  const std::shared_ptr<rpc::Channel> channel = ChannelTo(call->host, call->loop);
  if (channel == nullptr) {
    exec::EventLoop& loop = *loops_[call->loop];
    loop.Post([self = shared_from_this(), call = std::move(call)]() mutable {
      self->End(std::move(call), {rpc::Code::kCancelled, "history client closed", {}}, {});
    });
    return;
  }
  rpc::CallOptions options;
  options.deadline = call->deadline;
  options.metadata.emplace_back("caller-type", "api");
  if (!call->caller.empty()) options.metadata.emplace_back("caller-name", call->caller);
  const std::string_view method = call->method;
  std::string request = call->request;
  channel->Call(
      method, std::move(request), std::move(options),
      [self = shared_from_this(), call = std::move(call)](rpc::CallResult result) mutable {
        self->OnAnswer(std::move(call), std::move(result));
      });
}

void HistoryCalls::OnAnswer(std::unique_ptr<HistoryCall> call, rpc::CallResult result) {
  if (result.status.ok()) {
    End(std::move(call), std::move(result.status), std::move(result.response));
    return;
  }
  const ServiceError error = ReadServiceError(result.status);
  if (error.kind == ErrorKind::kShardOwnershipLost) {
    hosts_.Forget(call->shard, call->host);
    const bool elsewhere =
        error.owner_host != call->host && hosts_.Learn(call->shard, error.owner_host);
    if (elsewhere && call->redirects < config_.redirects_max) {
      ++call->redirects;
      call->host = error.owner_host;
      Ask(std::move(call));
      return;
    }
    Rest(std::move(call), std::move(result.status));
    return;
  }
  if (error.kind != ErrorKind::kOther) {
    End(std::move(call), std::move(result.status), {});
    return;
  }
  switch (error.code) {
    case rpc::Code::kUnavailable:
      hosts_.Forget(call->shard, call->host);
      Rest(std::move(call), std::move(result.status));
      return;
    case rpc::Code::kInternal:
      if (++call->internal_tries < config_.internal_tries_max) {
        Rest(std::move(call), std::move(result.status));
        return;
      }
      break;
    case rpc::Code::kDeadlineExceeded:
      hosts_.Forget(call->shard, call->host);
      break;
    default:
      break;
  }
  End(std::move(call), std::move(result.status), {});
}

void HistoryCalls::Rest(std::unique_ptr<HistoryCall> call, rpc::RpcStatus why) {
  // Between half of it and all of it, so that those who were turned away together do not come back
  // together.
  const auto half = static_cast<std::uint64_t>(call->backoff.count() / 2);
  const Duration wait(static_cast<std::int64_t>(half + random_.Below(half + 1)));
  call->backoff = std::min(call->backoff * 2, config_.backoff_max);
  exec::EventLoop& loop = *loops_[call->loop];
  const Instant until = loop.clock().Now() + wait;
  if (until < call->deadline) {
    MutexLock lock(mutex_);
    if (!closed_) {
      const std::uint64_t id = ++last_resting_;
      Resting& resting = resting_[id];
      resting.call = std::move(call);
      resting.timer = loop.PostAt(until, [self = shared_from_this(), id] { self->Resume(id); });
      return;
    }
    why = {rpc::Code::kCancelled, "history client closed", {}};
  }
  End(std::move(call), std::move(why), {});
}

void HistoryCalls::Resume(std::uint64_t resting) {
  std::unique_ptr<HistoryCall> call;
  {
    MutexLock lock(mutex_);
    auto node = resting_.extract(resting);
    if (node.empty()) return;
    call = std::move(node.mapped().call);
  }
  call->host = hosts_.HostOf(call->shard);
  call->redirects = 0;
  Ask(std::move(call));
}

void HistoryCalls::End(std::unique_ptr<HistoryCall> call, rpc::RpcStatus status,
                       std::string response) {
  auto done = std::move(call->done);
  call.reset();
  done(std::move(status), std::move(response));
  MutexLock lock(mutex_);
  --calls_;
  ended_.NotifyAll();
}

void HistoryCalls::Close() {
  std::map<std::uint64_t, Resting> resting;
  std::vector<std::map<std::string, std::shared_ptr<rpc::Channel>>> channels;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    resting.swap(resting_);
    channels.swap(channels_);
  }
  for (auto& [id, entry] : resting) {
    loops_[entry.call->loop]->CancelTimer(entry.timer);
    End(std::move(entry.call), {rpc::Code::kCancelled, "history client closed", {}}, {});
  }
  channels.clear();
  MutexLock lock(mutex_);
  while (calls_ > 0) ended_.Wait(mutex_);
}

}  // namespace millrace::temporal
