#include "millrace/rpc/server_connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/rpc/block_pool.h"
#include "millrace/rpc/gzip.h"
#include "millrace/rpc/header_fields.h"
#include "millrace/rpc/wire_format.h"

namespace millrace::rpc {
namespace {

constexpr std::int32_t kStreamWindowBytes = 1 << 20;
constexpr std::int32_t kConnectionWindowBytes = 4 << 20;
constexpr std::size_t kInboxBytesMax = 256u << 10;
// Resets a client may send at once, and per second in the long run, before it is taken for an
// attack.
constexpr std::uint64_t kResetBurst = 5'000;
constexpr std::uint64_t kResetsPerSecond = 500;
constexpr std::size_t kContinuationsMax = 8;
constexpr std::size_t kOutboundAcksMax = 1'000;
constexpr std::uint32_t kUselessFramesMax = 10'000;
// Frames of unknown types are not reported; their bytes are seen.
constexpr std::size_t kUselessBytesMax = 1u << 20;
constexpr int kPingStrikesMax = 2;
constexpr std::array<std::uint8_t, 8> kDrainPing = {'d', 'r', 'a', 'i', 'n', 'i', 'n', 'g'};

std::string_view View(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

// nghttp2's C callbacks, turned into calls of the connection's methods.
struct ServerCallbacks {
  static CallState* CallOf(nghttp2_session* session, std::int32_t stream_id) {
    return static_cast<CallState*>(nghttp2_session_get_stream_user_data(session, stream_id));
  }
  static ServerConnection& Self(void* user_data) {
    return *static_cast<ServerConnection*>(user_data);
  }

  static int OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd*, void* user_data) {
    ServerConnection& self = Self(user_data);
    if (++self.useless_frames_ == kUselessFramesMax) {
      self.GoAway(NGHTTP2_ENHANCE_YOUR_CALM, "too many frames without purpose");
    }
    return 0;
  }

  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    ServerConnection& self = Self(user_data);
    self.header_block_stream_ = frame->hd.stream_id;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) self.OpenCall(frame->hd.stream_id);
    return 0;
  }

  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                      std::size_t value_size, std::uint8_t, void* user_data) {
    // Trailers of a client mean nothing in gRPC.
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    CallState* call = CallOf(session, frame->hd.stream_id);
    if (call != nullptr) {
      Self(user_data).OnHeader(*call, View(name, name_size), View(value, value_size));
    }
    return 0;
  }

  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    ServerConnection& self = Self(user_data);
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS: {
        self.header_block_stream_ = 0;
        self.NoteUsefulFrame();
        CallState* call = CallOf(session, frame->hd.stream_id);
        if (call == nullptr) return 0;
        if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) self.OnRequestHeaders(*call);
        if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) self.OnRequestEnd(*call);
        return 0;
      }
      case NGHTTP2_DATA: {
        const bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        if (frame->hd.length > 0 || end) self.NoteUsefulFrame();
        CallState* call = end ? CallOf(session, frame->hd.stream_id) : nullptr;
        if (call != nullptr) self.OnRequestEnd(*call);
        break;
      }
      case NGHTTP2_PING:
        self.OnPing((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0);
        break;
      case NGHTTP2_SETTINGS:
        if (!self.handshake_done_) {
          self.handshake_done_ = true;
          self.loop_.CancelTimer(std::exchange(self.progress_timer_, 0));
        }
        break;
      default:
        break;
    }
    return 0;
  }

  static int OnData(nghttp2_session* session, std::uint8_t, std::int32_t stream_id,
                    const std::uint8_t* data, std::size_t size, void* user_data) {
    // The connection's window is opened at once: one slow stream must not stop the others.
    nghttp2_session_consume_connection(session, size);
    CallState* call = CallOf(session, stream_id);
    if (call != nullptr) Self(user_data).OnRequestData(*call, View(data, size));
    return 0;
  }

  static int OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    ServerConnection& self = Self(user_data);
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    // A client may ask how a connection is doing whenever it hears from it.
    self.ping_strikes_ = 0;
    self.last_ping_ = Instant{};
    self.NoteUsefulFrame();
    if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      const CallState* call = CallOf(session, frame->hd.stream_id);
      // The reply is complete before the request: the client need not send the rest.
      if (call != nullptr && !call->request_ended) {
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                  NGHTTP2_NO_ERROR);
      }
    }
    return 0;
  }

  static int OnStreamClose(nghttp2_session* session, std::int32_t stream_id, std::uint32_t,
                           void* user_data) {
    ServerConnection& self = Self(user_data);
    // A block that nghttp2 refused ends without a frame.
    if (self.header_block_stream_ == stream_id) self.header_block_stream_ = 0;
    CallState* call = CallOf(session, stream_id);
    if (call != nullptr) self.OnStreamClosed(*call);
    return 0;
  }

  static ssize_t ReadData(nghttp2_session*, std::int32_t, std::uint8_t* out, std::size_t room,
                          std::uint32_t* flags, nghttp2_data_source* source, void* user_data) {
    return Self(user_data).ProduceData(*static_cast<CallState*>(source->ptr), out, room, flags);
  }

  ServerCallbacks() {
    MR_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, OnBeginFrame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, OnFrameSent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
    MR_CHECK(nghttp2_option_new(&option) == 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, kOutboundAcksMax);
    nghttp2_option_set_max_continuations(option, kContinuationsMax);
    nghttp2_option_set_stream_reset_rate_limit(option, kResetBurst, kResetsPerSecond);
  }

  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
};

