#include "millrace/rpc/client_channel.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::rpc {
namespace {

// A call that servers keep refusing is given back to the caller.
constexpr int kAttemptsMax = 5;

std::string AuthorityOf(const std::string& target) {
  return target.starts_with("unix:") ? "localhost" : target;
}

// Whom a server's certificate must be for.
std::string ServerNameOf(const ChannelOptions& options) {
  if (options.tls && !options.tls->server_name.empty()) return options.tls->server_name;
  std::string host = AuthorityOf(options.target);
  if (host != "localhost") host.resize(std::min(host.rfind(':'), host.size()));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

}  // namespace

ClientChannel::ClientChannel(exec::EventLoop& loop, ChannelOptions options)
    : loop_(loop),
      options_(std::move(options)),
      authority_(AuthorityOf(options_.target)),
      credentials_(options_.tls ? std::make_unique<TlsCredentials>(*options_.tls) : nullptr),
      keepalive_time_(options_.keepalive_time) {
  MR_CHECK(options_.connections_max > 0);
  for (int i = 0; i < options_.connections_max; ++i) {
    slots_.push_back(std::make_unique<Slot>(options_));
  }
}

ClientChannel::~ClientChannel() { MR_CHECK(shut_down_); }

void ClientChannel::Start(std::unique_ptr<ClientCall> call) {
  ClientCall& ref = *call;
  calls_.emplace(ref.id, std::move(call));
  if (shut_down_) {
    EndWith(ref, Code::kCancelled, "the channel is closed");
    return;
  }
  if (ref.options.deadline != Instant::Max()) {
    if (ref.options.deadline <= loop_.clock().Now()) {
      EndWith(ref, Code::kDeadlineExceeded, "deadline passed before the call was sent");
      return;
    }
    ref.deadline_timer = loop_.PostAt(ref.options.deadline, [this, &ref] {
      ref.deadline_timer = 0;
      const bool waited = ref.connection == nullptr;
      EndWith(ref, Code::kDeadlineExceeded,
              waited ? "deadline passed while waiting for a connection (" + last_error_ + ")"
                     : "deadline passed");
    });
  }
  EnsureConnecting();
  Place(ref);
}

void ClientChannel::Cancel(Channel::CallId id) {
  ClientCall* call = Find(id);
  if (call != nullptr) EndWith(*call, Code::kCancelled, "cancelled by the caller");
}

ClientCall* ClientChannel::Find(Channel::CallId id) {
  const auto it = calls_.find(id);
  return it == calls_.end() ? nullptr : it->second.get();
}

void ClientChannel::ReadHeaders(Channel::CallId id, ClientStream::HeadersCallback done) {
  ClientCall* call = Find(id);
  if (call == nullptr) {
    done({});
  } else if (call->stream->decided) {
    done(call->result.headers);
  } else if (call->reply && call->reply->headers_done()) {
    done(call->reply->headers);
  } else {
    MR_CHECK(!call->stream->headers_reader);
    call->stream->headers_reader = std::move(done);
  }
}

void ClientChannel::Read(Channel::CallId id, ClientStream::ReadCallback done) {
  ClientCall* call = Find(id);
  if (call == nullptr) {
    done(std::nullopt);
    return;
  }
  // The reader is foreign code and comes last: it may end the call.
  std::optional<std::string> message;
  if (!call->stream->inbox.Take(&message)) {
    call->stream->inbox.Wait(std::move(done));
    return;
  }
  if (call->connection != nullptr) call->connection->OnConsumed(*call);
  if (call->stream->decided && call->stream->inbox.over()) {
    // Posted before the end, which is posted too.
    loop_.Post([done = std::move(done), message = std::move(message)]() mutable {
      done(std::move(message));
    });
    End(*call);
    return;
  }
  done(std::move(message));
}

void ClientChannel::Write(Channel::CallId id, OutgoingMessage message,
                          ClientStream::WriteCallback done) {
  ClientCall* call = Find(id);
  if (call == nullptr) {
    done(false);
    return;
  }
  MR_CHECK(!call->stream->writes_done);
  call->stream->outbox.Write(std::move(message), std::move(done));
  if (call->connection != nullptr) call->connection->OnWritten(*call);
}

void ClientChannel::WritesDone(Channel::CallId id) {
  ClientCall* call = Find(id);
  if (call == nullptr) return;
  MR_CHECK(!call->stream->writes_done);
  call->stream->writes_done = true;
  if (call->connection != nullptr) call->connection->OnWritten(*call);
}

void ClientChannel::Shutdown() {
  if (shut_down_) return;
  shut_down_ = true;
  while (!calls_.empty()) {
    EndWith(*calls_.begin()->second, Code::kCancelled, "the channel is closed");
  }
  for (const auto& slot : slots_) {
    slot->resolver = nullptr;
    if (slot->backoff_timer != 0) loop_.CancelTimer(std::exchange(slot->backoff_timer, 0));
    if (slot->connection != nullptr) {
      std::unique_ptr<ClientConnection> connection = std::move(slot->connection);
      connection->Close("the channel is closed");
      DestroyLater(std::move(connection));
    }
  }
  for (auto& connection : draining_) {
    connection->Close("the channel is closed");
    DestroyLater(std::move(connection));
  }
  draining_.clear();
}

// --- Connections.

void ClientChannel::EnsureConnecting() {
  for (const auto& slot : slots_) {
    const ClientConnection* connection = slot->connection.get();
    if (connection != nullptr && connection->ready() && connection->calls_open() == 0) return;
  }
  for (const auto& slot : slots_) {
    if (slot->connection == nullptr && slot->resolver == nullptr && slot->backoff_timer == 0) {
      Connect(*slot);
    }
  }
}

void ClientChannel::Connect(Slot& slot) {
  slot.was_ready = false;
  slot.resolver = std::make_unique<Resolver>(loop_, options_.target);
  slot.resolver->Start([this, &slot](Result<std::vector<SocketAddress>> addresses) {
    OnResolved(slot, std::move(addresses));
  });
}

void ClientChannel::OnResolved(Slot& slot, Result<std::vector<SocketAddress>> addresses) {
  slot.resolver = nullptr;
  if (!addresses.ok()) {
    BackOff(slot, std::string(addresses.status().message()));
    return;
  }
  TlsContext tls;
  if (credentials_ != nullptr) {
    // A few small files, and most of the time only a look at their attributes.
    const auto refreshed = credentials_->Refresh();
    tls = credentials_->Current();
    if (tls == nullptr) {
      BackOff(slot, std::string(refreshed.status().message()));
      return;
    }
  }
  slot.connection = std::make_unique<ClientConnection>(
      loop_, std::move(addresses).value(), authority_, std::move(tls), ServerNameOf(options_),
      options_, keepalive_time_, static_cast<ClientConnection::Owner&>(*this));
}

void ClientChannel::BackOff(Slot& slot, const std::string& why) {
  last_error_ = why;
  slot.backoff_timer =
      loop_.PostAt(loop_.clock().Now() + slot.backoff.Next(random_), [this, &slot] {
        slot.backoff_timer = 0;
        // Without calls there is nothing to connect for.
        if (!calls_.empty()) Connect(slot);
      });
  if (!Hopeful()) FailWaiting(why);
}

ClientChannel::Slot& ClientChannel::SlotOf(const ClientConnection& connection) {
  const auto it = std::find_if(slots_.begin(), slots_.end(), [&connection](const auto& slot) {
    return slot->connection.get() == &connection;
  });
  MR_CHECK(it != slots_.end());
  return **it;
}

void ClientChannel::DestroyLater(std::unique_ptr<ClientConnection> connection) {
  loop_.PostFlush([doomed = std::move(connection)] {});
}

void ClientChannel::OnConnectionReady(ClientConnection& connection) {
  Slot& slot = SlotOf(connection);
  slot.was_ready = true;
  slot.backoff.Reset();
  PlaceWaiting();
}

void ClientChannel::OnConnectionDraining(ClientConnection& connection, bool too_many_pings) {
  Slot& slot = SlotOf(connection);
  if (too_many_pings) keepalive_time_ *= 2;
  draining_.push_back(std::move(slot.connection));
  // The server asked to go elsewhere; nothing failed, so connecting again need not wait.
  if (!shut_down_ && !calls_.empty()) Connect(slot);
}

void ClientChannel::OnConnectionClosed(ClientConnection& connection, std::string why) {
  if (shut_down_) return;
  const auto draining =
      std::find_if(draining_.begin(), draining_.end(),
                   [&connection](const auto& c) { return c.get() == &connection; });
  if (draining != draining_.end()) {
    DestroyLater(std::move(*draining));
    draining_.erase(draining);
    return;
  }
  Slot& slot = SlotOf(connection);
  DestroyLater(std::move(slot.connection));
  if (slot.was_ready) {
    last_error_ = std::move(why);
    if (!calls_.empty()) Connect(slot);
  } else {
    BackOff(slot, why);
  }
}

// --- Calls.

ClientConnection* ClientChannel::FindRoom() const {
  ClientConnection* best = nullptr;
  for (const auto& slot : slots_) {
    ClientConnection* connection = slot->connection.get();
    if (connection == nullptr || !connection->ready() || !connection->has_room()) continue;
    if (best == nullptr || connection->calls_open() < best->calls_open()) best = connection;
  }
  return best;
}

bool ClientChannel::Hopeful() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot->connection != nullptr || slot->resolver != nullptr;
  });
}

