#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/base/annotations.h"
#include "millrace/base/function.h"
#include "millrace/base/mutex.h"
#include "millrace/base/time.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/message_reader.h"
#include "millrace/rpc/method_table.h"
#include "millrace/rpc/service.h"

namespace millrace::rpc {

class CallState;

// What a call's handle asks of the connection. Thread: the connection's loop.
class CallSink {
 public:
  // The call has `status` and, for a unary call, `response`.
  virtual void OnFinished(CallState& call) = 0;
  // Messages were added to the stream's outbox.
  virtual void OnWritten(CallState& call) = 0;
  // The handler took a message out of the stream's inbox.
  virtual void OnConsumed(CallState& call) = 0;

 protected:
  ~CallSink() = default;
};

// What only a streaming call needs. Thread: the connection's loop.
struct StreamState {
  std::deque<std::string> inbox;
  std::size_t inbox_bytes = 0;
  std::size_t withheld_bytes =
      0;  // Received, but the client was not told that it may send as much again.
  bool inbox_ended = false;
  ServerStream::ReadCallback reader;
  std::deque<std::string> outbox;  // Behind the message in CallState::response.
  std::size_t outbox_bytes = 0;
  ServerStream::WriteCallback writer;
  bool headers_sent = false;
  bool deferred = false;  // nghttp2 waits to be told of more data.
};

// One call as both sides see it: the connection, which owns the stream, and the handle that the
// handler owns.
//
// Thread: as marked. Handler-side fields pass to the loop with Finish.
// Invariants: `sink` is null once the stream is gone; nothing the handler does then has an effect.
class CallState : public std::enable_shared_from_this<CallState> {
 public:
  CallState(exec::EventLoop& loop, CallSink* sink, std::shared_ptr<const std::string> peer,
            std::size_t message_bytes_max);

  // --- Any thread.
  void OnCancel(Closure on_cancel) MR_EXCLUDES(mutex_);
  [[nodiscard]] bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  void Finish(RpcStatus with_status, std::string with_response) MR_EXCLUDES(mutex_);
  void Read(ServerStream::ReadCallback done);
  void Write(std::string message, ServerStream::WriteCallback done);

  // --- The loop's thread.
  // Runs the cancel closure unless the handler has finished the call.
  void Cancel() MR_EXCLUDES(mutex_);
  // The stream is gone: cancels, and answers a waiting Read and Write.
  void Detach() MR_EXCLUDES(mutex_);
  void DeliverMessage(std::string message);
  void DeliverEnd();
  // Moves the next outgoing message to `response`. False when there is none.
  bool NextOutgoing();
  // Tells a waiting writer when there is room again.
  void MaybeResumeWriter();

  exec::EventLoop& loop;
  const std::shared_ptr<const std::string> peer;

  // --- Written on the loop before the handler is called, constant afterwards.
  std::string request;
  Metadata metadata;
  Instant deadline = Instant::Max();

  // --- The handler's until Finish. Null = none.
  struct ReplyMetadata {
    Metadata headers;
    Metadata trailers;
  };
  std::unique_ptr<ReplyMetadata> reply_metadata;
  ReplyMetadata& MutableReplyMetadata();

  // --- The loop's.
  CallSink* sink;
  std::shared_ptr<CallState> self;  // Set while the stream is open.
  CallState* previous = nullptr;    // The connection's list of open streams.
  CallState* next = nullptr;
  std::int32_t stream_id = 0;
  Method* method = nullptr;
  MessageReader message_reader;
  exec::TimerId deadline_timer = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t charged_bytes = 0;        // Of the connection's bound on buffered requests.
  std::uint32_t reply_charged_bytes = 0;  // Of its bound on replies not taken.
  bool is_post = false;
  bool is_grpc = false;
  bool header_overflow = false;
  bool gzip = false;
  bool unknown_encoding = false;
  bool has_message = false;
  bool request_ended = false;
  bool handed_over = false;  // The handler has been called.
  bool replied = false;      // Status decided; the handler's is not wanted any more.

  RpcStatus status;               // Before the handler is called: why the request is refused.
  std::string response;           // The message being sent.
  std::size_t response_sent = 0;  // Of prefix and message together.
  bool has_response = false;
  std::unique_ptr<StreamState> streaming;

 private:
  Mutex mutex_;
  Closure on_cancel_ MR_GUARDED_BY(mutex_);
  bool finished_ MR_GUARDED_BY(mutex_) = false;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> detached_ = false;
};

// The handles given to handlers.
std::unique_ptr<ServerCall> MakeServerCall(std::shared_ptr<CallState> state);
std::unique_ptr<ServerStream> MakeServerStream(std::shared_ptr<CallState> state);

}  // namespace millrace::rpc
