#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::rpc {

inline constexpr std::size_t kMessagePrefixBytes = 5;

// Writes gRPC's message prefix: a compressed flag and the length, big-endian.
void WriteMessagePrefix(std::size_t message_bytes, char out[kMessagePrefixBytes]);

// Cuts a byte stream into gRPC's length-prefixed messages.
//
// Bounds: a message above the limit is refused when its prefix is read; memory grows with the bytes
// that came, not with the length that was promised. Invariants: after kTooLarge or kBadFlag the
// stream is beyond repair and must not be fed again.
class MessageReader {
 public:
  enum class Outcome : std::uint8_t { kNeedMore, kMessage, kTooLarge, kBadFlag };

  explicit MessageReader(std::size_t message_bytes_max) : message_bytes_max_(message_bytes_max) {}

  // Takes bytes from the front of *data until a message is complete (kMessage) or all are taken
  // (kNeedMore).
  Outcome Feed(std::string_view* data);

  // After kMessage, before the next Feed.
  [[nodiscard]] bool compressed() const { return prefix_[0] != 0; }
  std::string TakeMessage();

  // The length promised by the prefix just read; for messages to people.
  [[nodiscard]] std::size_t announced_bytes() const { return length_; }
  [[nodiscard]] std::size_t message_bytes_max() const { return message_bytes_max_; }
  // True between messages: the stream may end here.
  [[nodiscard]] bool at_boundary() const { return prefix_bytes_ == 0; }

 private:
  std::size_t message_bytes_max_;
  unsigned char prefix_[kMessagePrefixBytes] = {};
  std::size_t prefix_bytes_ = 0;
  std::size_t length_ = 0;
  std::string body_;
};

}  // namespace millrace::rpc
