#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::rpc {

// gRPC's canonical codes, with its numbers.
enum class Code : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "INVALID_ARGUMENT" and so on; "CODE_<n>" never: numbers outside the list are mapped to kUnknown
// when read.
std::string_view CodeName(Code code);

// What a call ended with. `details` is a serialized google.rpc.Status (header
// grpc-status-details-bin), or empty.
struct [[nodiscard]] RpcStatus {
  Code code = Code::kOk;
  std::string message;
  std::string details;

  [[nodiscard]] bool ok() const { return code == Code::kOk; }
};

}  // namespace millrace::rpc