namespace {

// Constant after construction, shared by all connections, never destroyed.
const ServerCallbacks& Callbacks() {
  static const ServerCallbacks* const callbacks = new ServerCallbacks;
  return *callbacks;
}

}  // namespace

ServerConnection::ServerConnection(const ServerOptions& options, MethodTable& methods, Log& log,
                                   exec::EventLoop& loop, int fd, std::string peer,
                                   Closure on_closed)
    : options_(options),
      methods_(methods),
      log_(log),
      loop_(loop),
      peer_(std::make_shared<const std::string>(std::move(peer))),
      on_closed_(std::move(on_closed)),
      socket_(loop, fd, options.send_stall_timeout, *this) {
  const ServerCallbacks& callbacks = Callbacks();
  MR_CHECK(nghttp2_session_server_new3(&session_, callbacks.callbacks, this, callbacks.option,
                                       BlockPoolForNghttp2()) == 0);
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
  socket_.ScheduleFlush();
}

ServerConnection::~ServerConnection() {
  MR_CHECK(closed_);
  nghttp2_session_del(session_);
}

// --- Requests.

CallState* ServerConnection::OpenCall(std::int32_t stream_id) {
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
  return raw;
}

void ServerConnection::MarkMalformed(CallState& call, std::string why) {
  if (call.status.ok()) call.status = {Code::kInternal, std::move(why), {}};
}

void ServerConnection::OnHeader(CallState& call, std::string_view name, std::string_view value) {
  // The size as HTTP/2 counts it for SETTINGS_MAX_HEADER_LIST_SIZE.
  call.header_bytes += static_cast<std::uint32_t>(name.size() + value.size() + 32);
  if (call.header_bytes > options_.header_list_bytes_max) {
    call.header_overflow = true;
    call.metadata.clear();
    return;
  }
  if (name.starts_with(':')) {
    if (name == ":path") {
      call.method = methods_.Find(value);
      if (call.method == nullptr) {
        call.status = {Code::kUnimplemented, methods_.ExplainUnknown(value), {}};
      }
    } else if (name == ":method") {
      call.is_post = value == "POST";
    }
  } else if (name == "content-type") {
    call.is_grpc = IsGrpcContentType(value);
  } else if (name == "grpc-timeout") {
    const std::optional<Duration> timeout = ParseTimeout(value);
    if (timeout) {
      call.deadline = loop_.clock().Now() + *timeout;
    } else {
      MarkMalformed(call, "malformed grpc-timeout");
    }
  } else if (name == "grpc-encoding") {
    call.gzip = value == "gzip";
    call.unknown_encoding = !call.gzip && value != "identity";
  } else if (name.starts_with("grpc-") && name != "grpc-trace-bin" && name != "grpc-tags-bin") {
    return;
  } else if (name != "te" && name != "user-agent" && name != "accept-encoding" &&
             name != "content-length") {
    if (!AppendReceivedMetadata(name, value, &call.metadata)) {
      MarkMalformed(call, "malformed binary metadata " + std::string(name));
    }
  }
}

