#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>

namespace millrace::rpc {

class ServerConnection;

// nghttp2's C callbacks, turned into calls of a connection's methods; and what we ask of nghttp2
// against floods.
struct ServerCallbacks {
  // A server session that reports to `connection`.
  static nghttp2_session* NewSession(ServerConnection& connection);

  // The source's pointer is the call.
  static ssize_t ReadData(nghttp2_session* session, std::int32_t stream_id, std::uint8_t* out,
                          std::size_t room, std::uint32_t* flags, nghttp2_data_source* source,
                          void* user_data);

 private:
  struct Table;
  static ServerConnection& Self(void* user_data);
  static int OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd*, void* user_data);
  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user_data);
  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                      std::size_t value_size, std::uint8_t, void* user_data);
  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* user_data);
  static int OnData(nghttp2_session* session, std::uint8_t, std::int32_t stream_id,
                    const std::uint8_t* data, std::size_t size, void* user_data);
  static int OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* user_data);
  static int OnStreamClose(nghttp2_session* session, std::int32_t stream_id, std::uint32_t,
                           void* user_data);
};

}  // namespace millrace::rpc
