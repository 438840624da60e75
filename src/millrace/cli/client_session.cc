#include "millrace/cli/client_session.h"

#include <future>
#include <utility>

namespace millrace::cli {

ClientSession::ClientSession(const Context& context, int connections)
    : timeout_(context.timeout), loop_(exec::EventLoop::Create("client", clock_)) {
  rpc::ChannelOptions options;
  options.target = context.address;
  if (context.UsesTls()) options.tls = context.tls;
  options.connections_max = connections;
  options.backoff_max = std::chrono::seconds(1);
  // What we asked for is ours to hold: a thousand leased tasks may be a megabyte each.
  options.receive_message_bytes_max = std::size_t{1} << 30;
  channel_ = rpc::Channel::Create(*loop_, std::move(options));
}

ClientSession::~ClientSession() { channel_.reset(); }

rpc::CallResult ClientSession::CallBytes(std::string_view method, std::string request,
                                         Duration timeout) {
  rpc::CallOptions options;
  options.deadline = clock_.Now() + timeout;
  return rpc::CallAndWait(*channel_, method, std::move(request), std::move(options));
}

CallError ClientSession::Unreadable() {
  CallError error;
  error.code = rpc::Code::kInternal;
  error.message = "the server's answer cannot be read";
  return error;
}

void ClientSession::RunOnLoop(Closure closure) {
  std::promise<void> done;
  loop_->Post([&done, closure = std::move(closure)]() mutable {
    closure();
    closure = Closure();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace millrace::cli
