#include "millrace/rpc/stream_inbox.h"

#include <utility>

#include "millrace/base/check.h"
#include "millrace/rpc/message_reader.h"

namespace millrace::rpc {

bool StreamInbox::Take(std::optional<std::string>* message) {
  MR_CHECK(!reader_);
  message->reset();
  if (messages_.empty()) return ended_;
  *message = std::move(messages_.front().bytes);
  taken_compressed_ = messages_.front().compressed;
  messages_.pop_front();
  bytes_ -= (*message)->size() + kMessagePrefixBytes;
  return true;
}

void StreamInbox::Wait(Callback reader) {
  MR_CHECK(!reader_ && !over());
  reader_ = std::move(reader);
}

void StreamInbox::Push(std::string message, bool compressed) {
  if (ended_) return;
  if (reader_) {
    taken_compressed_ = compressed;
    loop_.Post([done = std::move(reader_), message = std::move(message)]() mutable {
      done(std::move(message));
    });
    return;
  }
  bytes_ += message.size() + kMessagePrefixBytes;
  messages_.push_back({std::move(message), compressed});
}

void StreamInbox::End() {
  ended_ = true;
  if (reader_) {
    loop_.Post([done = std::move(reader_)]() mutable { done(std::nullopt); });
  }
}

void StreamInbox::Close() {
  messages_.clear();
  bytes_ = 0;
  End();
}

std::size_t StreamInbox::Withhold(std::size_t received) {
  if (bytes_ <= kBytesMax) return received;
  withheld_ += received;
  return 0;
}

std::size_t StreamInbox::TakeWithheld() {
  return bytes_ <= kBytesMax ? std::exchange(withheld_, 0) : 0;
}

}  // namespace millrace::rpc
