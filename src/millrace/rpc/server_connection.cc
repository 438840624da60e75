#include "millrace/rpc/server_connection.h"

#include <array>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/rpc/block_pool.h"
#include "millrace/rpc/gzip.h"
#include "millrace/rpc/reply_frames.h"
#include "millrace/rpc/server_callbacks.h"

namespace millrace::rpc {
namespace {

constexpr std::int32_t kStreamWindowBytes = 1 << 20;
constexpr std::int32_t kConnectionWindowBytes = 4 << 20;
// Of a request that is no gRPC call; it is not wanted, but cut short only when it is long.
constexpr std::uint32_t kPlainRequestBytesMax = 16u << 10;
constexpr std::array<std::uint8_t, 8> kDrainPing = {'d', 'r', 'a', 'i', 'n', 'i', 'n', 'g'};
constexpr std::array<std::uint8_t, 8> kAlivePing = {'a', 'l', 'i', 'v', 'e', '?', ' ', ' '};

}  // namespace

ServerConnection::ServerConnection(const ServerOptions& options, MethodTable& methods, Log& log,
                                   exec::EventLoop& loop, Accepted accepted, Closure on_closed)
    : options_(options),
      methods_(methods),
      log_(log),
      loop_(loop),
      peer_(std::make_shared<const std::string>(std::move(accepted.peer))),
      on_closed_(std::move(on_closed)),
      socket_(loop, accepted.fd,
              accepted.tls == nullptr ? nullptr : TlsStream::Accept(accepted.tls, accepted.fd),
              options.send_stall_timeout, *this),
      session_(ServerCallbacks::NewSession(*this)),
      head_(methods, options.header_list_bytes_max),
      conduct_({options.ping_interval_min, options.ping_only_with_calls}),
      keep_alive_(options.keepalive_time, options.keepalive_timeout) {
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options_.concurrent_streams_max},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindowBytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
       static_cast<std::uint32_t>(options_.header_list_bytes_max)},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindowBytes);
  socket_.set_session(session_);
  ArmProgressTimer();
  if (options_.idle_timeout > Duration::zero()) ArmIdleTimer();
  if (accepted.age_max > Duration::zero()) {
    age_timer_ = loop_.PostAt(loop_.clock().Now() + accepted.age_max, [this] { OnOldAge(); });
  }
  socket_.ScheduleFlush();
}

ServerConnection::~ServerConnection() {
  MR_CHECK(closed_);
  nghttp2_session_del(session_);
}

// --- Requests.

void ServerConnection::OpenCall(std::int32_t stream_id) {
  auto call = std::allocate_shared<CallState>(BlockAllocator<CallState>(), loop_,
                                              static_cast<CallSink*>(this), peer_,
                                              options_.receive_message_bytes_max);
  CallState* raw = call.get();
  raw->stream_id = stream_id;
  raw->next = calls_;
  if (calls_ != nullptr) calls_->previous = raw;
  calls_ = raw;
  raw->self = std::move(call);
  ++calls_open_;
  ++calls_begun_;
  nghttp2_session_set_stream_user_data(session_, stream_id, raw);
  head_.Begin();
}

void ServerConnection::OnRequestHeaders(CallState& call) {
  std::string_view http_status;
  RpcStatus verdict = head_.Verdict(&http_status);
  call.method = head_.method();
  if (!verdict.ok()) {
    call.replied = true;
    call.MutableReply().status = std::move(verdict);
    if (head_.is_grpc_call() || http_status == "431") {
      SubmitTrailersOnly(session_, call, http_status, head_.unknown_encoding());
    } else {
      SubmitPlainText(session_, call, http_status);
    }
    socket_.ScheduleFlush();
    return;
  }
  call.metadata = std::move(head_.metadata);
  call.gzip = head_.gzip();
  call.accepts_gzip = head_.accepts_gzip();
  call.deadline = head_.deadline();
  if (call.deadline != Instant::Max()) {
    call.deadline_timer = loop_.PostAt(call.deadline, [this, &call] { OnDeadline(call); });
  }
  if (call.method->streaming) {
    call.streaming = std::make_unique<StreamState>(loop_);
    call.method->streaming(MakeServerStream(call.self));
  }
}

bool ServerConnection::Charge(CallState& call, std::size_t bytes) {
  if (buffered_request_bytes_ + bytes > options_.buffered_bytes_max) return false;
  buffered_request_bytes_ += bytes;
  call.charged_bytes += static_cast<std::uint32_t>(bytes);
  return true;
}

