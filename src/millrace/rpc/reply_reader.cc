#include "millrace/rpc/reply_reader.h"

#include <nghttp2/nghttp2.h>

#include <cstdlib>
#include <utility>

#include "millrace/rpc/gzip.h"
#include "millrace/rpc/wire_format.h"

namespace millrace::rpc {

ReplyReader::ReplyReader(bool unary, std::size_t message_bytes_max, std::size_t header_bytes_max)
    : unary_(unary), header_bytes_max_(header_bytes_max), messages_(message_bytes_max) {}

void ReplyReader::Fail(Code code, std::string message) {
  if (failure_.ok()) failure_ = {code, std::move(message), {}};
}

void ReplyReader::OnHeader(std::string_view name, std::string_view value) {
  // As HTTP/2 counts them for SETTINGS_MAX_HEADER_LIST_SIZE.
  header_bytes_ += name.size() + value.size() + 32;
  if (header_bytes_ > header_bytes_max_) {
    Fail(Code::kResourceExhausted,
         "response metadata is larger than " + std::to_string(header_bytes_max_) + " bytes");
    return;
  }
  if (name == ":status") {
    http_status_ = std::atoi(std::string(value).c_str());
  } else if (name == "grpc-status") {
    has_status_ = true;
    status_.code = ParseStatusCode(value);
  } else if (name == "grpc-message") {
    status_.message = PercentDecode(value);
  } else if (name == "grpc-status-details-bin") {
    status_.details = Base64Decode(value).value_or("");
  } else if (name == "content-type") {
    if (!headers_done_) is_grpc_ = IsGrpcContentType(value);
  } else if (name == "grpc-encoding") {
    gzip_ = value == "gzip";
    if (!gzip_ && value != "identity") {
      Fail(Code::kInternal, "unknown grpc-encoding in the response");
    }
  } else if (!name.starts_with(':') && !name.starts_with("grpc-")) {
    if (!AppendReceivedMetadata(name, value, headers_done_ ? &trailers : &headers)) {
      Fail(Code::kInternal, "malformed binary metadata in the response");
    }
  }
}

bool ReplyReader::OnHeadersEnd(bool end_stream) {
  header_bytes_ = 0;
  if (headers_done_) return false;
  if (http_status_ / 100 == 1) {
    // An interim response; the real one follows.
    headers.clear();
    http_status_ = 0;
    return false;
  }
  headers_done_ = true;
  // Headers only: they are the trailers.
  if (end_stream && has_status_) trailers.swap(headers);
  return true;
}

std::optional<std::string> ReplyReader::NextMessage(std::string_view* data) {
  // The body of a reply that is not gRPC is of no use; its HTTP status says enough.
  if (failed() || !is_grpc_) return std::nullopt;
  switch (messages_.Feed(data)) {
    case MessageReader::Outcome::kNeedMore:
      return std::nullopt;
    case MessageReader::Outcome::kTooLarge:
      Fail(Code::kResourceExhausted, "response message of " +
                                         std::to_string(messages_.announced_bytes()) +
                                         " bytes is larger than the limit of " +
                                         std::to_string(messages_.message_bytes_max()));
      return std::nullopt;
    case MessageReader::Outcome::kBadFlag:
      Fail(Code::kInternal, "malformed message prefix in the response");
      return std::nullopt;
    case MessageReader::Outcome::kMessage:
      break;
  }
  const bool compressed = messages_.compressed();
  std::string message = messages_.TakeMessage();
  if (unary_ && std::exchange(has_message_, true)) {
    Fail(Code::kInternal, "more than one response message");
    return std::nullopt;
  }
  if (!compressed) return message;
  if (!gzip_) {
    Fail(Code::kInternal, "compressed response without grpc-encoding");
    return std::nullopt;
  }
  Result<std::string> unpacked = Gunzip(message, messages_.message_bytes_max());
  if (unpacked.ok()) return std::move(unpacked).value();
  Fail(unpacked.code() == StatusCode::kResourceExhausted ? Code::kResourceExhausted
                                                         : Code::kInternal,
       std::string(unpacked.status().message()));
  return std::nullopt;
}

RpcStatus ReplyReader::EndStatus(std::uint32_t error, bool* refused) const {
  *refused = false;
  if (failed()) return failure_;
  if (has_status_) {
    if (status_.ok() && (!messages_.at_boundary() || (unary_ && !has_message_))) {
      return {Code::kInternal, "ok without one whole response message", {}};
    }
    return status_;
  }
  if (error == NGHTTP2_REFUSED_STREAM) {
    *refused = http_status_ == 0;
    return {Code::kUnavailable, "the server refused the stream", {}};
  }
  if (http_status_ != 0 && (http_status_ != 200 || !is_grpc_)) {
    return {CodeOfHttpStatus(http_status_),
            "HTTP status " + std::to_string(http_status_) + " without a gRPC status",
            {}};
  }
  if (error == NGHTTP2_CANCEL) return {Code::kCancelled, "the server reset the stream", {}};
  if (error == NGHTTP2_ENHANCE_YOUR_CALM) {
    return {Code::kResourceExhausted, "the server asks for fewer requests", {}};
  }
  return {error == NGHTTP2_NO_ERROR ? Code::kUnknown : Code::kInternal,
          "stream ended without a status, HTTP/2 error " + std::to_string(error),
          {}};
}

}  // namespace millrace::rpc
