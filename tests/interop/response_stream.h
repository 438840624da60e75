#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "grpc/testing/test.pb.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/service.h"
#include "tests/interop/orca_reports.h"

namespace millrace::interop {

inline constexpr int kPayloadBytesMax = 64 << 20;

// Metadata that a test client wants back, in headers and trailers.
void EchoMetadata(const rpc::Metadata& received, rpc::ServerCall* call, rpc::ServerStream* stream);
// The code that a test client asked for; kUnknown when it is none.
rpc::Code AskedCode(const grpc::testing::EchoStatus& status);

// One call that answers requests with the sizes they list: reads, plays the responses, reads again.
//
//   reading -> (message) -> playing -> reading ... -> (client's end) -> finished
//
// Thread: one at a time; owned by the callback that will continue it.
class ResponseStream : public std::enable_shared_from_this<ResponseStream> {
 public:
  // Play after each request; after the last one; or after the only one.
  enum class Kind { kFullDuplex, kHalfDuplex, kOneRequest };

  ResponseStream(std::unique_ptr<rpc::ServerStream> stream, Kind kind, exec::EventLoop& loop,
                 OrcaReports& reports);
  ~ResponseStream();
  ResponseStream(const ResponseStream&) = delete;
  ResponseStream& operator=(const ResponseStream&) = delete;

  void ReadNext();

 private:
  void OnMessage(std::optional<std::string> message);
  void Report(const grpc::testing::TestOrcaReport& asked);
  void PlayNext();
  void WriteNext();

  const std::unique_ptr<rpc::ServerStream> stream_;
  const Kind kind_;
  exec::EventLoop& loop_;
  OrcaReports& reports_;
  std::deque<grpc::testing::ResponseParameters> to_play_;
  bool input_ended_ = false;
  bool owns_reports_ = false;
};

}  // namespace millrace::interop
