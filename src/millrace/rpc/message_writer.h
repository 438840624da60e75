#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace::rpc {

// A message as it goes over the wire behind its prefix.
struct OutgoingMessage {
  std::string bytes;
  bool compressed = false;
};

// Turns one message after the other into gRPC's length-prefixed bytes; MessageReader's other side.
class MessageWriter {
 public:
  // The message before must be out.
  void Begin(OutgoingMessage message);
  // Bytes of the message are left.
  [[nodiscard]] bool busy() const { return busy_; }
  [[nodiscard]] std::size_t message_bytes() const { return message_.bytes.size(); }

  // Writes the next bytes, at most `room`, and says how many.
  std::size_t Produce(std::uint8_t* out, std::size_t room);

  // The message last begun, which is then gone here.
  OutgoingMessage Take();
  // Begins the same message once more.
  void Rewind();

 private:
  OutgoingMessage message_;
  bool busy_ = false;
  std::size_t produced_ = 0;  // Of prefix and message together.
};

}  // namespace millrace::rpc
