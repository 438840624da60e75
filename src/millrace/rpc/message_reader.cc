#include "millrace/rpc/message_reader.h"

#include <algorithm>
#include <utility>

namespace millrace::rpc {
namespace {

constexpr std::size_t kReserveBytesMax = 64u << 10;

}  // namespace

void WriteMessagePrefix(std::size_t message_bytes, char out[kMessagePrefixBytes]) {
  out[0] = 0;
  for (int i = 0; i < 4; ++i) out[1 + i] = static_cast<char>((message_bytes >> (24 - 8 * i)) & 255);
}

MessageReader::Outcome MessageReader::Feed(std::string_view* data) {
  while (prefix_bytes_ < kMessagePrefixBytes) {
    if (data->empty()) return Outcome::kNeedMore;
    prefix_[prefix_bytes_++] = static_cast<unsigned char>(data->front());
    data->remove_prefix(1);
    if (prefix_bytes_ < kMessagePrefixBytes) continue;
    length_ = (std::size_t{prefix_[1]} << 24) | (std::size_t{prefix_[2]} << 16) |
              (std::size_t{prefix_[3]} << 8) | prefix_[4];
    if (prefix_[0] > 1) return Outcome::kBadFlag;
    if (length_ > message_bytes_max_) return Outcome::kTooLarge;
    body_.reserve(std::min(length_, kReserveBytesMax));
  }
  const std::size_t take = std::min(data->size(), length_ - body_.size());
  body_.append(data->data(), take);
  data->remove_prefix(take);
  return body_.size() == length_ ? Outcome::kMessage : Outcome::kNeedMore;
}

std::string MessageReader::TakeMessage() {
  prefix_bytes_ = 0;
  length_ = 0;
  return std::exchange(body_, {});
}

}  // namespace millrace::rpc
