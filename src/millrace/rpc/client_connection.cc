#include "millrace/rpc/client_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/rpc/block_pool.h"
#include "millrace/rpc/header_fields.h"
#include "millrace/rpc/wire_format.h"

namespace millrace::rpc {
namespace {

constexpr std::int32_t kStreamWindowBytes = 1 << 20;
constexpr std::int32_t kConnectionWindowBytes = 4 << 20;
// nghttp2 sends no larger block; some room for what it adds.
constexpr std::size_t kRequestHeaderBytesMax = 60u << 10;
constexpr Duration kSendStallTimeout = std::chrono::seconds(30);
constexpr int kUnacknowledgedMsMax = 20'000;
constexpr int kKeepAliveIdleSeconds = 30;
constexpr int kKeepAliveIntervalSeconds = 10;
constexpr int kKeepAliveCount = 3;

std::string_view View(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

void SetOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

}  // namespace

// nghttp2's C callbacks, turned into calls of the connection's methods.
struct ClientCallbacks {
  static ClientConnection& Self(void* user_data) {
    return *static_cast<ClientConnection*>(user_data);
  }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                      std::uint8_t, void* user_data) {
    ClientCall* call = Self(user_data).Find(frame->hd.stream_id);
    if (call != nullptr) call->reply->OnHeader(View(name, name_size), View(value, value_size));
    return 0;
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    ClientConnection& self = Self(user_data);
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS: {
        ClientCall* call = self.Find(frame->hd.stream_id);
        if (call == nullptr) return 0;
        self.OnHeadersEnd(*call, (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0);
        return 0;
      }
      case NGHTTP2_DATA: {
        const bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        ClientCall* call = end ? self.Find(frame->hd.stream_id) : nullptr;
        if (call != nullptr) self.OnReplyEnd(*call);
        return 0;
      }
      case NGHTTP2_SETTINGS:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) self.OnSettings();
        return 0;
      case NGHTTP2_GOAWAY:
        self.OnGoAway(frame->goaway.error_code,
                      View(frame->goaway.opaque_data, frame->goaway.opaque_data_len));
        return 0;
      default:
        return 0;
    }
  }

  static int OnData(nghttp2_session* session, std::uint8_t, std::int32_t stream_id,
                    const std::uint8_t* data, std::size_t size, void* user_data) {
    // The connection's window is opened at once: one slow stream must not stop the others.
    nghttp2_session_consume_connection(session, size);
    ClientCall* call = Self(user_data).Find(stream_id);
    if (call != nullptr) Self(user_data).OnData(*call, View(data, size));
    return 0;
  }

