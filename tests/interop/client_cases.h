#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"

namespace millrace::interop {

// What a case has at hand.
struct ClientContext {
  exec::EventLoop& loop;
  const rpc::ChannelOptions& options;  // For those that make channels.
  rpc::Channel& channel;
};

using ClientCases = std::map<std::string, std::function<void(ClientContext&)>, std::less<>>;

// The published cases by their names. A case that fails ends the process with the reason.
void AddUnaryCases(ClientCases* cases);
void AddStreamCases(ClientCases* cases);

// Ends the process unless it is so.
void Require(bool so, std::string_view what);
void RequireStatus(const rpc::CallResult& result, rpc::Code code, std::string_view message = {});

std::string TestMethod(std::string_view name);
// A generous deadline, so that a test that hangs ends with the reason.
rpc::CallOptions Patient(const ClientContext& context);

}  // namespace millrace::interop
