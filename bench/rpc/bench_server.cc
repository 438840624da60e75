// Our side of bench/rpc: three methods of grpc.testing.TestService, as in the other servers here.
// UnaryCall answers at once, CacheableUnaryCall asks the backend first, EmptyCall waits until it is
// cancelled. Prints "listening ADDRESS" and runs until its input ends.

#include <google/protobuf/arena.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpc/testing/test.pb.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/server.h"

namespace millrace::rpc {
namespace {

using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;

// Parses on the arena and serializes, as a real handler would.
void AnswerUnary(std::unique_ptr<ServerCall> call) {
  google::protobuf::Arena arena;
  auto* request = google::protobuf::Arena::CreateMessage<SimpleRequest>(&arena);
  if (!request->ParseFromArray(call->request().data(), static_cast<int>(call->request().size()))) {
    call->Finish({Code::kInternal, "not a SimpleRequest", {}}, {});
    return;
  }
  auto* response = google::protobuf::Arena::CreateMessage<SimpleResponse>(&arena);
  response->mutable_payload()->Swap(request->mutable_payload());
  call->FinishOk(response->SerializeAsString());
}

// One channel a loop, so that a call's outgoing call stays on its thread.
struct Backend {
  exec::EventLoop* loop;
  std::unique_ptr<Channel> channel;
};

void AskBackend(const std::vector<Backend>& backends, std::unique_ptr<ServerCall> call) {
  Channel* channel = nullptr;
  for (const Backend& backend : backends) {
    if (backend.loop->InLoopThread()) channel = backend.channel.get();
  }
  if (channel == nullptr) {
    call->Finish({Code::kFailedPrecondition, "there is no backend", {}}, {});
    return;
  }
  google::protobuf::Arena arena;
  auto* request = google::protobuf::Arena::CreateMessage<SimpleRequest>(&arena);
  if (!request->ParseFromArray(call->request().data(), static_cast<int>(call->request().size()))) {
    call->Finish({Code::kInternal, "not a SimpleRequest", {}}, {});
    return;
  }
  CallOptions options;
  options.deadline = call->deadline();
  channel->Call("/grpc.testing.TestService/UnaryCall", request->SerializeAsString(),
                std::move(options), [call = std::move(call)](CallResult result) {
                  google::protobuf::Arena reply_arena;
                  auto* response =
                      google::protobuf::Arena::CreateMessage<SimpleResponse>(&reply_arena);
                  if (result.status.ok() && !response->ParseFromString(result.response)) {
                    result.status = {Code::kInternal, "not a SimpleResponse", {}};
                  }
                  call->Finish(std::move(result.status), response->SerializeAsString());
                });
}

void Wait(std::unique_ptr<ServerCall> call) {
  ServerCall& waiting = *call;
  waiting.OnCancel([call = std::move(call)] { call->Finish({Code::kCancelled, {}, {}}, {}); });
}

int Main(int argc, char** argv) {
  CLI::App app("Server of bench/rpc");
  std::string backend;
  int loop_count = 2;
  app.add_option("--backend", backend);
  app.add_option("--loops", loop_count);
  TlsServerOptions tls;
  app.add_option("--cert", tls.cert_file);
  app.add_option("--key", tls.key_file);
  CLI11_PARSE(app, argc, argv);

  const SystemClock clock;
  NullLog log;
  std::vector<std::unique_ptr<exec::EventLoop>> owned;
  std::vector<exec::EventLoop*> loops;
  for (int i = 0; i < loop_count; ++i) {
    owned.push_back(exec::EventLoop::Create("loop" + std::to_string(i), clock));
    loops.push_back(owned.back().get());
  }
  std::vector<Backend> backends;
  if (!backend.empty()) {
    for (exec::EventLoop* loop : loops) {
      ChannelOptions options;
      options.target = backend;
      backends.push_back({loop, Channel::Create(*loop, options)});
    }
  }
  ServiceTable services;
  const std::string prefix = "/grpc.testing.TestService/";
  services.unary[prefix + "UnaryCall"] = AnswerUnary;
  services.unary[prefix + "EmptyCall"] = Wait;
  services.unary[prefix + "CacheableUnaryCall"] = [&backends](std::unique_ptr<ServerCall> call) {
    AskBackend(backends, std::move(call));
  };
  ServerOptions options;
  options.listen = {"127.0.0.1:0"};
  if (!tls.cert_file.empty()) options.tls = tls;
  options.concurrent_streams_max = 1'000'000;
  const auto server =
      Server::Create(loops, std::move(options), std::move(services), log, NullMetrics());
  const Status started = server->Start();
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.ToString().c_str());
    return EXIT_FAILURE;
  }
  std::printf("listening %s\n", server->addresses().front().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  server->Shutdown(Duration::zero());
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace millrace::rpc

int main(int argc, char** argv) { return millrace::rpc::Main(argc, argv); }
