#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "millrace/base/function.h"
#include "millrace/exec/executor.h"

namespace millrace::rpc {

// Messages that came over a stream, on their way to whoever reads it; the client's side and the
// server's alike.
//
// Thread: the loop's.
// Bounds: once kBytesMax wait unread, the peer is not told that it may send more (Withhold), so
// that what comes then is at most the stream's window and one message.
// Invariants: every callback runs exactly once, posted.
class StreamInbox {
 public:
  using Callback = UniqueFunction<void(std::optional<std::string> message)>;
  static constexpr std::size_t kBytesMax = 256u << 10;

  explicit StreamInbox(exec::Executor& loop) : loop_(loop) {}

  // The next message, or none at the end; false when the reader has to wait.
  [[nodiscard]] bool Take(std::optional<std::string>* message);
  void Wait(Callback reader);
  // `compressed`: it had come so; it is unpacked here.
  void Push(std::string message, bool compressed = false);
  // No message comes any more; those here can still be read.
  void End();
  // End, and what was not read is dropped.
  void Close();
  // Of the message given to the reader last.
  [[nodiscard]] bool taken_compressed() const { return taken_compressed_; }
  [[nodiscard]] bool over() const { return ended_ && messages_.empty(); }

  // `received` bytes came. Says how many the peer may send again.
  [[nodiscard]] std::size_t Withhold(std::size_t received);
  // After Take: says how many the peer may send again now.
  [[nodiscard]] std::size_t TakeWithheld();

 private:
  exec::Executor& loop_;
  struct Message {
    std::string bytes;
    bool compressed;
  };
  std::deque<Message> messages_;
  std::size_t bytes_ = 0;  // Of messages_, with their prefixes.
  std::size_t withheld_ = 0;
  Callback reader_;
  bool ended_ = false;
  bool taken_compressed_ = false;
};

}  // namespace millrace::rpc
