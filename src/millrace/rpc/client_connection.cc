#include "millrace/rpc/client_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
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
constexpr std::size_t kHeaderBytesMax = 16u << 10;
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
    if (call == nullptr) return 0;
    const bool trailers = frame->headers.cat != NGHTTP2_HCAT_RESPONSE;
    Self(user_data).OnHeader(*call, trailers, View(name, name_size), View(value, value_size));
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
      case NGHTTP2_SETTINGS:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) self.OnSettings();
        return 0;
      case NGHTTP2_GOAWAY:
        self.OnGoAway();
        return 0;
      default:
        return 0;
    }
  }

  static int OnData(nghttp2_session*, std::uint8_t, std::int32_t stream_id,
                    const std::uint8_t* data, std::size_t size, void* user_data) {
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
                                   std::string authority, Instant connect_until, Owner& owner)
    : loop_(loop),
      owner_(owner),
      authority_(std::move(authority)),
      addresses_(std::move(addresses)),
      last_error_("no address") {
  connect_timer_ = loop_.PostAt(connect_until, [this] {
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
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kHeaderBytesMax},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindowBytes);
  socket_ = std::make_unique<SessionSocket>(loop_, fd, kSendStallTimeout,
                                            static_cast<SessionSocket::Owner&>(*this));
  socket_->set_session(session_);
  socket_->ScheduleFlush();
}

void ClientConnection::OnSettings() {
  if (state_ != State::kHandshake) return;
  state_ = State::kReady;
  if (connect_timer_ != 0) loop_.CancelTimer(std::exchange(connect_timer_, 0));
  owner_.OnConnectionReady(*this);
}

void ClientConnection::OnGoAway() {
  // nghttp2 ends the streams above the last one the server takes, as refused.
  if (state_ != State::kHandshake && state_ != State::kReady) return;
  const bool was_ready = state_ == State::kReady;
  state_ = State::kDraining;
  if (was_ready) owner_.OnConnectionDraining(*this);
  socket_->ScheduleFlush();
}

ClientCall* ClientConnection::Find(std::int32_t stream_id) {
  const auto it = calls_.find(stream_id);
  return it == calls_.end() ? nullptr : it->second;
}

void ClientConnection::Start(ClientCall& call) {
  MR_CHECK(state_ == State::kReady);
  HeaderFields fields;
  fields.AddStatic(":method", "POST");
  fields.AddStatic(":scheme", "http");
  fields.AddStatic(":path", call.method);
  fields.AddStatic(":authority", authority_);
  fields.AddStatic("te", "trailers");
  fields.AddStatic("content-type", "application/grpc");
  fields.AddStatic("user-agent", "grpc-millrace/0.1");
  fields.AddStatic("grpc-accept-encoding", "identity,gzip");
  if (call.options.deadline != Instant::Max()) {
    fields.Add("grpc-timeout", FormatTimeout(call.options.deadline - loop_.clock().Now()));
  }
  fields.AddMetadata(call.options.metadata);
  WriteMessagePrefix(call.request.size(), call.prefix.data());
  nghttp2_data_provider provider;
  provider.source.ptr = nullptr;
  provider.read_callback = ClientCallbacks::ReadData;
  const std::int32_t stream_id =
      nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(), &provider, nullptr);
  if (stream_id < 0) {
    // Stream numbers are used up: this connection ends when its calls have, and another one takes
    // over.
    state_ = State::kDraining;
    call.result.status = {Code::kUnavailable, "connection has used up its streams", {}};
    owner_.OnConnectionDraining(*this);
    owner_.OnAttemptEnded(call, AttemptOutcome::kNotStarted);
    socket_->ScheduleFlush();
    return;
  }
  call.connection = this;
  call.stream_id = stream_id;
  calls_.emplace(stream_id, &call);
  socket_->ScheduleFlush();
}

void ClientConnection::Forget(ClientCall& call) {
  calls_.erase(call.stream_id);
  call.connection = nullptr;
  if (state_ == State::kClosed) return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.stream_id, NGHTTP2_CANCEL);
  socket_->ScheduleFlush();
}

ssize_t ClientConnection::ProduceData(ClientCall& call, std::uint8_t* out, std::size_t room,
                                      std::uint32_t* flags) {
  std::size_t produced = 0;
  if (call.request_sent < kMessagePrefixBytes) {
    produced = std::min(room, kMessagePrefixBytes - call.request_sent);
    std::memcpy(out, call.prefix.data() + call.request_sent, produced);
    call.request_sent += produced;
  }
  if (call.request_sent >= kMessagePrefixBytes) {
    const std::size_t from = call.request_sent - kMessagePrefixBytes;
    const std::size_t n = std::min(room - produced, call.request.size() - from);
    std::memcpy(out + produced, call.request.data() + from, n);
    call.request_sent += n;
    produced += n;
    if (from + n == call.request.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  }
  return static_cast<ssize_t>(produced);
}

void ClientConnection::Fail(ClientCall& call, Code code, std::string message) {
  if (call.failure.ok()) call.failure = {code, std::move(message), {}};
}

void ClientConnection::OnHeader(ClientCall& call, bool trailers, std::string_view name,
                                std::string_view value) {
  call.header_bytes += name.size() + value.size() + 32;
  if (call.header_bytes > kHeaderBytesMax) {
    Fail(call, Code::kResourceExhausted, "response metadata is too large");
    return;
  }
  if (name == ":status") {
    call.http_status = std::atoi(std::string(value).c_str());
    // An interim response is followed by the real one.
    if (call.http_status / 100 == 1) call.header_bytes = 0;
  } else if (name == "grpc-status") {
    call.has_status = true;
    call.result.status.code = ParseStatusCode(value);
  } else if (name == "grpc-message") {
    call.result.status.message = PercentDecode(value);
  } else if (name == "grpc-status-details-bin") {
    call.result.status.details = Base64Decode(value).value_or("");
  } else if (name == "content-type") {
    call.is_grpc = IsGrpcContentType(value);
  } else if (name == "grpc-encoding") {
    call.gzip = value == "gzip";
    if (!call.gzip && value != "identity") {
      Fail(call, Code::kInternal, "unknown grpc-encoding in the response");
    }
  } else if (!name.starts_with(':') && !name.starts_with("grpc-")) {
    Metadata& metadata = trailers ? call.result.trailers : call.result.headers;
    if (!AppendReceivedMetadata(name, value, &metadata)) {
      Fail(call, Code::kInternal, "malformed binary metadata in the response");
    }
  }
}

void ClientConnection::OnHeadersEnd(ClientCall& call, bool end_stream) {
  if (end_stream && call.result.headers.size() > 0 && call.has_status && !call.has_message &&
      call.result.trailers.empty()) {
    // Headers only: they are the trailers.
    call.result.trailers.swap(call.result.headers);
  }
  if (!call.failure.ok() && !end_stream) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.stream_id, NGHTTP2_CANCEL);
  }
}

