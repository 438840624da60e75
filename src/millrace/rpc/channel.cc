#include "millrace/rpc/channel.h"

#include <atomic>
#include <future>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/rpc/client_channel.h"
#include "millrace/rpc/gzip.h"

namespace millrace::rpc {
namespace {

// A message as it will be sent. Packed on the caller's thread, not the loop's.
OutgoingMessage Outgoing(std::string message, bool gzip) {
  // Nothing is not made smaller.
  if (!gzip || message.empty()) return {std::move(message), false};
  return {Gzip(message), true};
}

// Every request goes to the loop by a post, so that they arrive in the order they were made.
class StreamHandle final : public ClientStream {
 public:
  StreamHandle(exec::EventLoop& loop, std::shared_ptr<ClientChannel> core, Channel::CallId id,
               bool gzip)
      : loop_(loop), core_(std::move(core)), id_(id), gzip_(gzip) {}
  ~StreamHandle() override { Cancel(); }

  void ReadHeaders(HeadersCallback done) override {
    loop_.Post([core = core_, id = id_, done = std::move(done)]() mutable {
      core->ReadHeaders(id, std::move(done));
    });
  }
  void Read(ReadCallback done) override {
    loop_.Post([core = core_, id = id_, done = std::move(done)]() mutable {
      core->Read(id, std::move(done));
    });
  }
  void Write(std::string message, WriteCallback done) override {
    loop_.Post([core = core_, id = id_, message = Outgoing(std::move(message), gzip_),
                done = std::move(done)]() mutable {
      core->Write(id, std::move(message), std::move(done));
    });
  }
  void WritesDone() override {
    loop_.Post([core = core_, id = id_] { core->WritesDone(id); });
  }
  void Cancel() override {
    loop_.Post([core = core_, id = id_] { core->Cancel(id); });
  }

 private:
  exec::EventLoop& loop_;
  const std::shared_ptr<ClientChannel> core_;
  const Channel::CallId id_;
  const bool gzip_;
};

class ChannelImpl final : public Channel {
 public:
  ChannelImpl(exec::EventLoop& loop, ChannelOptions options)
      : loop_(loop), core_(std::make_shared<ClientChannel>(loop, std::move(options))) {}

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
    auto call = NewCall(method, std::move(options), std::move(done));
    const CallId id = call->id;
    call->writer.Begin(Outgoing(std::move(request), call->options.gzip));
    Start(std::move(call));
    return id;
  }

  std::unique_ptr<ClientStream> Stream(std::string_view method, CallOptions options,
                                       UniqueFunction<void(CallResult)> done) override {
    const bool gzip = options.gzip;
    auto call = NewCall(method, std::move(options), std::move(done));
    call->stream = std::make_unique<ClientStreamState>(loop_);
    auto handle = std::make_unique<StreamHandle>(loop_, core_, call->id, gzip);
    loop_.Post([core = core_, call = std::move(call)]() mutable { core->Start(std::move(call)); });
    return handle;
  }

  void Cancel(CallId call) override {
    if (loop_.InLoopThread()) {
      core_->Cancel(call);
    } else {
      loop_.Post([core = core_, call] { core->Cancel(call); });
    }
  }

 private:
  std::unique_ptr<ClientCall> NewCall(std::string_view method, CallOptions options,
                                      UniqueFunction<void(CallResult)> done) {
    auto call = std::make_unique<ClientCall>();
    call->id = last_id_.fetch_add(1, std::memory_order_relaxed) + 1;
    call->method = method;
    call->options = std::move(options);
    call->done = std::move(done);
    return call;
  }

  void Start(std::unique_ptr<ClientCall> call) {
    if (loop_.InLoopThread()) {
      core_->Start(std::move(call));
    } else {
      loop_.Post(
          [core = core_, call = std::move(call)]() mutable { core->Start(std::move(call)); });
    }
  }

  exec::EventLoop& loop_;
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