void ClientChannel::StartOn(ClientConnection& connection, ClientCall& call) {
  ++call.attempts;
  call.reply.emplace(call.stream == nullptr, options_.receive_message_bytes_max,
                     options_.header_list_bytes_max);
  connection.Start(call);
}

void ClientChannel::Place(ClientCall& call) {
  ClientConnection* connection = FindRoom();
  if (connection != nullptr) {
    StartOn(*connection, call);
  } else if (Hopeful() || call.options.wait_for_ready) {
    // Calls that ended while they waited are dropped once they are more than those that live.
    if (waiting_.size() > 2 * calls_.size()) {
      std::erase_if(waiting_, [this](Channel::CallId id) { return Find(id) == nullptr; });
    }
    waiting_.push_back(call.id);
  } else {
    EndWith(call, Code::kUnavailable, "cannot connect to " + options_.target + ": " + last_error_);
  }
}

void ClientChannel::PlaceWaiting() {
  while (!shut_down_ && !waiting_.empty()) {
    ClientCall* call = Find(waiting_.front());
    if (call != nullptr) {
      ClientConnection* connection = FindRoom();
      if (connection == nullptr) return;
      waiting_.pop_front();
      StartOn(*connection, *call);
    } else {
      waiting_.pop_front();
    }
  }
}

