#include "millrace/cli/health.h"

#include <array>
#include <string_view>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "millrace/cli/methods.h"

namespace millrace::cli {
namespace {

// HealthCheckResponse has one field: `ServingStatus status = 1`. HealthCheckRequest for the whole
// server is empty.
std::uint32_t StatusField(const std::string& response) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream input(
      reinterpret_cast<const std::uint8_t*>(response.data()), static_cast<int>(response.size()));
  std::uint32_t status = 0;
  while (const std::uint32_t tag = input.ReadTag()) {
    if (tag == WireFormatLite::MakeTag(1, WireFormatLite::WIRETYPE_VARINT)) {
      if (!input.ReadVarint32(&status)) return 0;
    } else if (!WireFormatLite::SkipField(&input, tag)) {
      return 0;
    }
  }
  return status;
}

}  // namespace

Health AskHealth(ClientSession& session, Duration timeout) {
  Health health;
  rpc::CallOptions options;
  options.deadline = session.clock().Now() + timeout;
  const rpc::CallResult result =
      rpc::CallAndWait(session.channel(), methods::kHealthCheck, std::string(), std::move(options));
  if (!result.status.ok()) {
    health.word = "unreachable";
    health.error = ReadCallError(result);
    return health;
  }
  const std::uint32_t status = StatusField(result.response);
  health.serving = status == 1;
  health.word = status == 1 ? "serving" : status == 2 ? "not serving" : "unknown";
  return health;
}

}  // namespace millrace::cli
