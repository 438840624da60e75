#include "millrace/rpc/client_call.h"

#include <utility>

#include "millrace/rpc/message_reader.h"

namespace millrace::rpc {
namespace {

constexpr std::size_t kRepeatableBytesMax = 64u << 10;

}  // namespace

bool ClientCall::request_ended() const {
  if (writer.busy()) return false;
  return stream == nullptr || (stream->writes_done && stream->outbox.empty());
}

bool ClientCall::NextOutgoing() { return stream != nullptr && stream->outbox.Next(&writer); }

void ClientCall::OnMessageSent() {
  if (stream == nullptr) return;
  OutgoingMessage message = writer.Take();
  if (!stream->repeatable) return;
  stream->sent_bytes += message.bytes.size() + kMessagePrefixBytes;
  stream->sent.push_back(std::move(message));
  if (stream->sent_bytes > kRepeatableBytesMax) OnBegun();
}

void ClientCall::OnBegun() {
  if (stream == nullptr) return;
  stream->repeatable = false;
  std::deque<OutgoingMessage>().swap(stream->sent);
}

bool ClientCall::Rewind() {
  if (stream == nullptr) {
    writer.Rewind();
  } else {
    if (!stream->repeatable) return false;
    if (writer.busy()) stream->sent.push_back(writer.Take());
    stream->outbox.PutBack(std::exchange(stream->sent, {}));
    stream->sent_bytes = 0;
    stream->deferred = false;
  }
  stream_id = 0;
  headers_sent = false;
  reply.reset();
  result = {};
  return true;
}

}  // namespace millrace::rpc
