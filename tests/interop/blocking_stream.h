#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/rpc/channel.h"
#include "millrace/rpc/client_stream.h"

namespace millrace::interop {

// A streaming call whose steps block, for test programs. Thread: one, and not a loop's.
class BlockingStream {
 public:
  BlockingStream(rpc::Channel& channel, std::string_view method, rpc::CallOptions options);

  // False when the call is over.
  bool Write(std::string message);
  // None at the end of the messages.
  std::optional<std::string> Read();
  void WritesDone() { stream_->WritesDone(); }
  void Cancel() { stream_->Cancel(); }
  // The status; drops messages that were not read.
  rpc::CallResult Finish();

 private:
  std::shared_ptr<std::promise<rpc::CallResult>> result_;
  std::unique_ptr<rpc::ClientStream> stream_;
};

}  // namespace millrace::interop
