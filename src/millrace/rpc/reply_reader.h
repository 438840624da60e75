#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/rpc/message_reader.h"
#include "millrace/rpc/service.h"
#include "millrace/rpc/status.h"

namespace millrace::rpc {

// What a server answers one call with, understood as it comes: header blocks, messages, and the
// status in the end. Pure.
//
// Bounds: metadata up to the header limit, messages up to the message limit.
// Fails: failed() turns true at what the server may not send or we do not take; the stream is then
// to be reset, and EndStatus says why.
class ReplyReader {
 public:
  // `unary`: an ok reply has exactly one message.
  ReplyReader(bool unary, std::size_t message_bytes_max, std::size_t header_bytes_max);

  void OnHeader(std::string_view name, std::string_view value);
  // The header block is whole. True when headers() are, so once at most.
  bool OnHeadersEnd(bool end_stream);

  // Takes bytes from the front of *data until a message is complete, and unpacks it. None when all
  // are taken or the reply is of no use.
  std::optional<std::string> NextMessage(std::string_view* data);

  // The status once the stream is gone, with HTTP/2's error code. `refused` is set when the server
  // surely did not begin the call.
  RpcStatus EndStatus(std::uint32_t error, bool* refused) const;

  [[nodiscard]] bool failed() const { return !failure_.ok(); }
  [[nodiscard]] bool has_status() const { return has_status_; }
  [[nodiscard]] bool headers_done() const { return headers_done_; }
  Metadata headers;
  Metadata trailers;

 private:
  void Fail(Code code, std::string message);

  const bool unary_;
  const std::size_t header_bytes_max_;
  MessageReader messages_;
  std::size_t header_bytes_ = 0;
  int http_status_ = 0;
  bool headers_done_ = false;
  bool is_grpc_ = false;
  bool gzip_ = false;
  bool has_status_ = false;
  bool has_message_ = false;
  RpcStatus status_;
  RpcStatus failure_;
};

}  // namespace millrace::rpc
