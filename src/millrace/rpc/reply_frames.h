#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "millrace/rpc/server_call.h"

// A call's reply as HTTP/2 frames of one session. Thread: the loop's.
namespace millrace::rpc {

// A reply of headers only; `http_status` may be something else than 200.
void SubmitTrailersOnly(nghttp2_session* session, const CallState& call,
                        std::string_view http_status, bool list_encodings = false);
// The status' message as text, for what is no gRPC call.
void SubmitPlainText(nghttp2_session* session, CallState& call, std::string_view http_status);
// Headers, then the messages that ProduceReplyData has, then trailers.
void SubmitHeadersAndData(nghttp2_session* session, CallState& call,
                          nghttp2_data_source_read_callback read_data);
// The next bytes of the call's messages, for nghttp2's read callback. Submits the trailers behind
// the last one.
ssize_t ProduceReplyData(nghttp2_session* session, CallState& call, std::uint8_t* out,
                         std::size_t room, std::uint32_t* flags);

}  // namespace millrace::rpc
