#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "millrace/base/time.h"
#include "millrace/rpc/method_table.h"
#include "millrace/rpc/service.h"
#include "millrace/rpc/status.h"

namespace millrace::rpc {

// A request's header block, understood field by field. Pure. A connection has one: header blocks do
// not interleave.
//
// Bounds: metadata up to `header_list_bytes_max`; what is beyond is dropped and refused.
class RequestHead {
 public:
  RequestHead(MethodTable& methods, std::size_t header_list_bytes_max)
      : methods_(methods), header_list_bytes_max_(header_list_bytes_max) {}

  // A block begins.
  void Begin();
  void OnHeader(std::string_view name, std::string_view value, const Clock& clock);

  // The block is whole. Not ok = the request is refused with this and `http_status`.
  RpcStatus Verdict(std::string_view* http_status) const;

  // --- What the fields said.
  Metadata metadata;
  [[nodiscard]] Instant deadline() const { return deadline_; }
  // Null when the path names none, or was missing.
  [[nodiscard]] Method* method() const { return method_; }
  [[nodiscard]] bool gzip() const { return gzip_; }
  [[nodiscard]] bool accepts_gzip() const { return accepts_gzip_; }
  // Whatever else is wrong with it.
  [[nodiscard]] bool is_grpc_call() const { return is_post_ && is_grpc_; }
  [[nodiscard]] bool unknown_encoding() const { return unknown_encoding_; }

 private:
  void MarkMalformed(std::string why);

  MethodTable& methods_;
  const std::size_t header_list_bytes_max_;
  std::size_t bytes_ = 0;
  Instant deadline_ = Instant::Max();
  Method* method_ = nullptr;
  bool too_large_ = false;
  bool is_post_ = false;
  bool is_grpc_ = false;
  bool gzip_ = false;
  bool accepts_gzip_ = false;
  bool unknown_encoding_ = false;
  RpcStatus fault_;
};

}  // namespace millrace::rpc
