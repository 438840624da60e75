#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/time.h"
#include "millrace/rpc/status.h"

// What a service implementation sees of a call. Nothing here knows HTTP/2 or sockets: the server, a test and the
// simulator all make ServerCalls.
namespace millrace::rpc {

// Header names are lower case. Values of names that end in "-bin" are raw bytes here, base64 only on the wire.
using Metadata = std::vector<std::pair<std::string, std::string>>;

// One unary call on the server. The handler owns it until it calls Finish; dropping it unfinished answers INTERNAL.
//
// Thread: any, one at a time. Finish may be called from any thread, inside the handler or minutes later.
// Invariants: the cancel closure runs at most once, never after Finish returned and never inside OnCancel. It runs when
// the client vanished, reset the call, its deadline passed, or the server is shutting down hard. A handler must then
// Finish soon (the reply goes nowhere).
class ServerCall {
 public:
  virtual ~ServerCall() = default;

  // Serialized request message, already decompressed. Good until Finish.
  [[nodiscard]] virtual std::string_view request() const = 0;
  [[nodiscard]] virtual const Metadata& metadata() const = 0;
  // Instant::Max() = none given by the client.
  [[nodiscard]] virtual Instant deadline() const = 0;
  // "ipv4:127.0.0.1:4711", "unix:" and so on, for logs.
  [[nodiscard]] virtual std::string_view peer() const = 0;

  // `on_cancel` runs on an executor thread of the server. At once (posted) when the call is already cancelled.
  virtual void OnCancel(Closure on_cancel) = 0;
  [[nodiscard]] virtual bool cancelled() const = 0;

  virtual void AddTrailer(std::string name, std::string value) = 0;

  // Ends the call. `response` is sent only with an ok status. Once only.
  virtual void Finish(RpcStatus status, std::string response) = 0;
  void FinishOk(std::string response) { Finish(RpcStatus{}, std::move(response)); }
};

using UnaryHandler = UniqueFunction<void(std::unique_ptr<ServerCall>)>;

// Table of methods by full path ("/millrace.v1.QueueService/Enqueue"). Built before the server starts, then read only.
struct ServiceTable {
  std::map<std::string, UnaryHandler, std::less<>> unary;
  // Full names of services, for reflection and health ("millrace.v1.QueueService").
  std::vector<std::string> services;
};

}  // namespace millrace::rpc
