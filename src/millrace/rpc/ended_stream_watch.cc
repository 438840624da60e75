#include "millrace/rpc/ended_stream_watch.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>

namespace millrace::rpc {

bool EndedStreamWatch::Feed(std::string_view bytes) {
  while (true) {
    const std::size_t skipped = std::min(skip_, bytes.size());
    skip_ -= skipped;
    bytes.remove_prefix(skipped);
    if (bytes.empty()) return true;
    const std::size_t taken = std::min(kHeaderBytes - header_bytes_, bytes.size());
    std::memcpy(header_.data() + header_bytes_, bytes.data(), taken);
    header_bytes_ += taken;
    bytes.remove_prefix(taken);
    if (header_bytes_ < kHeaderBytes) return true;
    header_bytes_ = 0;
    if (!OnFrame()) return false;
  }
}

bool EndedStreamWatch::OnFrame() {
  skip_ = (std::size_t{header_[0]} << 16) | (std::size_t{header_[1]} << 8) | header_[2];
  const unsigned char type = header_[3];
  if (type != NGHTTP2_DATA && type != NGHTTP2_HEADERS && type != NGHTTP2_RST_STREAM) return true;
  const std::uint32_t stream = (std::uint32_t{header_[5]} & 0x7f) << 24 |
                               std::uint32_t{header_[6]} << 16 | std::uint32_t{header_[7]} << 8 |
                               header_[8];
  if (stream == 0) return true;
  const bool known = std::find(ended_.begin(), ended_.end(), stream) != ended_.end();
  if (type != NGHTTP2_RST_STREAM) {
    if (known) return false;
    if ((header_[4] & NGHTTP2_FLAG_END_STREAM) == 0) return true;
  }
  if (!known) ended_[ended_next_++ % ended_.size()] = stream;
  return true;
}

}  // namespace millrace::rpc
