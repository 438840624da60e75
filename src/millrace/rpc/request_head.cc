#include "millrace/rpc/request_head.h"

#include <optional>
#include <utility>

#include "millrace/rpc/wire_format.h"

namespace millrace::rpc {

void RequestHead::Begin() {
  metadata.clear();
  bytes_ = 0;
  deadline_ = Instant::Max();
  method_ = nullptr;
  too_large_ = false;
  is_post_ = false;
  is_grpc_ = false;
  gzip_ = false;
  accepts_gzip_ = false;
  unknown_encoding_ = false;
  if (!fault_.ok()) fault_ = {};
}

void RequestHead::MarkMalformed(std::string why) {
  if (fault_.ok()) fault_ = {Code::kInternal, std::move(why), {}};
}

void RequestHead::OnHeader(std::string_view name, std::string_view value, const Clock& clock) {
  // The size as HTTP/2 counts it for SETTINGS_MAX_HEADER_LIST_SIZE.
  bytes_ += name.size() + value.size() + 32;
  if (bytes_ > header_list_bytes_max_) {
    too_large_ = true;
    metadata.clear();
    return;
  }
  if (name.starts_with(':')) {
    if (name == ":path") {
      method_ = methods_.Find(value);
      if (method_ == nullptr) fault_ = {Code::kUnimplemented, methods_.ExplainUnknown(value), {}};
    } else if (name == ":method") {
      is_post_ = value == "POST";
    }
  } else if (name == "content-type") {
    is_grpc_ = IsGrpcContentType(value);
  } else if (name == "grpc-timeout") {
    const std::optional<Duration> timeout = ParseTimeout(value);
    if (timeout) {
      deadline_ = clock.Now() + *timeout;
    } else {
      MarkMalformed("malformed grpc-timeout");
    }
  } else if (name == "grpc-encoding") {
    gzip_ = value == "gzip";
    unknown_encoding_ = !gzip_ && value != "identity";
  } else if (name == "grpc-accept-encoding") {
    accepts_gzip_ |= ListsToken(value, "gzip");
  } else if (name.starts_with("grpc-") && name != "grpc-trace-bin" && name != "grpc-tags-bin") {
    return;
  } else if (name != "te" && name != "user-agent" && name != "accept-encoding" &&
             name != "content-length") {
    if (!AppendReceivedMetadata(name, value, &metadata)) {
      MarkMalformed("malformed binary metadata " + std::string(name));
    }
  }
}

RpcStatus RequestHead::Verdict(std::string_view* http_status) const {
  *http_status = "200";
  if (too_large_) {
    *http_status = "431";
    return {Code::kResourceExhausted,
            "request headers are larger than " + std::to_string(header_list_bytes_max_) + " bytes",
            {}};
  }
  if (!is_post_) {
    *http_status = "405";
    return {Code::kInternal, "gRPC calls are POST requests", {}};
  }
  if (!is_grpc_) {
    *http_status = "415";
    return {Code::kInternal, "content-type is not application/grpc", {}};
  }
  if (fault_.code == Code::kInternal) *http_status = "400";
  if (fault_.ok() && unknown_encoding_) {
    return {Code::kUnimplemented, "grpc-encoding is not supported", {}};
  }
  return fault_;
}

}  // namespace millrace::rpc
