#include "millrace/rpc/server_call.h"

#include <new>
#include <optional>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/rpc/gzip.h"

namespace millrace::rpc {
namespace {

class UnaryHandle final : public ServerCall {
 public:
  explicit UnaryHandle(std::shared_ptr<CallState> state) : state_(std::move(state)) {}
  ~UnaryHandle() override {
    if (!finished_) Finish({Code::kInternal, "the call was dropped by its handler", {}}, {});
  }

  [[nodiscard]] std::string_view request() const override { return state_->request; }
  [[nodiscard]] bool request_compressed() const override { return state_->request_compressed; }
  [[nodiscard]] const Metadata& metadata() const override { return state_->metadata; }
  [[nodiscard]] Instant deadline() const override { return state_->deadline; }
  [[nodiscard]] std::string_view peer() const override { return *state_->peer; }
  void OnCancel(Closure on_cancel) override { state_->OnCancel(std::move(on_cancel)); }
  [[nodiscard]] bool cancelled() const override { return state_->cancelled(); }
  void AddHeader(std::string name, std::string value) override {
    state_->MutableHandlerMetadata().headers.emplace_back(std::move(name), std::move(value));
  }
  void AddTrailer(std::string name, std::string value) override {
    state_->MutableHandlerMetadata().trailers.emplace_back(std::move(name), std::move(value));
  }
  void CompressResponse() override { compress_ = state_->accepts_gzip; }
  void Finish(RpcStatus status, std::string response) override {
    MR_CHECK(!finished_);
    finished_ = true;
    if (compress_ && status.ok()) {
      response = Gzip(response);
      state_->MutableHandlerMetadata().gzip = true;
    }
    state_->Finish(std::move(status), std::move(response));
  }

 private:
  const std::shared_ptr<CallState> state_;
  bool finished_ = false;
  bool compress_ = false;
};

class StreamHandle final : public ServerStream {
 public:
  explicit StreamHandle(std::shared_ptr<CallState> state) : state_(std::move(state)) {}
  ~StreamHandle() override {
    if (!finished_) Finish({Code::kInternal, "the call was dropped by its handler", {}});
  }

  [[nodiscard]] const Metadata& metadata() const override { return state_->metadata; }
  [[nodiscard]] Instant deadline() const override { return state_->deadline; }
  [[nodiscard]] std::string_view peer() const override { return *state_->peer; }
  void OnCancel(Closure on_cancel) override { state_->OnCancel(std::move(on_cancel)); }
  [[nodiscard]] bool cancelled() const override { return state_->cancelled(); }
  void AddHeader(std::string name, std::string value) override {
    state_->MutableHandlerMetadata().headers.emplace_back(std::move(name), std::move(value));
  }
  void AddTrailer(std::string name, std::string value) override {
    state_->MutableHandlerMetadata().trailers.emplace_back(std::move(name), std::move(value));
  }
  void Read(ReadCallback done) override { state_->Read(std::move(done)); }
  [[nodiscard]] bool read_compressed() const override {
    return state_->streaming->inbox.taken_compressed();
  }
  void CompressWrites(bool on) override {
    const bool possible = announce_gzip_ || !wrote_;
    compress_ = on && possible && state_->accepts_gzip;
    announce_gzip_ |= compress_;
  }
  void Write(std::string message, WriteCallback done) override {
    wrote_ = true;
    if (compress_) message = Gzip(message);
    state_->Write({std::move(message), compress_}, announce_gzip_, std::move(done));
  }
  void Finish(RpcStatus status) override {
    MR_CHECK(!finished_);
    finished_ = true;
    state_->Finish(std::move(status), {});
  }

