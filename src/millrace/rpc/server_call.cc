#include "millrace/rpc/server_call.h"

#include <utility>

#include "millrace/base/check.h"

namespace millrace::rpc {
namespace {

constexpr std::size_t kOutboxBytesMax = 64u << 10;

class UnaryHandle final : public ServerCall {
 public:
  explicit UnaryHandle(std::shared_ptr<CallState> state) : state_(std::move(state)) {}
  ~UnaryHandle() override {
    if (!finished_) Finish({Code::kInternal, "the call was dropped by its handler", {}}, {});
  }

  [[nodiscard]] std::string_view request() const override { return state_->request; }
  [[nodiscard]] const Metadata& metadata() const override { return state_->metadata; }
  [[nodiscard]] Instant deadline() const override { return state_->deadline; }
  [[nodiscard]] std::string_view peer() const override { return *state_->peer; }
  void OnCancel(Closure on_cancel) override { state_->OnCancel(std::move(on_cancel)); }
  [[nodiscard]] bool cancelled() const override { return state_->cancelled(); }
  void AddHeader(std::string name, std::string value) override {
    state_->MutableReplyMetadata().headers.emplace_back(std::move(name), std::move(value));
  }
  void AddTrailer(std::string name, std::string value) override {
    state_->MutableReplyMetadata().trailers.emplace_back(std::move(name), std::move(value));
  }
  void Finish(RpcStatus status, std::string response) override {
    MR_CHECK(!finished_);
    finished_ = true;
    state_->Finish(std::move(status), std::move(response));
  }

 private:
  const std::shared_ptr<CallState> state_;
  bool finished_ = false;
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
    state_->MutableReplyMetadata().headers.emplace_back(std::move(name), std::move(value));
  }
  void AddTrailer(std::string name, std::string value) override {
    state_->MutableReplyMetadata().trailers.emplace_back(std::move(name), std::move(value));
  }
  void Read(ReadCallback done) override { state_->Read(std::move(done)); }
  void Write(std::string message, WriteCallback done) override {
    state_->Write(std::move(message), std::move(done));
  }
  void Finish(RpcStatus status) override {
    MR_CHECK(!finished_);
    finished_ = true;
    state_->Finish(std::move(status), {});
  }

 private:
  const std::shared_ptr<CallState> state_;
  bool finished_ = false;
};

}  // namespace

CallState::CallState(exec::EventLoop& call_loop, CallSink* call_sink,
                     std::shared_ptr<const std::string> call_peer, std::size_t message_bytes_max)
    : loop(call_loop),
      peer(std::move(call_peer)),
      sink(call_sink),
      message_reader(message_bytes_max) {}

CallState::ReplyMetadata& CallState::MutableReplyMetadata() {
  if (reply_metadata == nullptr) reply_metadata = std::make_unique<ReplyMetadata>();
  return *reply_metadata;
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
  if (loop.InLoopThread() && streaming == nullptr) {
    if (sink == nullptr || replied) return;
    status = std::move(with_status);
    response = std::move(with_response);
    sink->OnFinished(*this);
    return;
  }
  // A stream's end goes the way its writes go, so that it stays behind them.
  loop.Post([call = shared_from_this(), with_status = std::move(with_status),
             with_response = std::move(with_response)]() mutable {
    if (call->sink == nullptr || call->replied) return;
    call->status = std::move(with_status);
    call->response = std::move(with_response);
    call->sink->OnFinished(*call);
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
    if (streaming->reader) {
      loop.Post([done = std::move(streaming->reader)]() mutable { done(std::nullopt); });
    }
    if (streaming->writer) {
      loop.Post([done = std::move(streaming->writer)]() mutable { done(false); });
    }
  }
  Cancel();
}

void CallState::Read(ServerStream::ReadCallback done) {
  loop.Post([call = shared_from_this(), done = std::move(done)]() mutable {
    StreamState& stream = *call->streaming;
    MR_CHECK(!stream.reader);
    if (!stream.inbox.empty()) {
      std::string message = std::move(stream.inbox.front());
      stream.inbox.pop_front();
      stream.inbox_bytes -= message.size() + kMessagePrefixBytes;
      if (call->sink != nullptr) call->sink->OnConsumed(*call);
      done(std::move(message));
    } else if (stream.inbox_ended || call->sink == nullptr || call->replied) {
      done(std::nullopt);
    } else {
      stream.reader = std::move(done);
    }
  });
}

void CallState::DeliverMessage(std::string message) {
  if (!streaming->reader) {
    streaming->inbox_bytes += message.size() + kMessagePrefixBytes;
    streaming->inbox.push_back(std::move(message));
    return;
  }
  loop.Post([done = std::move(streaming->reader), message = std::move(message)]() mutable {
    done(std::move(message));
  });
}

void CallState::DeliverEnd() {
  streaming->inbox_ended = true;
  if (!streaming->reader) return;
  loop.Post([done = std::move(streaming->reader)]() mutable { done(std::nullopt); });
}

void CallState::Write(std::string message, ServerStream::WriteCallback done) {
  loop.Post(
      [call = shared_from_this(), message = std::move(message), done = std::move(done)]() mutable {
        StreamState& stream = *call->streaming;
        MR_CHECK(!stream.writer);
        if (call->sink == nullptr || call->replied) {
          done(false);
          return;
        }
        stream.outbox_bytes += message.size() + kMessagePrefixBytes;
        stream.outbox.push_back(std::move(message));
        stream.writer = std::move(done);
        call->sink->OnWritten(*call);
        call->MaybeResumeWriter();
      });
}

bool CallState::NextOutgoing() {
  if (streaming == nullptr || streaming->outbox.empty()) return false;
  response = std::move(streaming->outbox.front());
  streaming->outbox.pop_front();
  response_sent = 0;
  has_response = true;
  return true;
}

void CallState::MaybeResumeWriter() {
  if (streaming == nullptr || !streaming->writer || streaming->outbox_bytes > kOutboxBytesMax)
    return;
  loop.Post([done = std::move(streaming->writer)]() mutable { done(true); });
}

std::unique_ptr<ServerCall> MakeServerCall(std::shared_ptr<CallState> state) {
  return std::make_unique<UnaryHandle>(std::move(state));
}

std::unique_ptr<ServerStream> MakeServerStream(std::shared_ptr<CallState> state) {
  return std::make_unique<StreamHandle>(std::move(state));
}

}  // namespace millrace::rpc