void ClientConnection::OnData(ClientCall& call, std::string_view data) {
  // The body of a reply that is not gRPC is of no use; its HTTP status says enough.
  if (!call.failure.ok() || !call.is_grpc) return;
  while (call.failure.ok()) {
    switch (call.reader.Feed(&data)) {
      case MessageReader::Outcome::kNeedMore:
        return;
      case MessageReader::Outcome::kTooLarge:
        Fail(call, Code::kResourceExhausted,
             "response message of " + std::to_string(call.reader.announced_bytes()) +
                 " bytes is too large");
        break;
      case MessageReader::Outcome::kBadFlag:
        Fail(call, Code::kInternal, "malformed message prefix in the response");
        break;
      case MessageReader::Outcome::kMessage: {
        const bool compressed = call.reader.compressed();
        if (call.has_message) {
          Fail(call, Code::kInternal, "more than one response message");
          break;
        }
        call.has_message = true;
        call.result.response = call.reader.TakeMessage();
        if (!compressed) break;
        if (!call.gzip) {
          Fail(call, Code::kInternal, "compressed response without grpc-encoding");
          break;
        }
        Result<std::string> unpacked =
            Gunzip(call.result.response, call.reader.message_bytes_max());
        if (unpacked.ok()) {
          call.result.response = std::move(unpacked).value();
        } else {
          Fail(call,
               unpacked.code() == StatusCode::kResourceExhausted ? Code::kResourceExhausted
                                                                 : Code::kInternal,
               std::string(unpacked.status().message()));
        }
        break;
      }
    }
  }
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.stream_id, NGHTTP2_CANCEL);
}

void ClientConnection::OnStreamClosed(std::int32_t stream_id, std::uint32_t error) {
  const auto it = calls_.find(stream_id);
  if (it == calls_.end()) return;
  ClientCall& call = *it->second;
  calls_.erase(it);
  call.connection = nullptr;
  AttemptOutcome outcome = AttemptOutcome::kFinal;
  RpcStatus& status = call.result.status;
  if (!call.failure.ok()) {
    status = call.failure;
  } else if (call.has_status) {
    if (status.ok() && (!call.has_message || !call.reader.at_boundary())) {
      status = {Code::kInternal, "ok without one whole response message", {}};
    }
  } else if (error == NGHTTP2_REFUSED_STREAM || (error != NGHTTP2_NO_ERROR && !call.headers_sent)) {
    status = {Code::kUnavailable, "the server refused the stream", {}};
    outcome = AttemptOutcome::kNotStarted;
  } else if (call.http_status != 0 && (call.http_status != 200 || !call.is_grpc)) {
    status = {CodeOfHttpStatus(call.http_status),
              "HTTP status " + std::to_string(call.http_status) + " without a gRPC status",
              {}};
  } else if (error == NGHTTP2_CANCEL) {
    status = {Code::kCancelled, "the server reset the stream", {}};
  } else if (error == NGHTTP2_ENHANCE_YOUR_CALM) {
    status = {Code::kResourceExhausted, "the server asks for fewer requests", {}};
  } else {
    status = {error == NGHTTP2_NO_ERROR ? Code::kUnknown : Code::kInternal,
              "stream ended without a status, HTTP/2 error " + std::to_string(error),
              {}};
  }
  if (!status.ok()) call.result.response.clear();
  owner_.OnAttemptEnded(call, outcome);
}

void ClientConnection::OnSocketLost(std::string_view why) { Close(std::string(why)); }

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
  if (socket_ != nullptr) socket_->Close();
  while (!calls_.empty()) {
    ClientCall& call = *calls_.begin()->second;
    calls_.erase(calls_.begin());
    call.connection = nullptr;
    const AttemptOutcome outcome =
        call.headers_sent ? AttemptOutcome::kFinal : AttemptOutcome::kNotStarted;
    call.result = {};
    call.result.status = {Code::kUnavailable, "connection lost: " + why, {}};
    owner_.OnAttemptEnded(call, outcome);
  }
  owner_.OnConnectionClosed(*this, std::move(why));
}

}  // namespace millrace::rpc
