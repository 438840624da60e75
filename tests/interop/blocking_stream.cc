#include "tests/interop/blocking_stream.h"

#include <utility>

namespace millrace::interop {

BlockingStream::BlockingStream(rpc::Channel& channel, std::string_view method,
                               rpc::CallOptions options)
    : result_(std::make_shared<std::promise<rpc::CallResult>>()),
      stream_(channel.Stream(method, std::move(options), [result = result_](rpc::CallResult ended) {
        result->set_value(std::move(ended));
      })) {}

bool BlockingStream::Write(std::string message) {
  std::promise<bool> more;
  stream_->Write(std::move(message), [&more](bool is_more) { more.set_value(is_more); });
  return more.get_future().get();
}

std::optional<std::string> BlockingStream::Read() {
  std::promise<std::optional<std::string>> message;
  stream_->Read(
      [&message](std::optional<std::string> read) { message.set_value(std::move(read)); });
  return message.get_future().get();
}

rpc::CallResult BlockingStream::Finish() {
  while (Read()) {
  }
  return result_->get_future().get();
}

}  // namespace millrace::interop
