#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "millrace/base/function.h"
#include "millrace/base/time.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/message_reader.h"

namespace millrace::rpc {

class ClientConnection;

// One outgoing call, waiting for a connection or on one. Thread: the channel's loop.
struct ClientCall {
  explicit ClientCall(std::size_t message_bytes_max) : reader(message_bytes_max) {}

  Channel::CallId id = 0;
  std::string method;
  std::string request;
  std::array<char, kMessagePrefixBytes> prefix{};
  CallOptions options;
  UniqueFunction<void(CallResult)> done;
  exec::TimerId deadline_timer = 0;
  int attempts = 0;

  // --- This attempt.
  ClientConnection* connection = nullptr;  // Null while it waits for one.
  std::int32_t stream_id = 0;
  std::size_t request_sent = 0;
  bool headers_sent = false;  // From here on the server may know of it.
  MessageReader reader;
  CallResult result;
  std::size_t header_bytes = 0;
  int http_status = 0;
  bool is_grpc = false;
  bool has_status = false;
  bool has_message = false;
  bool gzip = false;
  RpcStatus failure;  // Found while reading; not ok = the stream was reset because of it.
};

// How an attempt ended.
enum class AttemptOutcome : std::uint8_t {
  kFinal,      // The call's result is in place.
  kNotStarted  // The server surely did nothing: the call may be sent again. The result says why.
};

}  // namespace millrace::rpc
