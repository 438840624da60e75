#include "millrace/rpc/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::rpc {
namespace {

// zlib's window size, plus what asks for the gzip container.
constexpr int kGzipWindowBits = 15 + 16;
constexpr std::size_t kFirstOutputBytes = 16u << 10;

}  // namespace

Result<std::string> Gunzip(std::string_view packed, std::size_t bytes_max) {
  z_stream stream{};
  MR_CHECK(inflateInit2(&stream, kGzipWindowBits) == Z_OK);
  // zlib's type is not const, but it only reads.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  int outcome = Z_OK;
  // One byte of room above the limit tells "just fits" from "too large".
  while (outcome == Z_OK && stream.total_out <= bytes_max) {
    const std::size_t used = stream.total_out;
    out.resize(std::min(std::max(used * 2, kFirstOutputBytes), bytes_max + 1));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + used);
    stream.avail_out = static_cast<uInt>(out.size() - used);
    outcome = inflate(&stream, Z_NO_FLUSH);
    if (outcome == Z_OK && stream.avail_out > 0) break;  // Input ended before the member did.
  }
  const std::size_t total = stream.total_out;
  const bool input_used_up = stream.avail_in == 0;
  inflateEnd(&stream);
  if (total > bytes_max) {
    return Status(StatusCode::kResourceExhausted,
                  "unpacked message is larger than " + std::to_string(bytes_max) + " bytes");
  }
  if (outcome != Z_STREAM_END || !input_used_up) {
    return Status(StatusCode::kInvalidArgument, "message is not valid gzip data");
  }
  out.resize(total);
  return out;
}

std::string Gzip(std::string_view bytes) {
  z_stream stream{};
  MR_CHECK(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindowBits, 8,
                        Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  MR_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace millrace::rpc
