#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace::rpc {

// Looks at the frame headers that a client sends, for frames of a stream that the client itself has
// ended (with END_STREAM or RST_STREAM): a connection error of HTTP/2. nghttp2 finds them only with
// a record of closed streams that costs a few hundred bytes a stream; this remembers the last few
// ids.
class EndedStreamWatch {
 public:
  // Bytes of the connection in the order they came, the client's magic included. False = such a
  // frame has begun; nothing may be fed after that.
  [[nodiscard]] bool Feed(std::string_view bytes);

 private:
  [[nodiscard]] bool OnFrame();

  static constexpr std::size_t kHeaderBytes = 9;
  static constexpr std::size_t kMagicBytes = 24;

  std::size_t skip_ = kMagicBytes;  // Before the next frame header.
  std::array<unsigned char, kHeaderBytes> header_{};
  std::size_t header_bytes_ = 0;
  std::array<std::uint32_t, 8> ended_{};  // A ring. Stream 0 never is one.
  std::size_t ended_next_ = 0;
};

}  // namespace millrace::rpc
