#include "millrace/rpc/server_callbacks.h"

#include <string_view>

#include "millrace/base/check.h"
#include "millrace/rpc/block_pool.h"
#include "millrace/rpc/reply_frames.h"
#include "millrace/rpc/server_connection.h"

namespace millrace::rpc {
namespace {

// Resets a client may send at once, and per second in the long run, before it is taken for an
// attack.
constexpr std::uint64_t kResetBurst = 5'000;
constexpr std::uint64_t kResetsPerSecond = 500;
constexpr std::size_t kContinuationsMax = 8;
constexpr std::size_t kOutboundAcksMax = 1'000;

std::string_view View(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

CallState* CallOf(nghttp2_session* session, std::int32_t stream_id) {
  return static_cast<CallState*>(nghttp2_session_get_stream_user_data(session, stream_id));
}

}  // namespace

struct ServerCallbacks::Table {
  Table() {
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

nghttp2_session* ServerCallbacks::NewSession(ServerConnection& connection) {
  // Constant after construction, shared by all connections, never destroyed.
  static const Table* const table = new Table;
  nghttp2_session* session = nullptr;
  MR_CHECK(nghttp2_session_server_new3(&session, table->callbacks, &connection, table->option,
                                       BlockPoolForNghttp2()) == 0);
  return session;
}

ServerConnection& ServerCallbacks::Self(void* user_data) {
  return *static_cast<ServerConnection*>(user_data);
}

int ServerCallbacks::OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd*, void* user_data) {
  ServerConnection& self = Self(user_data);
  self.Judge(self.conduct_.OnFrame());
  return 0;
}

int ServerCallbacks::OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
  ServerConnection& self = Self(user_data);
  self.header_block_stream_ = frame->hd.stream_id;
  if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) self.OpenCall(frame->hd.stream_id);
  return 0;
}

int ServerCallbacks::OnHeader(nghttp2_session*, const nghttp2_frame* frame,
                              const std::uint8_t* name, std::size_t name_size,
                              const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                              void* user_data) {
  // Trailers of a client mean nothing in gRPC.
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  ServerConnection& self = Self(user_data);
  self.head_.OnHeader(View(name, name_size), View(value, value_size), self.loop_.clock());
  return 0;
}

int ServerCallbacks::OnFrame(nghttp2_session* session, const nghttp2_frame* frame,
                             void* user_data) {
  ServerConnection& self = Self(user_data);
  switch (frame->hd.type) {
    case NGHTTP2_HEADERS: {
      self.header_block_stream_ = 0;
      self.conduct_.OnUseful();
      CallState* call = CallOf(session, frame->hd.stream_id);
      if (call == nullptr) return 0;
      if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) self.OnRequestHeaders(*call);
      if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) self.OnRequestEnd(*call);
      return 0;
    }
    case NGHTTP2_DATA: {
      const bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
      if (frame->hd.length > 0 || end) self.conduct_.OnUseful();
      CallState* call = end ? CallOf(session, frame->hd.stream_id) : nullptr;
      if (call != nullptr) self.OnRequestEnd(*call);
      break;
    }
    case NGHTTP2_PING:
      self.OnPing((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0);
      break;
    case NGHTTP2_SETTINGS:
      self.OnSettings();
      break;
    default:
      break;
  }
  return 0;
}

int ServerCallbacks::OnData(nghttp2_session* session, std::uint8_t, std::int32_t stream_id,
                            const std::uint8_t* data, std::size_t size, void* user_data) {
  // The connection's window is opened at once: one slow stream must not stop the others.
  nghttp2_session_consume_connection(session, size);
  CallState* call = CallOf(session, stream_id);
  if (call != nullptr) Self(user_data).OnRequestData(*call, View(data, size));
  return 0;
}

int ServerCallbacks::OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame,
                                 void* user_data) {
  if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
  Self(user_data).conduct_.OnSent();
  if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
    const CallState* call = CallOf(session, frame->hd.stream_id);
    // The reply is complete before the request: the client need not send the rest.
    if (call != nullptr && !call->request_ended) {
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
  }
  return 0;
}

int ServerCallbacks::OnStreamClose(nghttp2_session* session, std::int32_t stream_id, std::uint32_t,
                                   void* user_data) {
  ServerConnection& self = Self(user_data);
  // A block that nghttp2 refused ends without a frame.
  if (self.header_block_stream_ == stream_id) self.header_block_stream_ = 0;
  CallState* call = CallOf(session, stream_id);
  if (call != nullptr) self.OnStreamClosed(*call);
  return 0;
}

ssize_t ServerCallbacks::ReadData(nghttp2_session* session, std::int32_t, std::uint8_t* out,
                                  std::size_t room, std::uint32_t* flags,
                                  nghttp2_data_source* source, void*) {
  return ProduceReplyData(session, *static_cast<CallState*>(source->ptr), out, room, flags);
}

}  // namespace millrace::rpc