 private:
  const std::shared_ptr<CallState> state_;
  bool finished_ = false;
  bool compress_ = false;
  bool announce_gzip_ = false;
  bool wrote_ = false;
};

}  // namespace

CallState::CallState(exec::EventLoop& call_loop, CallSink* call_sink,
                     std::shared_ptr<const std::string> call_peer, std::size_t message_bytes_max)
    : loop(call_loop),
      peer(std::move(call_peer)),
      sink(call_sink),
      message_reader(message_bytes_max) {}

HandlerMetadata& CallState::MutableHandlerMetadata() {
  if (handler_metadata == nullptr) handler_metadata = std::make_unique<HandlerMetadata>();
  return *handler_metadata;
}

CallReply& CallState::MutableReply() {
  if (reply == nullptr) reply.reset(new (TakeBlock(sizeof(CallReply))) CallReply);
  return *reply;
}

void CallState::OnCancel(Closure on_cancel) {
  Closure replaced;
  {
    MutexLock lock(mutex_);
    if (finished_) return;
    if (!cancelled()) {
      replaced = std::move(on_cancel_);
      on_cancel_ = std::move(on_cancel);
      return;
    }
  }
  loop.Post(std::move(on_cancel));
}

void CallState::Finish(RpcStatus with_status, std::string with_response) {
  Closure unused;
  {
    MutexLock lock(mutex_);
    finished_ = true;
    unused = std::move(on_cancel_);
  }
  if (detached_.load(std::memory_order_acquire)) return;
  std::unique_ptr<HandlerMetadata> with_metadata = std::move(handler_metadata);
  if (loop.InLoopThread() && streaming == nullptr) {
    if (sink == nullptr || replied) return;
    sink->OnFinished(*this, std::move(with_status), std::move(with_response), with_metadata.get());
    return;
  }
  // A stream's end goes the way its writes go, so that it stays behind them.
  loop.Post([call = shared_from_this(), with_status = std::move(with_status),
             with_response = std::move(with_response),
             with_metadata = std::move(with_metadata)]() mutable {
    if (call->sink == nullptr || call->replied) return;
    call->sink->OnFinished(*call, std::move(with_status), std::move(with_response),
                           with_metadata.get());
  });
}

void CallState::Cancel() {
  Closure run;
  {
    MutexLock lock(mutex_);
    cancelled_.store(true, std::memory_order_release);
    if (finished_) return;
    run = std::move(on_cancel_);
  }
  if (run) run();
}

void CallState::Detach() {
  sink = nullptr;
  detached_.store(true, std::memory_order_release);
  if (streaming != nullptr) {
    streaming->inbox.End();
    streaming->outbox.Close();
  }
  Cancel();
}

void CallState::Read(ServerStream::ReadCallback done) {
  loop.Post([call = shared_from_this(), done = std::move(done)]() mutable {
    // Once the status is decided nobody wants what the client may still send.
    if (call->replied && call->sink != nullptr) call->streaming->inbox.End();
    std::optional<std::string> message;
    if (!call->streaming->inbox.Take(&message)) {
      call->streaming->inbox.Wait(std::move(done));
      return;
    }
    if (call->sink != nullptr) call->sink->OnConsumed(*call);
    done(std::move(message));
  });
}

void CallState::Write(OutgoingMessage message, bool announce_gzip,
                      ServerStream::WriteCallback done) {
  Metadata headers;
  if (handler_metadata != nullptr) headers.swap(handler_metadata->headers);
  loop.Post([call = shared_from_this(), message = std::move(message), announce_gzip,
             done = std::move(done), headers = std::move(headers)]() mutable {
    if (call->sink == nullptr || call->replied) {
      done(false);
      return;
    }
    if (!call->streaming->headers_sent) {
      call->MutableReply().headers = std::move(headers);
      call->reply->gzip = announce_gzip;
    }
    call->streaming->outbox.Write(std::move(message), std::move(done));
    call->sink->OnWritten(*call);
  });
}

std::unique_ptr<ServerCall> MakeServerCall(std::shared_ptr<CallState> state) {
  return std::make_unique<UnaryHandle>(std::move(state));
}

std::unique_ptr<ServerStream> MakeServerStream(std::shared_ptr<CallState> state) {
  return std::make_unique<StreamHandle>(std::move(state));
}

}  // namespace millrace::rpc
