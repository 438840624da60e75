// What a client sends over a connection: arbitrary bytes, and HTTP/2 frames that are mostly well
// formed. The connection ends cleanly whatever comes, and every call it began is answered once.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>

#include "fuzz_input.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/gzip.h"
#include "millrace/rpc/method_table.h"
#include "millrace/rpc/raw_peer_test_util.h"
#include "millrace/rpc/server_connection.h"

namespace millrace::rpc {
namespace {

using fuzz::FuzzInput;

constexpr const char* kPaths[] = {"/f.Fuzz/Echo", "/f.Fuzz/Park", "/f.Fuzz/Stream", "/f.Fuzz/None"};

// Sends everything back, message by message.
void EchoStream(std::shared_ptr<ServerStream> stream) {
  ServerStream& on = *stream;
  on.Read([stream = std::move(stream)](std::optional<std::string> message) mutable {
    ServerStream& self = *stream;
    if (!message) return self.Finish({});
    self.Write(*std::move(message), [stream = std::move(stream)](bool more) mutable {
      if (more) return EchoStream(std::move(stream));
      stream->Finish({});
    });
  });
}

// The server's side, once for all inputs.
class Host {
 public:
  Host() {
    options_.receive_message_bytes_max = 1 << 10;
    options_.buffered_bytes_max = 4 << 10;
    options_.concurrent_streams_max = 8;
    options_.header_list_bytes_max = 1 << 10;
    ServiceTable services;
    services.unary[kPaths[0]] = [](std::unique_ptr<ServerCall> call) {
      for (const auto& [name, value] : call->metadata()) call->AddTrailer(name, value);
      call->FinishOk(std::string(call->request()));
    };
    services.unary[kPaths[1]] = [](std::unique_ptr<ServerCall> call) {
      ServerCall& parked = *call;
      parked.OnCancel([call = std::move(call)] { call->Finish({Code::kCancelled, {}, {}}, {}); });
    };
    services.streaming[kPaths[2]] = [](std::unique_ptr<ServerStream> stream) {
      EchoStream(std::move(stream));
    };
    methods_ = std::make_unique<MethodTable>(std::move(services), NullMetrics());
  }

  // One connection from its first byte to its end.
  void Serve(const std::string& sent) {
    int ends[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    FUZZ_CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    loop_->Post([this, fd = ends[1]] {
      connection_ = std::make_unique<ServerConnection>(
          options_, *methods_, log_, *loop_,
          ServerConnection::Accepted{fd, "fuzz", nullptr, Duration::zero()},
          [this] { OnClosed(); });
    });
    // Inputs are smaller than the socket's buffer; the other side may be gone already.
    (void)send(ends[0], sent.data(), sent.size(), MSG_NOSIGNAL);
    shutdown(ends[0], SHUT_WR);
    char replies[4096];
    ssize_t got = 0;
    // libFuzzer's clock is a signal, and ends a call that has a time limit.
    do {
      got = recv(ends[0], replies, sizeof(replies), 0);
    } while (got > 0 || (got < 0 && errno == EINTR));
    FUZZ_CHECK(got == 0 || errno == ECONNRESET);
    close(ends[0]);
    std::unique_lock lock(mutex_);
    FUZZ_CHECK(closed_.wait_for(lock, std::chrono::seconds(20), [this] { return !open_; }));
  }

 private:
  void OnClosed() {
    connection_ = nullptr;
    const std::lock_guard lock(mutex_);
    open_ = false;
    closed_.notify_all();
  }

  ServerOptions options_;
  SystemClock clock_;
  NullLog log_;
  std::unique_ptr<MethodTable> methods_;
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("server", clock_);
  std::unique_ptr<ServerConnection> connection_;  // The loop's.
  std::mutex mutex_;
  std::condition_variable closed_;
  bool open_ = false;
};

std::string HeadersFrame(FuzzInput& in, std::uint32_t stream, std::uint8_t flags) {
  Fields fields;
  const unsigned extra = in.Below(4);
  for (unsigned i = 0; i < extra; ++i) {
    constexpr const char* kNames[] = {"grpc-timeout", "grpc-encoding", "x-bin", "x",
                                      "te",           "content-type"};
    std::string name = in.Below(3) == 0 ? in.String() : kNames[in.Below(std::size(kNames))];
    fields.emplace_back(std::move(name), in.Below(3) == 0 ? "gzip" : in.String());
  }
  const std::string path = in.Below(8) == 0 ? in.String() : kPaths[in.Below(4)];
  Fields all = in.Below(8) == 0 ? fields : RequestFields(path, fields);
  // HeaderBlock writes lengths in one byte.
  for (auto& [name, value] : all) {
    name.resize(std::min<std::size_t>(name.size(), 100));
    value.resize(std::min<std::size_t>(value.size(), 100));
  }
  return Frame(frame::kHeaders, flags, stream, HeaderBlock(all));
}

std::string Body(FuzzInput& in) {
  switch (in.Below(4)) {
    case 0:
      return in.String();
    case 1:
      return GrpcMessage(Gzip(in.Bytes()), 1);
    default:
      return GrpcMessage(in.Bytes(), in.Below(8) == 0 ? static_cast<char>(in.Byte()) : '\0');
  }
}

std::string Conversation(FuzzInput& in) {
  std::string out = in.Below(8) == 0 ? in.String() : Preface();
  std::uint32_t stream = 1;
  while (!in.empty() && out.size() < (48u << 10)) {
    switch (in.Below(8)) {
      case 0:
        out += in.Bytes();
        break;
      case 1:
        out += Frame(in.Byte() % 12, in.Byte(), in.Below(12), in.Bytes());
        break;
      case 2:
        out += Frame(frame::kReset, 0, stream, Number32(in.Byte()));
        break;
      case 3:
        out += Frame(frame::kWindowUpdate, 0, in.Bool() ? 0 : stream,
                     Number32(static_cast<std::uint32_t>(in.Int64())));
        break;
      case 4:
      case 5:
        if (in.Below(8) != 0) stream += 2;
        out += HeadersFrame(in, stream, in.Below(6) == 0 ? in.Byte() : frame::kEndHeaders);
        break;
      default:
        out += Frame(frame::kData, in.Bool() ? frame::kEndStream : 0, stream, Body(in));
        break;
    }
  }
  return out;
}

}  // namespace
}  // namespace millrace::rpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace::rpc;
  static Host& host = *new Host;
  millrace::fuzz::FuzzInput in(data, size);
  if (in.Bool()) {
    host.Serve(std::string(in.Rest()));
  } else {
    host.Serve(Conversation(in));
  }
  return 0;
}
