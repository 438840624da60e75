// A server of Debian's gRPC for C++ (callback interface) for bench/rpc: what ours is compared with.
// The same methods as the other servers here.

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "grpc/testing/test.grpc.pb.h"

namespace {

using grpc::testing::Empty;
using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;
using grpc::testing::TestService;

class WaitingCall final : public grpc::ServerUnaryReactor {
 public:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

class Service final : public TestService::CallbackService {
 public:
  explicit Service(std::unique_ptr<TestService::Stub> backend) : backend_(std::move(backend)) {}

  grpc::ServerUnaryReactor* UnaryCall(grpc::CallbackServerContext* context,
                                      const SimpleRequest* request,
                                      SimpleResponse* response) override {
    *response->mutable_payload() = request->payload();
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* CacheableUnaryCall(grpc::CallbackServerContext* context,
                                               const SimpleRequest* request,
                                               SimpleResponse* response) override {
    auto* reactor = context->DefaultReactor();
    auto outgoing = std::make_shared<grpc::ClientContext>();
    grpc::ClientContext* raw = outgoing.get();
    backend_->async()->UnaryCall(
        raw, request, response,
        [reactor, outgoing](const grpc::Status& status) { reactor->Finish(status); });
    return reactor;
  }

  grpc::ServerUnaryReactor* EmptyCall(grpc::CallbackServerContext*, const Empty*, Empty*) override {
    return new WaitingCall;
  }

 private:
  const std::unique_ptr<TestService::Stub> backend_;
};

std::string Contents(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

// Usage: grpc_cpp_server BACKEND CERT KEY; each may be "".
int main(int argc, char** argv) {
  const std::string backend = argc > 1 ? argv[1] : "";
  std::unique_ptr<TestService::Stub> stub;
  if (!backend.empty()) {
    stub = TestService::NewStub(grpc::CreateChannel(backend, grpc::InsecureChannelCredentials()));
  }
  Service service(std::move(stub));
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (argc > 3 && argv[2][0] != '\0') {
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({Contents(argv[3]), Contents(argv[2])});
    credentials = grpc::SslServerCredentials(options);
  }
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return EXIT_FAILURE;
  std::printf("listening 127.0.0.1:%d\n", port);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  std::_Exit(EXIT_SUCCESS);
}