void ServerConnection::OnRequestData(CallState& call, std::string_view data) {
  const bool to_be_read = call.streaming != nullptr && !call.replied;
  const std::size_t may_come_again =
      to_be_read ? call.streaming->inbox.Withhold(data.size()) : data.size();
  if (may_come_again > 0) nghttp2_session_consume_stream(session_, call.stream_id, may_come_again);
  if (call.replied && call.reply->plain) {
    CallReply& reply = *call.reply;
    reply.discarded_bytes += static_cast<std::uint32_t>(data.size());
    if (reply.discarded_bytes > kPlainRequestBytesMax &&
        reply.plain_sent == reply.status.message.size()) {
      // All is said, and the client goes on and on.
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.stream_id, NGHTTP2_NO_ERROR);
      socket_.ScheduleFlush();
    }
  }
  while (!call.replied) {
    if (call.streaming == nullptr && !Charge(call, data.size())) {
      Reply(call, {Code::kResourceExhausted, "too many request bytes wait on this connection", {}});
      return;
    }
    switch (call.message_reader.Feed(&data)) {
      case MessageReader::Outcome::kNeedMore:
        return;
      case MessageReader::Outcome::kMessage:
        OnRequestMessage(call);
        break;
      case MessageReader::Outcome::kTooLarge:
        Reply(call, {Code::kResourceExhausted,
                     "request message of " + std::to_string(call.message_reader.announced_bytes()) +
                         " bytes is larger than the limit of " +
                         std::to_string(options_.receive_message_bytes_max),
                     {}});
        return;
      case MessageReader::Outcome::kBadFlag:
        Reply(call, {Code::kInternal, "malformed message prefix", {}});
        return;
    }
  }
}

void ServerConnection::OnRequestMessage(CallState& call) {
  if (call.streaming == nullptr && call.has_message) {
    Reply(call, {Code::kInternal, "more than one message in a unary call", {}});
    return;
  }
  const bool compressed = call.message_reader.compressed();
  std::string message = call.message_reader.TakeMessage();
  if (compressed) {
    if (!call.gzip) {
      Reply(call, {Code::kInternal, "compressed message without grpc-encoding", {}});
      return;
    }
    Result<std::string> unpacked = Gunzip(message, options_.receive_message_bytes_max);
    if (!unpacked.ok()) {
      const Code code = unpacked.code() == StatusCode::kResourceExhausted ? Code::kResourceExhausted
                                                                          : Code::kInternal;
      Reply(call, {code, std::string(unpacked.status().message()), {}});
      return;
    }
    message = std::move(unpacked).value();
    if (call.streaming == nullptr && !Charge(call, message.size())) {
      Reply(call, {Code::kResourceExhausted, "too many request bytes wait on this connection", {}});
      return;
    }
  }
  call.has_message = true;
  if (call.streaming != nullptr) {
    call.streaming->inbox.Push(std::move(message), compressed);
  } else {
    call.request = std::move(message);
    call.request_compressed = compressed;
  }
}

void ServerConnection::OnRequestEnd(CallState& call) {
  call.request_ended = true;
  if (call.replied) return;
  if (!call.message_reader.at_boundary()) {
    Reply(call, {Code::kInternal, "request ended inside a message", {}});
    return;
  }
  if (call.streaming != nullptr) {
    call.streaming->inbox.End();
    return;
  }
  if (!call.has_message) {
    Reply(call, {Code::kInternal, "request without a message", {}});
    return;
  }
  call.method->unary(MakeServerCall(call.self));
}

void ServerConnection::OnDeadline(CallState& call) {
  call.deadline_timer = 0;
  const std::shared_ptr<CallState> hold = call.self;
  const bool sending = call.reply != nullptr && call.reply->writer.busy();
  if (call.replied || sending || (call.streaming != nullptr && !call.streaming->outbox.empty())) {
    // There is something to send that the client does not take; a status would wait behind it.
    if (!std::exchange(call.replied, true)) call.method->CountEnd(Code::kDeadlineExceeded);
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.stream_id, NGHTTP2_CANCEL);
    socket_.ScheduleFlush();
  } else {
    Reply(call, {Code::kDeadlineExceeded, "deadline passed on the server", {}});
  }
  call.Cancel();
}

// --- Replies.

void ServerConnection::OnFinished(CallState& call, RpcStatus status, std::string response,
                                  HandlerMetadata* metadata) {
  CallReply& reply = call.MutableReply();
  if (metadata != nullptr) {
    if (!metadata->headers.empty()) reply.headers = std::move(metadata->headers);
    reply.trailers = std::move(metadata->trailers);
  }
  if (status.ok() && call.streaming == nullptr) {
    const std::size_t bytes = response.size();
    if (buffered_reply_bytes_ + bytes > options_.buffered_bytes_max) {
      status = {Code::kResourceExhausted, "the client does not take its replies", {}};
    } else {
      buffered_reply_bytes_ += bytes;
      call.reply_charged_bytes = static_cast<std::uint32_t>(bytes);
      reply.gzip = metadata != nullptr && metadata->gzip;
      reply.writer.Begin({std::move(response), reply.gzip});
    }
  }
  Reply(call, std::move(status));
}