  static int OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    ClientCall* call = Self(user_data).Find(frame->hd.stream_id);
    if (call != nullptr) call->headers_sent = true;
    return 0;
  }

  static int OnStreamClose(nghttp2_session*, std::int32_t stream_id, std::uint32_t error,
                           void* user_data) {
    Self(user_data).OnStreamClosed(stream_id, error);
    return 0;
  }

  static ssize_t ReadData(nghttp2_session*, std::int32_t stream_id, std::uint8_t* out,
                          std::size_t room, std::uint32_t* flags, nghttp2_data_source*,
                          void* user_data) {
    ClientCall* call = Self(user_data).Find(stream_id);
    if (call == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return Self(user_data).ProduceData(*call, out, room, flags);
  }

  ClientCallbacks() {
    MR_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, OnFrameSent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
    MR_CHECK(nghttp2_option_new(&option) == 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    // Until the server's SETTINGS say otherwise; no call starts before they came anyway.
    nghttp2_option_set_peer_max_concurrent_streams(option, 100);
  }

  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
};

namespace {

// Constant after construction, shared by all connections, never destroyed.
const ClientCallbacks& Callbacks() {
  static const ClientCallbacks* const callbacks = new ClientCallbacks;
  return *callbacks;
}

}  // namespace

ClientConnection::ClientConnection(exec::EventLoop& loop, std::vector<SocketAddress> addresses,
                                   std::string authority, TlsContext tls, std::string server_name,
                                   const ChannelOptions& options, Duration keepalive_time,
                                   Owner& owner)
    : loop_(loop),
      options_(options),
      owner_(owner),
      authority_(std::move(authority)),
      tls_(std::move(tls)),
      server_name_(std::move(server_name)),
      addresses_(std::move(addresses)),
      last_error_("no address"),
      keepalive_(
          loop, {keepalive_time, options.keepalive_timeout, options.keepalive_without_calls},
          [this] {
            nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
            socket_->ScheduleFlush();
          },
          [this] { Close("the server does not answer"); }) {
  connect_timer_ = loop_.PostAt(loop_.clock().Now() + options.connect_timeout, [this] {
    connect_timer_ = 0;
    Close("connecting took too long");
  });
  // Posted, so that nothing is reported inside the constructor.
  alive_ = std::make_shared<ClientConnection*>(this);
  loop_.Post([weak = std::weak_ptr(alive_)] {
    if (const auto self = weak.lock()) (*self)->TryNextAddress();
  });
}

ClientConnection::~ClientConnection() {
  MR_CHECK(state_ == State::kClosed && calls_.empty());
  socket_.reset();
  nghttp2_session_del(session_);
}

void ClientConnection::TryNextAddress() {
  while (state_ == State::kConnecting && next_address_ < addresses_.size()) {
    const SocketAddress& address = addresses_[next_address_++];
    const int fd = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      last_error_ = std::strerror(errno);
      continue;
    }
    if (!address.is_unix()) {
      SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
      SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMsMax);
      SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
      SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
      SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
      SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveCount);
    }
    if (connect(fd, address.raw(), address.length) == 0) {
      OnConnected(fd);
      return;
    }
    if (errno != EINPROGRESS) {
      last_error_ = address.ToString() + ": " + std::strerror(errno);
      close(fd);
      continue;
    }
    connecting_fd_ = fd;
    connecting_watch_ = loop_.Watch(fd, EPOLLOUT, [this](std::uint32_t) {
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(connecting_fd_, SOL_SOCKET, SO_ERROR, &error, &size);
      loop_.Unwatch(connecting_watch_);
      const int connected_fd = std::exchange(connecting_fd_, -1);
      if (error == 0) {
        OnConnected(connected_fd);
        return;
      }
      last_error_ = addresses_[next_address_ - 1].ToString() + ": " + std::strerror(error);
      close(connected_fd);
      TryNextAddress();
    });
    return;
  }
  if (state_ == State::kConnecting) Close(last_error_);
}

void ClientConnection::OnConnected(int fd) {
  state_ = State::kHandshake;
  const ClientCallbacks& callbacks = Callbacks();
  MR_CHECK(nghttp2_session_client_new3(&session_, callbacks.callbacks, this, callbacks.option,
                                       BlockPoolForNghttp2()) == 0);
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindowBytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
       static_cast<std::uint32_t>(options_.header_list_bytes_max)},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindowBytes);
  socket_ = std::make_unique<SessionSocket>(
      loop_, fd, tls_ == nullptr ? nullptr : TlsStream::Connect(tls_, fd, server_name_),
      kSendStallTimeout, static_cast<SessionSocket::Owner&>(*this));
  socket_->set_session(session_);
  socket_->ScheduleFlush();
}

void ClientConnection::OnSettings() {
  if (state_ == State::kReady) owner_.OnConnectionRoom();
  if (state_ != State::kHandshake) return;
  state_ = State::kReady;
  keepalive_.OnActivity(0);
  if (options_.idle_timeout > Duration::zero()) ArmIdleTimer();
  if (connect_timer_ != 0) loop_.CancelTimer(std::exchange(connect_timer_, 0));
  owner_.OnConnectionReady(*this);
}

void ClientConnection::OnGoAway(std::uint32_t error, std::string_view text) {
  // nghttp2 ends the streams above the last one the server takes, as refused.
  if (state_ != State::kHandshake && state_ != State::kReady) return;
  const bool was_ready = state_ == State::kReady;
  state_ = State::kDraining;
  if (was_ready) {
    owner_.OnConnectionDraining(*this,
                                error == NGHTTP2_ENHANCE_YOUR_CALM && text == "too_many_pings");
  }
  socket_->ScheduleFlush();
}

void ClientConnection::ArmIdleTimer() {
  idle_timer_ = loop_.PostAt(loop_.clock().Now() + options_.idle_timeout,
                             [this, begun_before = calls_begun_] {
                               idle_timer_ = 0;
                               if (state_ != State::kReady) return;
                               if (!calls_.empty() || calls_begun_ != begun_before) {
                                 ArmIdleTimer();
                                 return;
                               }
                               state_ = State::kDraining;
                               owner_.OnConnectionDraining(*this, false);
                               nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
                               socket_->ScheduleFlush();
                             });
}

