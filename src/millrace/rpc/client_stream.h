#pragma once

#include <optional>
#include <string>

#include "millrace/base/function.h"
#include "millrace/rpc/service.h"

namespace millrace::rpc {

// One outgoing call with any number of messages in either direction; Channel::Stream begins it, and
// the `done` given there gets its status.
//
// Thread: any, one at a time. Callbacks run on the channel's loop, which must outlive this, never
// inside the call that takes them. Bounds: the server is told to wait when about 1 MiB was not read
// yet. Write's callback waits while more than 64 KiB written before were not taken by the server.
// Invariants: every callback runs exactly once, and before `done` when it was waiting as the call
// ended. At most one Read, one Write and one ReadHeaders wait at a time. Destruction cancels the
// call unless it is over; `done` runs all the same.
class ClientStream {
 public:
  using HeadersCallback = UniqueFunction<void(Metadata headers)>;
  using ReadCallback = UniqueFunction<void(std::optional<std::string> message)>;
  using WriteCallback = UniqueFunction<void(bool more)>;

  virtual ~ClientStream() = default;

  // The metadata before the first message; empty when the call ends without. `done` gets it too.
  virtual void ReadHeaders(HeadersCallback done) = 0;
  // The server's next message; none once it has sent its last one or the call is over.
  virtual void Read(ReadCallback done) = 0;
  // `done` says when to write the next message, or with false that the call is over.
  virtual void Write(std::string message, WriteCallback done) = 0;
  // No message is written any more. Once only.
  virtual void WritesDone() = 0;
  virtual void Cancel() = 0;
};

}  // namespace millrace::rpc