void ServerConnection::Reply(CallState& call, RpcStatus status) {
  MR_CHECK(!call.replied);
  call.replied = true;
  CallReply& reply = call.MutableReply();
  reply.status = std::move(status);
  // The request is of no use any more; what waits for the client to take a reply should be small.
  std::string().swap(call.request);
  buffered_request_bytes_ -= std::exchange(call.charged_bytes, 0);
  if (call.streaming != nullptr && call.streaming->headers_sent) {
    if (std::exchange(call.streaming->deferred, false)) {
      nghttp2_session_resume_data(session_, call.stream_id);
    }
  } else if (reply.writer.busy()) {
    SubmitHeadersAndData(session_, call, ServerCallbacks::ReadData);
  } else {
    SubmitTrailersOnly(session_, call, "200");
  }
  socket_.ScheduleFlush();
}

void ServerConnection::OnWritten(CallState& call) {
  if (!call.streaming->headers_sent) {
    call.streaming->headers_sent = true;
    SubmitHeadersAndData(session_, call, ServerCallbacks::ReadData);
  } else if (std::exchange(call.streaming->deferred, false)) {
    nghttp2_session_resume_data(session_, call.stream_id);
  }
  socket_.ScheduleFlush();
}

void ServerConnection::OnConsumed(CallState& call) {
  const std::size_t bytes = call.streaming->inbox.TakeWithheld();
  if (bytes == 0) return;
  nghttp2_session_consume_stream(session_, call.stream_id, bytes);
  socket_.ScheduleFlush();
}

void ServerConnection::OnStreamClosed(CallState& call) {
  const std::shared_ptr<CallState> hold = std::move(call.self);
  if (call.previous != nullptr) call.previous->next = call.next;
  if (call.next != nullptr) call.next->previous = call.previous;
  if (calls_ == &call) calls_ = call.next;
  --calls_open_;
  nghttp2_session_set_stream_user_data(session_, call.stream_id, nullptr);
  if (call.deadline_timer != 0) loop_.CancelTimer(call.deadline_timer);
  buffered_request_bytes_ -= call.charged_bytes;
  buffered_reply_bytes_ -= call.reply_charged_bytes;
  if (!call.replied && call.method != nullptr) call.method->CountEnd(Code::kCancelled);
  call.Detach();
}

// --- The connection.

void ServerConnection::OnPing(bool ack) {
  if (ack) {
    // The client has seen the first GOAWAY: every call it sent before that has arrived.
    if (draining_ && !final_goaway_) FinishDrain();
    return;
  }
  Judge(conduct_.OnPing(loop_.clock().Now(), calls_open_ > 0));
}

void ServerConnection::OnSettings() {
  if (std::exchange(handshake_done_, true)) return;
  loop_.CancelTimer(std::exchange(progress_timer_, 0));
  if (keep_alive_.enabled()) ArmKeepAliveTimer();
}

void ServerConnection::Judge(std::string_view fault) {
  if (!fault.empty()) GoAway(NGHTTP2_ENHANCE_YOUR_CALM, fault);
}

void ServerConnection::GoAway(std::uint32_t error, std::string_view why) {
  log_.Write(LogLevel::kInfo, "rpc", "closing a connection", {{"peer", *peer_}, {"reason", why}});
  // Like nghttp2_session_terminate_session, which takes no text.
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), error,
                        reinterpret_cast<const std::uint8_t*>(why.data()), why.size());
  nghttp2_session_terminate_session(session_, error);
  socket_.ScheduleFlush();
}

void ServerConnection::OnSocketLost(std::string_view why) {
  if (log_.Enabled(LogLevel::kDebug)) {
    log_.Write(LogLevel::kDebug, "rpc", "connection over", {{"peer", *peer_}, {"reason", why}});
  }
  Close();
}

bool ServerConnection::OnBytes(std::string_view bytes) {
  if (ended_streams_.Feed(bytes)) return true;
  GoAway(NGHTTP2_STREAM_CLOSED, "a frame of a stream that has ended");
  return false;
}

void ServerConnection::OnHandshakeFailed(std::string_view why) {
  log_.Write(LogLevel::kInfo, "rpc", "TLS handshake failed", {{"peer", *peer_}, {"reason", why}});
  socket_.Linger();
}

