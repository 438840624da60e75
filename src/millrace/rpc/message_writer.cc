#include "millrace/rpc/message_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/rpc/message_reader.h"

namespace millrace::rpc {

void MessageWriter::Begin(OutgoingMessage message) {
  MR_CHECK(!busy_);
  message_ = std::move(message);
  Rewind();
}

void MessageWriter::Rewind() {
  busy_ = true;
  produced_ = 0;
}

OutgoingMessage MessageWriter::Take() {
  busy_ = false;
  return std::exchange(message_, {});
}

std::size_t MessageWriter::Produce(std::uint8_t* out, std::size_t room) {
  std::size_t count = 0;
  if (!busy_) return count;
  if (produced_ < kMessagePrefixBytes) {
    char prefix[kMessagePrefixBytes];
    WriteMessagePrefix(message_.bytes.size(), prefix);
    if (message_.compressed) prefix[0] = 1;
    count = std::min(room, kMessagePrefixBytes - produced_);
    std::memcpy(out, prefix + produced_, count);
    produced_ += count;
    if (produced_ < kMessagePrefixBytes) return count;
  }
  const std::size_t from = produced_ - kMessagePrefixBytes;
  const std::size_t n = std::min(room - count, message_.bytes.size() - from);
  std::memcpy(out + count, message_.bytes.data() + from, n);
  produced_ += n;
  busy_ = from + n < message_.bytes.size();
  return count + n;
}

}  // namespace millrace::rpc
