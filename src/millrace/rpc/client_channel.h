#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "millrace/base/random.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/client_call.h"
#include "millrace/rpc/client_connection.h"
#include "millrace/rpc/connect_backoff.h"
#include "millrace/rpc/resolver.h"
#include "millrace/rpc/tls_credentials.h"

namespace millrace::rpc {

// The part of a channel that lives on its loop: calls, connections, and when to connect again.
//
//   slot:  idle -> resolving -> connecting -> ready -> (lost) -> back-off -> resolving ...
//
// Thread: the loop's.
// Invariants: a call is in exactly one place: the waiting list, one connection, decided (a stream
// with messages to read), or ended. Ended calls are handed to `done` by a post.
class ClientChannel final : public std::enable_shared_from_this<ClientChannel>,
                            private ClientConnection::Owner {
 public:
  ClientChannel(exec::EventLoop& loop, ChannelOptions options);
  ~ClientChannel();

  void Start(std::unique_ptr<ClientCall> call);
  void Cancel(Channel::CallId id);
  // Of a stream's call; one that has ended answers that it is over.
  void ReadHeaders(Channel::CallId id, ClientStream::HeadersCallback done);
  void Read(Channel::CallId id, ClientStream::ReadCallback done);
  void Write(Channel::CallId id, OutgoingMessage message, ClientStream::WriteCallback done);
  void WritesDone(Channel::CallId id);
  // Cancels every call and closes every connection. Nothing may be started afterwards.
  void Shutdown();

 private:
  // A place for one connection. All are made once calls come while the ready ones are busy.
  struct Slot {
    explicit Slot(const ChannelOptions& options)
        : backoff(options.backoff_min, options.backoff_max) {}
    std::unique_ptr<ClientConnection> connection;
    std::unique_ptr<Resolver> resolver;
    exec::TimerId backoff_timer = 0;
    ConnectBackoff backoff;
    bool was_ready = false;
  };

  void EnsureConnecting();
  void Connect(Slot& slot);
  void OnResolved(Slot& slot, Result<std::vector<SocketAddress>> addresses);
  void BackOff(Slot& slot, const std::string& why);
  Slot& SlotOf(const ClientConnection& connection);
  void DestroyLater(std::unique_ptr<ClientConnection> connection);

  // The ready connection with the fewest calls that takes another one, or null.
  ClientConnection* FindRoom() const;
  // A connection is there or may come soon.
  [[nodiscard]] bool Hopeful() const;
  void StartOn(ClientConnection& connection, ClientCall& call);
  // Puts the call on a connection, into the waiting list, or ends it.
  void Place(ClientCall& call);
  void PlaceWaiting();
  void FailWaiting(const std::string& why);
  // The result is in place. A stream's waits until its messages were read.
  void Decide(ClientCall& call);
  void End(ClientCall& call);
  ClientCall* Find(Channel::CallId id);
  void EndWith(ClientCall& call, Code code, std::string message);

  // ClientConnection::Owner
  void OnConnectionReady(ClientConnection& connection) override;
  void OnConnectionRoom() override { PlaceWaiting(); }
  void OnConnectionDraining(ClientConnection& connection, bool too_many_pings) override;
  void OnConnectionClosed(ClientConnection& connection, std::string why) override;
  void OnAttemptEnded(ClientCall& call, AttemptOutcome outcome) override;

  exec::EventLoop& loop_;
  const ChannelOptions options_;
  const std::string authority_;
  const std::unique_ptr<TlsCredentials> credentials_;  // Null = plain text.
  SystemRandom random_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<ClientConnection>> draining_;
  std::unordered_map<Channel::CallId, std::unique_ptr<ClientCall>> calls_;
  std::deque<Channel::CallId> waiting_;  // Ids of ended calls may still be in it, but never most.
  std::string last_error_ = "not connected yet";
  Duration keepalive_time_;
  bool shut_down_ = false;
};

}  // namespace millrace::rpc