bool ClientConnection::has_room() const {
  return calls_.size() <
         nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

void ClientConnection::EndAtOnce(ClientCall& call, RpcStatus status) {
  call.result = {};
  call.result.status = std::move(status);
  owner_.OnAttemptEnded(call, AttemptOutcome::kFinal);
}

ClientCall* ClientConnection::Find(std::int32_t stream_id) {
  const auto it = calls_.find(stream_id);
  return it == calls_.end() ? nullptr : it->second;
}

void ClientConnection::Start(ClientCall& call) {
  MR_CHECK(state_ == State::kReady);
  HeaderFields fields;
  fields.AddStatic(":method", "POST");
  fields.AddStatic(":scheme", tls_ == nullptr ? "http" : "https");
  fields.AddStatic(":path", call.method);
  fields.AddStatic(":authority", authority_);
  fields.AddStatic("te", "trailers");
  fields.AddStatic("content-type", "application/grpc");
  fields.AddStatic("user-agent", "grpc-millrace/0.1");
  if (call.options.gzip) fields.AddStatic("grpc-encoding", "gzip");
  fields.AddStatic("grpc-accept-encoding", "identity,gzip");
  if (call.options.deadline != Instant::Max()) {
    fields.Add("grpc-timeout", FormatTimeout(call.options.deadline - loop_.clock().Now()));
  }
  fields.AddMetadata(call.options.metadata);
  const std::size_t header_bytes_max = std::min<std::size_t>(
      kRequestHeaderBytesMax,
      nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE));
  if (fields.list_bytes() > header_bytes_max) {
    EndAtOnce(call, {Code::kResourceExhausted,
                     "request headers are larger than the server's limit of " +
                         std::to_string(header_bytes_max) + " bytes",
                     {}});
    return;
  }
  nghttp2_data_provider provider;
  provider.source.ptr = nullptr;
  provider.read_callback = ClientCallbacks::ReadData;
  const std::int32_t stream_id =
      nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(), &provider, nullptr);
  if (stream_id < 0) {
    // Stream numbers are used up: this connection ends when its calls have, and another one takes
    // over.
    state_ = State::kDraining;
    call.result = {};
    call.result.status = {Code::kUnavailable, "connection has used up its streams", {}};
    owner_.OnConnectionDraining(*this, false);
    owner_.OnAttemptEnded(call, AttemptOutcome::kNotStarted);
    socket_->ScheduleFlush();
    return;
  }
  call.connection = this;
  call.stream_id = stream_id;
  calls_.emplace(stream_id, &call);
  ++calls_begun_;
  keepalive_.OnActivity(calls_.size());
  socket_->ScheduleFlush();
}

void ClientConnection::Forget(ClientCall& call) {
  calls_.erase(call.stream_id);
  call.connection = nullptr;
  if (state_ == State::kClosed) return;
  keepalive_.OnActivity(calls_.size());
  Reset(call, NGHTTP2_CANCEL);
  if (state_ == State::kReady) owner_.OnConnectionRoom();
}

void ClientConnection::Reset(const ClientCall& call, std::uint32_t error) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.stream_id, error);
  socket_->ScheduleFlush();
}

void ClientConnection::OnWritten(ClientCall& call) {
  if (!std::exchange(call.stream->deferred, false)) return;
  nghttp2_session_resume_data(session_, call.stream_id);
  socket_->ScheduleFlush();
}

void ClientConnection::OnConsumed(ClientCall& call) {
  const std::size_t bytes = call.stream->inbox.TakeWithheld();
  if (bytes == 0) return;
  nghttp2_session_consume_stream(session_, call.stream_id, bytes);
  socket_->ScheduleFlush();
}

ssize_t ClientConnection::ProduceData(ClientCall& call, std::uint8_t* out, std::size_t room,
                                      std::uint32_t* flags) {
  std::size_t produced = 0;
  while (produced < room && (call.writer.busy() || call.NextOutgoing())) {
    produced += call.writer.Produce(out + produced, room - produced);
    if (!call.writer.busy()) call.OnMessageSent();
  }
  if (call.stream != nullptr) call.stream->outbox.OnProduced(produced);
  if (call.request_ended()) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  } else if (produced == 0) {
    call.stream->deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return static_cast<ssize_t>(produced);
}