void ServerConnection::OnRequestHeaders(CallState& call) {
  std::string_view http_status = "200";
  if (call.header_overflow) {
    http_status = "431";
    call.status = {Code::kResourceExhausted,
                   "request headers are larger than " +
                       std::to_string(options_.header_list_bytes_max) + " bytes",
                   {}};
  } else if (!call.is_post) {
    http_status = "405";
    call.status = {Code::kInternal, "gRPC calls are POST requests", {}};
  } else if (!call.is_grpc) {
    http_status = "415";
    call.status = {Code::kInternal, "content-type is not application/grpc", {}};
  } else if (call.status.code == Code::kInternal) {
    http_status = "400";
  } else if (call.status.ok() && call.unknown_encoding) {
    call.status = {Code::kUnimplemented, "grpc-encoding is not supported", {}};
  }
  if (!call.status.ok()) {
    call.replied = true;
    SubmitTrailersOnly(call, http_status);
    return;
  }
  if (call.deadline != Instant::Max()) {
    call.deadline_timer = loop_.PostAt(call.deadline, [this, &call] { OnDeadline(call); });
  }
  if (call.method->streaming) {
    call.streaming = std::make_unique<StreamState>();
    call.handed_over = true;
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
  // The stream's own window stays shut while the handler of a stream has enough to read.
  if (call.streaming != nullptr && !call.replied && call.streaming->inbox_bytes > kInboxBytesMax) {
    call.streaming->withheld_bytes += data.size();
  } else {
    nghttp2_session_consume_stream(session_, call.stream_id, data.size());
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
    call.DeliverMessage(std::move(message));
  } else {
    call.request = std::move(message);
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
    call.DeliverEnd();
    return;
  }
  if (!call.has_message) {
    Reply(call, {Code::kInternal, "request without a message", {}});
    return;
  }
  call.handed_over = true;
  call.method->unary(MakeServerCall(call.self));
}

void ServerConnection::OnDeadline(CallState& call) {
  call.deadline_timer = 0;
  const std::shared_ptr<CallState> hold = call.self;
  if (call.replied || call.has_response ||
      (call.streaming != nullptr && !call.streaming->outbox.empty())) {
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

void ServerConnection::OnFinished(CallState& call) {
  RpcStatus status = std::move(call.status);
  if (status.ok() && call.streaming == nullptr) {
    const std::size_t bytes = call.response.size();
    if (buffered_reply_bytes_ + bytes > options_.buffered_bytes_max) {
      status = {Code::kResourceExhausted, "the client does not take its replies", {}};
    } else {
      buffered_reply_bytes_ += bytes;
      call.reply_charged_bytes = static_cast<std::uint32_t>(bytes);
      call.has_response = true;
    }
  }
  Reply(call, std::move(status));
}

void ServerConnection::Reply(CallState& call, RpcStatus status) {
  MR_CHECK(!call.replied);
  call.replied = true;
  call.status = std::move(status);
  // The request is of no use any more; what waits for the client to take a reply should be small.
  std::string().swap(call.request);
  buffered_request_bytes_ -= std::exchange(call.charged_bytes, 0);
  if (call.streaming != nullptr && call.streaming->headers_sent) {
    if (std::exchange(call.streaming->deferred, false)) {
      nghttp2_session_resume_data(session_, call.stream_id);
    }
  } else if (call.has_response) {
    SubmitHeadersAndData(call);
  } else {
    SubmitTrailersOnly(call, "200");
  }
  socket_.ScheduleFlush();
}

void ServerConnection::SubmitTrailersOnly(CallState& call, std::string_view http_status) {
  if (call.method != nullptr) call.method->CountEnd(call.status.code);
  HeaderFields fields;
  fields.AddStatic(":status", http_status);
  fields.AddStatic("content-type", "application/grpc");
  if (call.unknown_encoding) fields.AddStatic("grpc-accept-encoding", "identity,gzip");
  if (call.reply_metadata != nullptr) fields.AddMetadata(call.reply_metadata->headers);
  fields.AddStatus(call.status);
  if (call.reply_metadata != nullptr) fields.AddMetadata(call.reply_metadata->trailers);
  nghttp2_submit_response(session_, call.stream_id, fields.data(), fields.size(), nullptr);
  socket_.ScheduleFlush();
}

void ServerConnection::SubmitHeadersAndData(CallState& call) {
  HeaderFields fields;
  fields.AddStatic(":status", "200");
  fields.AddStatic("content-type", "application/grpc");
  if (call.reply_metadata != nullptr) fields.AddMetadata(call.reply_metadata->headers);
  nghttp2_data_provider provider;
  provider.source.ptr = &call;
  provider.read_callback = ServerCallbacks::ReadData;
  nghttp2_submit_response(session_, call.stream_id, fields.data(), fields.size(), &provider);
}

void ServerConnection::SubmitTrailers(CallState& call) {
  if (call.method != nullptr) call.method->CountEnd(call.status.code);
  HeaderFields fields;
  fields.AddStatus(call.status);
  if (call.reply_metadata != nullptr) fields.AddMetadata(call.reply_metadata->trailers);
  nghttp2_submit_trailer(session_, call.stream_id, fields.data(), fields.size());
}

ssize_t ServerConnection::ProduceData(CallState& call, std::uint8_t* out, std::size_t room,
                                      std::uint32_t* flags) {
  std::size_t produced = 0;
  while (produced < room) {
    if (!call.has_response) {
      if (!call.NextOutgoing()) break;
    }
    if (call.response_sent < kMessagePrefixBytes) {
      char prefix[kMessagePrefixBytes];
      WriteMessagePrefix(call.response.size(), prefix);
      const std::size_t n = std::min(room - produced, kMessagePrefixBytes - call.response_sent);
      std::memcpy(out + produced, prefix + call.response_sent, n);
      call.response_sent += n;
      produced += n;
      if (call.response_sent < kMessagePrefixBytes) break;
    }
    const std::size_t from = call.response_sent - kMessagePrefixBytes;
    const std::size_t n = std::min(room - produced, call.response.size() - from);
    std::memcpy(out + produced, call.response.data() + from, n);
    call.response_sent += n;
    produced += n;
    if (from + n < call.response.size()) break;
    call.has_response = false;
    std::string().swap(call.response);
  }
  if (call.streaming != nullptr) {
    call.streaming->outbox_bytes -= produced;
    call.MaybeResumeWriter();
  }
  const bool empty =
      !call.has_response && (call.streaming == nullptr || call.streaming->outbox.empty());
  if (empty && call.replied) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    SubmitTrailers(call);
  } else if (produced == 0) {
    call.streaming->deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return static_cast<ssize_t>(produced);
}

void ServerConnection::OnWritten(CallState& call) {
  if (!call.streaming->headers_sent) {
    call.streaming->headers_sent = true;
    SubmitHeadersAndData(call);
  } else if (std::exchange(call.streaming->deferred, false)) {
    nghttp2_session_resume_data(session_, call.stream_id);
  }
  socket_.ScheduleFlush();
}

void ServerConnection::OnConsumed(CallState& call) {
  if (call.streaming->inbox_bytes > kInboxBytesMax || call.streaming->withheld_bytes == 0) return;
  nghttp2_session_consume_stream(session_, call.stream_id,
                                 std::exchange(call.streaming->withheld_bytes, 0));
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
    if (draining_ && !final_goaway_) {
      // The client has seen the first GOAWAY: every call it sent before that has arrived.
      final_goaway_ = true;
      nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                            nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                            nullptr, 0);
      socket_.ScheduleFlush();
    }
    return;
  }
  const Instant now = loop_.clock().Now();
  if (last_ping_ != Instant{} && now - last_ping_ < options_.keepalive_min) ++ping_strikes_;
  last_ping_ = now;
  if (ping_strikes_ > kPingStrikesMax) GoAway(NGHTTP2_ENHANCE_YOUR_CALM, "too_many_pings");
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

void ServerConnection::OnBytesRead(std::size_t bytes) {
  useless_bytes_ += bytes;
  if (useless_bytes_ > kUselessBytesMax) {
    useless_bytes_ = 0;
    GoAway(NGHTTP2_ENHANCE_YOUR_CALM, "too many bytes without purpose");
  }
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
                   {{"peer", *peer_}, {"reason", "it is too slow to speak HTTP/2"}});
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

void ServerConnection::Drain() {
  if (draining_ || closed_ || socket_.lingering()) return;
  draining_ = true;
  if (!handshake_done_) {
    Close();
    return;
  }
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, kDrainPing.data());
  socket_.ScheduleFlush();
}

void ServerConnection::Abort() {
  if (closed_) return;
  for (CallState* call = calls_; call != nullptr;) {
    const std::shared_ptr<CallState> hold = call->self;
    if (!call->replied) Reply(*call, {Code::kUnavailable, "the server is shutting down", {}});
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
  for (const exec::TimerId timer : {progress_timer_, idle_timer_}) {
    if (timer != 0) loop_.CancelTimer(timer);
  }
  while (calls_ != nullptr) OnStreamClosed(*calls_);
  // Not here: nghttp2 may be in the middle of this connection's bytes.
  loop_.PostFlush(std::move(on_closed_));
}

}  // namespace millrace::rpc