void ServerConnection::OnBytesRead(std::size_t bytes) {
  keep_alive_.OnBytes();
  Judge(conduct_.OnBytes(bytes));
  if (header_block_stream_ != 0 && progress_timer_ == 0) ArmProgressTimer();
}

void ServerConnection::OnFlushed() {
  if (nghttp2_session_want_write(session_) != 0) return;
  const bool over = nghttp2_session_want_read(session_) == 0;
  const bool drained = final_goaway_ && calls_open_ == 0;
  // Between the two GOAWAYs of a drain nghttp2 would rather not read, but calls may still be under
  // way.
  const bool between = draining_ && !final_goaway_;
  if (drained || (over && !between)) socket_.Linger();
}

void ServerConnection::ArmProgressTimer() {
  const std::int32_t stream_id = header_block_stream_;
  progress_timer_ =
      loop_.PostAt(loop_.clock().Now() + options_.handshake_timeout, [this, stream_id] {
        progress_timer_ = 0;
        if (handshake_done_ && header_block_stream_ != stream_id) {
          // Another header block than the one that armed this timer gets its own time.
          if (header_block_stream_ != 0) ArmProgressTimer();
          return;
        }
        log_.Write(LogLevel::kInfo, "rpc", "closing a connection",
                   {{"peer", *peer_},
                    {"reason", socket_.handshaking() ? "its TLS handshake takes too long"
                                                     : "it is too slow to speak HTTP/2"}});
        Close();
      });
}

void ServerConnection::ArmIdleTimer() {
  calls_begun_at_idle_check_ = calls_begun_;
  idle_timer_ = loop_.PostAt(loop_.clock().Now() + options_.idle_timeout, [this] {
    idle_timer_ = 0;
    if (calls_open_ == 0 && calls_begun_ == calls_begun_at_idle_check_) {
      Drain();
    } else {
      ArmIdleTimer();
    }
  });
}

void ServerConnection::ArmKeepAliveTimer() {
  keep_alive_timer_ = loop_.PostAt(loop_.clock().Now() + keep_alive_.wait(), [this] {
    keep_alive_timer_ = 0;
    if (socket_.lingering()) return;
    switch (keep_alive_.OnTimer()) {
      case KeepAlive::Step::kGiveUp:
        log_.Write(LogLevel::kInfo, "rpc", "closing a connection",
                   {{"peer", *peer_}, {"reason", "it gives no sign of life"}});
        Close();
        return;
      case KeepAlive::Step::kPing:
        nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, kAlivePing.data());
        socket_.ScheduleFlush();
        break;
      case KeepAlive::Step::kWait:
        break;
    }
    ArmKeepAliveTimer();
  });
}

void ServerConnection::OnOldAge() {
  age_timer_ = loop_.PostAt(loop_.clock().Now() + options_.connection_age_grace, [this] {
    age_timer_ = 0;
    Abort("the connection has reached its greatest age");
  });
  Drain();
}

void ServerConnection::Drain() {
  if (draining_ || closed_ || socket_.lingering()) return;
  draining_ = true;
  if (!handshake_done_) {
    Close();
    return;
  }
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, kDrainPing.data());
  drain_timer_ = loop_.PostAt(loop_.clock().Now() + options_.keepalive_timeout, [this] {
    drain_timer_ = 0;
    if (!final_goaway_) FinishDrain();
  });
  socket_.ScheduleFlush();
}

void ServerConnection::FinishDrain() {
  final_goaway_ = true;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
  socket_.ScheduleFlush();
}

void ServerConnection::Abort(std::string_view why) {
  if (closed_) return;
  if (!handshake_done_) {
    Close();
    return;
  }
  for (CallState* call = calls_; call != nullptr;) {
    const std::shared_ptr<CallState> hold = call->self;
    if (!call->replied) Reply(*call, {Code::kUnavailable, std::string(why), {}});
    call->Cancel();
    // Cancelling runs foreign code, which may end other calls, but closes no stream.
    call = hold->next;
  }
  if (!socket_.lingering()) {
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                          nullptr, 0);
    socket_.Flush();
  }
  Close();
}

void ServerConnection::Close() {
  if (closed_) return;
  closed_ = true;
  socket_.Close();
  for (const exec::TimerId timer :
       {progress_timer_, idle_timer_, keep_alive_timer_, age_timer_, drain_timer_}) {
    if (timer != 0) loop_.CancelTimer(timer);
  }
  while (calls_ != nullptr) OnStreamClosed(*calls_);
  // Not here: nghttp2 may be in the middle of this connection's bytes.
  loop_.PostFlush(std::move(on_closed_));
}

}  // namespace millrace::rpc
