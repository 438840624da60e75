#include "millrace/rpc/stream_outbox.h"

#include <utility>

#include "millrace/base/check.h"
#include "millrace/rpc/message_reader.h"

namespace millrace::rpc {

void StreamOutbox::Write(OutgoingMessage message, Callback done) {
  MR_CHECK(!writer_);
  if (closed_) {
    loop_.Post([done = std::move(done)]() mutable { done(false); });
    return;
  }
  bytes_ += message.bytes.size() + kMessagePrefixBytes;
  messages_.push_back(std::move(message));
  writer_ = std::move(done);
  MaybeResume();
}

bool StreamOutbox::Next(MessageWriter* writer) {
  if (messages_.empty()) return false;
  writer->Begin(std::move(messages_.front()));
  messages_.pop_front();
  return true;
}

void StreamOutbox::PutBack(std::deque<OutgoingMessage> messages) {
  for (; !messages.empty(); messages.pop_back()) {
    messages_.push_front(std::move(messages.back()));
  }
  bytes_ = 0;
  for (const OutgoingMessage& message : messages_) {
    bytes_ += message.bytes.size() + kMessagePrefixBytes;
  }
}

void StreamOutbox::OnProduced(std::size_t bytes) {
  if (closed_) return;
  bytes_ -= bytes;
  MaybeResume();
}

void StreamOutbox::Close() {
  closed_ = true;
  messages_.clear();
  bytes_ = 0;
  if (writer_) {
    loop_.Post([done = std::move(writer_)]() mutable { done(false); });
  }
}

void StreamOutbox::MaybeResume() {
  if (!writer_ || bytes_ > kBytesMax) return;
  loop_.Post([done = std::move(writer_)]() mutable { done(true); });
}

}  // namespace millrace::rpc
