#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/rpc/block_pool.h"
#include "millrace/rpc/service.h"
#include "millrace/rpc/status.h"

namespace millrace::rpc {

// A header block being put together for nghttp2, which copies it when it is submitted.
class HeaderFields {
 public:
  HeaderFields() { fields_.reserve(12); }

  // Both views must live until the block was submitted.
  void AddStatic(std::string_view name, std::string_view value);
  void Add(std::string_view static_name, std::string value);
  // Leaves out what may not be sent; encodes binary values.
  void AddMetadata(const Metadata& metadata);
  // grpc-status, grpc-message, grpc-status-details-bin. A message above 2 KiB is cut and details
  // above 6 KiB are left out: common clients take no more than 8 KiB of trailers.
  void AddStatus(const RpcStatus& status);

  [[nodiscard]] const nghttp2_nv* data() const { return fields_.data(); }
  [[nodiscard]] std::size_t size() const { return fields_.size(); }
  // As HTTP/2 counts them for SETTINGS_MAX_HEADER_LIST_SIZE.
  [[nodiscard]] std::size_t list_bytes() const {
    std::size_t bytes = 0;
    for (const nghttp2_nv& field : fields_) bytes += field.namelen + field.valuelen + 32;
    return bytes;
  }

 private:
  void Append(std::string_view name, std::string_view value);

  std::vector<nghttp2_nv, BlockAllocator<nghttp2_nv>> fields_;
  std::list<std::string> owned_;
};

}  // namespace millrace::rpc