void ClientConnection::OnHeadersEnd(ClientCall& call, bool end_stream) {
  if (call.reply->OnHeadersEnd(end_stream)) {
    call.OnBegun();
    if (call.stream != nullptr && call.stream->headers_reader && !call.reply->failed()) {
      loop_.Post([done = std::move(call.stream->headers_reader),
                  headers = call.reply->headers]() mutable { done(std::move(headers)); });
    }
  }
  if (end_stream) {
    OnReplyEnd(call);
  } else if (call.reply->failed()) {
    Reset(call, NGHTTP2_CANCEL);
  }
}

void ClientConnection::OnData(ClientCall& call, std::string_view data) {
  const std::size_t may_come_again =
      call.stream == nullptr ? data.size() : call.stream->inbox.Withhold(data.size());
  if (may_come_again > 0) nghttp2_session_consume_stream(session_, call.stream_id, may_come_again);
  if (call.reply->failed()) return;
  while (std::optional<std::string> message = call.reply->NextMessage(&data)) {
    if (call.stream != nullptr) {
      call.stream->inbox.Push(*std::move(message));
    } else {
      call.result.response = *std::move(message);
    }
  }
  if (call.reply->failed()) Reset(call, NGHTTP2_CANCEL);
}

void ClientConnection::OnReplyEnd(ClientCall& call) {
  // The server has said everything; what it did not read of the request it will not miss.
  if (nghttp2_session_get_stream_local_close(session_, call.stream_id) == 0) {
    Reset(call, NGHTTP2_NO_ERROR);
  }
}

void ClientConnection::OnStreamClosed(std::int32_t stream_id, std::uint32_t error) {
  const auto it = calls_.find(stream_id);
  if (it == calls_.end()) return;
  ClientCall& call = *it->second;
  calls_.erase(it);
  keepalive_.OnActivity(calls_.size());
  call.connection = nullptr;
  bool refused = false;
  call.result.status = call.reply->EndStatus(error, &refused);
  // A server whose own timer was quicker than ours resets the stream before it is our turn.
  if (error == NGHTTP2_CANCEL && !call.reply->has_status() &&
      call.options.deadline <= loop_.clock().Now()) {
    call.result.status = {Code::kDeadlineExceeded, "deadline passed", {}};
  }
  if (error != NGHTTP2_NO_ERROR && !call.headers_sent) {
    refused = true;
    call.result.status = {Code::kUnavailable, "the connection did not take the call", {}};
  }
  call.result.headers = std::move(call.reply->headers);
  call.result.trailers = std::move(call.reply->trailers);
  if (!call.result.status.ok()) call.result.response.clear();
  owner_.OnAttemptEnded(call, refused ? AttemptOutcome::kNotStarted : AttemptOutcome::kFinal);
  if (state_ == State::kReady) owner_.OnConnectionRoom();
}

void ClientConnection::OnSocketLost(std::string_view why) { Close(std::string(why)); }

void ClientConnection::OnHandshakeFailed(std::string_view why) {
  Close("TLS handshake: " + std::string(why));
}

void ClientConnection::OnFlushed() {
  const bool over =
      nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
  if (over || (state_ == State::kDraining && calls_.empty())) Close("connection drained");
}

void ClientConnection::DropConnecting() {
  if (connect_timer_ != 0) loop_.CancelTimer(std::exchange(connect_timer_, 0));
  if (connecting_fd_ >= 0) {
    loop_.Unwatch(connecting_watch_);
    close(std::exchange(connecting_fd_, -1));
  }
}

void ClientConnection::Close(std::string why) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  alive_ = nullptr;
  DropConnecting();
  keepalive_.Stop();
  if (idle_timer_ != 0) loop_.CancelTimer(std::exchange(idle_timer_, 0));
  if (socket_ != nullptr) socket_->Close();
  while (!calls_.empty()) {
    ClientCall& call = *calls_.begin()->second;
    calls_.erase(calls_.begin());
    call.connection = nullptr;
    const AttemptOutcome outcome =
        call.headers_sent ? AttemptOutcome::kFinal : AttemptOutcome::kNotStarted;
    call.result = {};
    call.result.status = {Code::kUnavailable, "connection lost: " + why, {}};
    call.result.headers = std::move(call.reply->headers);
    owner_.OnAttemptEnded(call, outcome);
  }
  owner_.OnConnectionClosed(*this, std::move(why));
}

}  // namespace millrace::rpc
