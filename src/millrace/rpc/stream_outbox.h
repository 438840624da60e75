#pragma once

#include <cstddef>
#include <deque>

#include "millrace/base/function.h"
#include "millrace/exec/executor.h"
#include "millrace/rpc/message_writer.h"

namespace millrace::rpc {

// Messages written to a stream that did not leave yet; the client's side and the server's alike.
//
// Thread: the loop's.
// Bounds: a writer waits while more than kBytesMax are here, so that this and one message is the
// most.
// Invariants: every callback runs exactly once, posted.
class StreamOutbox {
 public:
  using Callback = UniqueFunction<void(bool more)>;
  static constexpr std::size_t kBytesMax = 64u << 10;

  explicit StreamOutbox(exec::Executor& loop) : loop_(loop) {}

  void Write(OutgoingMessage message, Callback done);
  // Gives the next message to the writer. False when there is none.
  bool Next(MessageWriter* writer);
  // Puts back what has to be sent again, before everything else. The writer holds nothing then.
  void PutBack(std::deque<OutgoingMessage> messages);
  // `bytes` left, prefixes included.
  void OnProduced(std::size_t bytes);
  // Nothing leaves any more: drops everything and tells the writer.
  void Close();

  [[nodiscard]] bool empty() const { return messages_.empty(); }

 private:
  void MaybeResume();

  exec::Executor& loop_;
  std::deque<OutgoingMessage> messages_;
  std::size_t bytes_ = 0;  // Of messages_ and of what the writer has not produced yet.
  Callback writer_;
  bool closed_ = false;
};

}  // namespace millrace::rpc