void ClientChannel::FailWaiting(const std::string& why) {
  std::deque<Channel::CallId> waiting;
  waiting.swap(waiting_);
  for (const Channel::CallId id : waiting) {
    const auto it = calls_.find(id);
    if (it == calls_.end()) continue;
    if (it->second->options.wait_for_ready) {
      waiting_.push_back(id);
    } else {
      EndWith(*it->second, Code::kUnavailable, "cannot connect to " + options_.target + ": " + why);
    }
  }
}

void ClientChannel::OnAttemptEnded(ClientCall& call, AttemptOutcome outcome) {
  if (outcome == AttemptOutcome::kFinal || call.attempts >= kAttemptsMax || shut_down_ ||
      !call.Rewind()) {
    Decide(call);
    return;
  }
  // Posted, because the connection that gave it back may be about to go.
  const Channel::CallId id = call.id;
  loop_.Post([self = shared_from_this(), id] {
    ClientCall* again = self->Find(id);
    if (again == nullptr) return;
    self->EnsureConnecting();
    self->Place(*again);
  });
}

void ClientChannel::EndWith(ClientCall& call, Code code, std::string message) {
  if (call.connection != nullptr) call.connection->Forget(call);
  if (call.stream != nullptr && call.stream->decided) {
    // The server's word stands; what was not read is dropped.
    End(call);
    return;
  }
  Metadata headers;
  if (call.reply) headers = std::move(call.reply->headers);
  call.result = {};
  call.result.headers = std::move(headers);
  call.result.status = {code, std::move(message), {}};
  call.result.never_sent = call.attempts == 0;
  End(call);
}

void ClientChannel::Decide(ClientCall& call) {
  if (call.stream == nullptr) {
    End(call);
    return;
  }
  ClientStreamState& stream = *call.stream;
  stream.decided = true;
  if (call.deadline_timer != 0) loop_.CancelTimer(std::exchange(call.deadline_timer, 0));
  stream.outbox.Close();
  if (stream.headers_reader) {
    loop_.Post([done = std::move(stream.headers_reader), headers = call.result.headers]() mutable {
      done(std::move(headers));
    });
  }
  stream.inbox.End();
  if (stream.inbox.over()) End(call);
}

void ClientChannel::End(ClientCall& call) {
  auto node = calls_.extract(call.id);
  MR_CHECK(!node.empty());
  if (call.deadline_timer != 0) loop_.CancelTimer(std::exchange(call.deadline_timer, 0));
  if (call.stream != nullptr) {
    ClientStreamState& stream = *call.stream;
    stream.inbox.Close();
    stream.outbox.Close();
    if (stream.headers_reader) {
      loop_.Post([done = std::move(stream.headers_reader),
                  headers = call.result.headers]() mutable { done(std::move(headers)); });
    }
  }
  loop_.Post([ended = std::move(node.mapped())] { ended->done(std::move(ended->result)); });
}

}  // namespace millrace::rpc
