#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "millrace/base/function.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/message_writer.h"
#include "millrace/rpc/reply_reader.h"
#include "millrace/rpc/stream_inbox.h"
#include "millrace/rpc/stream_outbox.h"

namespace millrace::rpc {

class ClientConnection;

// What only an outgoing call with many messages needs. Thread: the channel's loop.
struct ClientStreamState {
  explicit ClientStreamState(exec::Executor& loop) : inbox(loop), outbox(loop) {}

  StreamInbox inbox;
  StreamOutbox outbox;
  ClientStream::HeadersCallback headers_reader;
  bool writes_done = false;
  bool deferred = false;  // nghttp2 waits to be told of more data.
  bool decided = false;   // The result is in place and waits for the messages to be read.
  // Messages that left, as long as the call may have to be sent again.
  std::deque<OutgoingMessage> sent;
  std::size_t sent_bytes = 0;
  bool repeatable = true;
};

// One outgoing call, waiting for a connection or on one. Thread: the channel's loop.
struct ClientCall {
  Channel::CallId id = 0;
  std::string method;
  MessageWriter writer;                       // A unary call's request stays in it.
  std::unique_ptr<ClientStreamState> stream;  // Null = unary.
  CallOptions options;
  UniqueFunction<void(CallResult)> done;
  exec::TimerId deadline_timer = 0;
  int attempts = 0;
  CallResult result;

  // --- This attempt.
  ClientConnection* connection = nullptr;  // Null while it waits for one.
  std::int32_t stream_id = 0;
  bool headers_sent = false;  // From here on the server may know of it.
  std::optional<ReplyReader> reply;

  // The request's last byte was produced.
  [[nodiscard]] bool request_ended() const;
  // Gives the next message to the writer. False when there is none.
  bool NextOutgoing();
  // The writer's message is out.
  void OnMessageSent();
  // The server has begun the call: it will not be sent again.
  void OnBegun();
  // Makes ready for another attempt. False when what was sent is not there any more.
  bool Rewind();
};

// How an attempt ended.
enum class AttemptOutcome : std::uint8_t {
  kFinal,      // The call's result is in place.
  kNotStarted  // The server surely did nothing: the call may be sent again. The result says why.
};

}  // namespace millrace::rpc
