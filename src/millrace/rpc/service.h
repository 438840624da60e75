#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/time.h"
#include "millrace/rpc/status.h"

// What a service implementation sees of a call. Nothing here knows HTTP/2 or sockets: the server, a
// test and the simulator all make ServerCalls.
namespace millrace::rpc {

// Header names are lower case. Values of names that end in "-bin" are raw bytes here, base64 only
// on the wire.
using Metadata = std::vector<std::pair<std::string, std::string>>;

// One unary call on the server. The handler owns it until it calls Finish; dropping it unfinished
// answers INTERNAL.
//
// Thread: any, one at a time. Finish may be called from any thread, inside the handler or minutes
// later. Invariants: the cancel closure runs at most once, never inside OnCancel, and does not
// begin once Finish has begun (it may be running on its thread while Finish is called on another).
// It runs when the client vanished, reset the call, its deadline passed, or the server is shutting
// down hard. A handler must then Finish soon (the reply goes nowhere). Metadata that may not be
// sent (a reserved name, bytes that are not printable in a text value) is left out.
class ServerCall {
 public:
  virtual ~ServerCall() = default;

  // Serialized request message, already decompressed. Good until Finish.
  [[nodiscard]] virtual std::string_view request() const = 0;
  // Whether the client had compressed it.
  [[nodiscard]] virtual bool request_compressed() const { return false; }
  [[nodiscard]] virtual const Metadata& metadata() const = 0;
  // Instant::Max() = none given by the client.
  [[nodiscard]] virtual Instant deadline() const = 0;
  // "ipv4:127.0.0.1:4711", "unix:" and so on, for logs.
  [[nodiscard]] virtual std::string_view peer() const = 0;

  // `on_cancel` runs on an executor thread of the server. At once (posted) when the call is already
  // cancelled.
  virtual void OnCancel(Closure on_cancel) = 0;
  [[nodiscard]] virtual bool cancelled() const = 0;

  // Metadata before the response; without a response (status not ok) it goes with the trailers.
  virtual void AddHeader(std::string /*name*/, std::string /*value*/) {}
  virtual void AddTrailer(std::string name, std::string value) = 0;

  // Sends the response as gzip, if the client takes that. Before Finish.
  virtual void CompressResponse() {}

  // Ends the call. `response` is sent only with an ok status. Once only.
  virtual void Finish(RpcStatus status, std::string response) = 0;
  void FinishOk(std::string response) { Finish(RpcStatus{}, std::move(response)); }
};

// One call on the server with any number of messages in either direction.
//
// Thread: as ServerCall. Callbacks run on an executor thread of the server, never inside the call
// that takes them. Bounds: the client is told to wait when about 1 MiB was not read yet. Write's
// callback waits while more than 64 KiB written before were not taken by the client. Invariants:
// every Read and Write callback runs exactly once. At most one Read and one Write wait at a time.
// Dropping the stream unfinished answers INTERNAL.
class ServerStream {
 public:
  using ReadCallback = UniqueFunction<void(std::optional<std::string> message)>;
  using WriteCallback = UniqueFunction<void(bool more)>;

  virtual ~ServerStream() = default;

  [[nodiscard]] virtual const Metadata& metadata() const = 0;
  [[nodiscard]] virtual Instant deadline() const = 0;
  [[nodiscard]] virtual std::string_view peer() const = 0;
  virtual void OnCancel(Closure on_cancel) = 0;
  [[nodiscard]] virtual bool cancelled() const = 0;

  // Before the first Write only.
  virtual void AddHeader(std::string name, std::string value) = 0;
  virtual void AddTrailer(std::string name, std::string value) = 0;

  // The client's next message; none once the client has sent its last one or the call is over.
  virtual void Read(ReadCallback done) = 0;
  // Whether the client had compressed the message that Read gave last. Inside its callback only.
  [[nodiscard]] virtual bool read_compressed() const { return false; }
  // Messages written from now on are sent as gzip, or not, if the client takes that. The reply's
  // headers announce it, so it works only when it was on at some time before the first Write.
  virtual void CompressWrites(bool /*on*/) {}
  // `done` says when to write the next message, or with false that the call is over.
  virtual void Write(std::string message, WriteCallback done) = 0;
  // Ends the call after the messages written. Once only.
  virtual void Finish(RpcStatus status) = 0;
};

using UnaryHandler = UniqueFunction<void(std::unique_ptr<ServerCall>)>;
using StreamHandler = UniqueFunction<void(std::unique_ptr<ServerStream>)>;

// Table of methods by full path ("/millrace.v1.QueueService/Enqueue"). Built before the server
// starts; its handlers are then called from all loops at once, so they guard what they share.
struct ServiceTable {
  std::map<std::string, UnaryHandler, std::less<>> unary;
  std::map<std::string, StreamHandler, std::less<>> streaming;
  // Full names, for reflection and health; one that has no methods here is for health alone.
  std::vector<std::string> services;
};

}  // namespace millrace::rpc
