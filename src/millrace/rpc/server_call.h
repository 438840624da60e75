#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "millrace/base/annotations.h"
#include "millrace/base/function.h"
#include "millrace/base/mutex.h"
#include "millrace/base/time.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/block_pool.h"
#include "millrace/rpc/message_reader.h"
#include "millrace/rpc/message_writer.h"
#include "millrace/rpc/method_table.h"
#include "millrace/rpc/service.h"
#include "millrace/rpc/status.h"
#include "millrace/rpc/stream_inbox.h"
#include "millrace/rpc/stream_outbox.h"

namespace millrace::rpc {

class CallState;

// Metadata that a handler has set and not passed on yet.
struct HandlerMetadata {
  Metadata headers;
  Metadata trailers;
  bool gzip = false;  // The unary response is compressed.
};

// What a call's handle asks of the connection. Thread: the connection's loop.
class CallSink {
 public:
  // The handler has ended the call. `metadata` may be null.
  virtual void OnFinished(CallState& call, RpcStatus status, std::string response,
                          HandlerMetadata* metadata) = 0;
  // Messages were added to the stream's outbox.
  virtual void OnWritten(CallState& call) = 0;
  // The handler took a message out of the stream's inbox.
  virtual void OnConsumed(CallState& call) = 0;

 protected:
  ~CallSink() = default;
};

// What only a streaming call needs. Thread: the connection's loop.
struct StreamState {
  explicit StreamState(exec::Executor& loop) : inbox(loop), outbox(loop) {}

  StreamInbox inbox;
  StreamOutbox outbox;
  bool headers_sent = false;
  bool deferred = false;  // nghttp2 waits to be told of more data.
};

// What goes back to the client. Made when there is something to say, so that a waiting call is
// small. Thread: the connection's loop.
struct CallReply {
  RpcStatus status;
  Metadata headers;
  Metadata trailers;
  MessageWriter writer;
  bool gzip = false;  // The headers say that messages may be compressed.
  // An answer in plain text: the status' message.
  bool plain = false;
  std::uint32_t plain_sent = 0;
  std::uint32_t discarded_bytes = 0;  // Of the request, since then.
};

struct PooledDelete {
  void operator()(CallReply* reply) const {
    reply->~CallReply();
    GiveBlock(reply);
  }
};

// One call as both sides see it: the connection, which owns the stream, and the handle that the
// handler owns.
//
// Thread: as marked.
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
  // `announce_gzip`: this message or a later one may be compressed.
  void Write(OutgoingMessage message, bool announce_gzip, ServerStream::WriteCallback done);

  // --- The loop's thread.
  // Runs the cancel closure unless the handler has finished the call.
  void Cancel() MR_EXCLUDES(mutex_);
  // The stream is gone: cancels, and answers a waiting Read and Write.
  void Detach() MR_EXCLUDES(mutex_);
  CallReply& MutableReply();

  exec::EventLoop& loop;
  const std::shared_ptr<const std::string> peer;

  // --- Written on the loop before the handler is called, constant afterwards.
  std::string request;
  Metadata metadata;
  Instant deadline = Instant::Max();
  bool accepts_gzip = false;
  bool request_compressed = false;

  // --- The handler's; passed on with what it writes and finishes. Null = none.
  std::unique_ptr<HandlerMetadata> handler_metadata;
  HandlerMetadata& MutableHandlerMetadata();

  // --- The loop's.
  CallSink* sink;
  std::shared_ptr<CallState> self;  // Set while the stream is open.
  CallState* previous = nullptr;    // The connection's list of open streams.
  CallState* next = nullptr;
  std::int32_t stream_id = 0;
  Method* method = nullptr;
  MessageReader message_reader;
  exec::TimerId deadline_timer = 0;
  std::uint32_t charged_bytes = 0;        // Of the connection's bound on buffered requests.
  std::uint32_t reply_charged_bytes = 0;  // Of its bound on replies not taken.
  bool gzip = false;
  bool has_message = false;
  bool request_ended = false;
  bool replied = false;  // Status decided; the handler's is not wanted any more.
  std::unique_ptr<CallReply, PooledDelete> reply;
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
