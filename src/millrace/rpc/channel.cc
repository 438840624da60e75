#include "millrace/rpc/channel.h"

#include <atomic>
#include <future>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/rpc/client_channel.h"

namespace millrace::rpc {
namespace {

class ChannelImpl final : public Channel {
 public:
  ChannelImpl(exec::EventLoop& loop, ChannelOptions options)
      : loop_(loop),
        message_bytes_max_(options.receive_message_bytes_max),
        core_(std::make_shared<ClientChannel>(loop, std::move(options))) {}

  ~ChannelImpl() override {
    if (loop_.InLoopThread()) {
      core_->Shutdown();
      return;
    }
    // The second post runs behind the callbacks that the first one posts, and its flush behind the
    // connections' end.
    std::promise<void> done;
    loop_.Post([this, &done] {
      core_->Shutdown();
      loop_.Post([this, &done] {
        core_ = nullptr;
        loop_.PostFlush([&done] { done.set_value(); });
      });
    });
    done.get_future().wait();
  }

  CallId Call(std::string_view method, std::string request, CallOptions options,
              UniqueFunction<void(CallResult)> done) override {
    auto call = std::make_unique<ClientCall>(message_bytes_max_);
    const CallId id = last_id_.fetch_add(1, std::memory_order_relaxed) + 1;
    call->id = id;
    call->method = method;
    call->request = std::move(request);
    call->options = std::move(options);
    call->done = std::move(done);
    if (loop_.InLoopThread()) {
      core_->Start(std::move(call));
    } else {
      loop_.Post(
          [core = core_, call = std::move(call)]() mutable { core->Start(std::move(call)); });
    }
    return id;
  }

  void Cancel(CallId call) override {
    if (loop_.InLoopThread()) {
      core_->Cancel(call);
    } else {
      loop_.Post([core = core_, call] { core->Cancel(call); });
    }
  }

 private:
  exec::EventLoop& loop_;
  const std::size_t message_bytes_max_;
  std::shared_ptr<ClientChannel> core_;
  std::atomic<CallId> last_id_ = 0;
};

}  // namespace

std::unique_ptr<Channel> Channel::Create(exec::EventLoop& loop, ChannelOptions options) {
  return std::make_unique<ChannelImpl>(loop, std::move(options));
}

CallResult CallAndWait(Channel& channel, std::string_view method, std::string request,
                       CallOptions options) {
  MR_CHECK(exec::Executor::Current() == nullptr);
  auto result = std::make_shared<std::promise<CallResult>>();
  channel.Call(method, std::move(request), std::move(options),
               [result](CallResult r) { result->set_value(std::move(r)); });
  return result->get_future().get();
}

}  // namespace millrace::rpc
