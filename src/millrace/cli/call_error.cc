#include "millrace/cli/call_error.h"

#include <chrono>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace millrace::cli {

using rpc::Code;

bool CallError::retryable() const {
  return code == Code::kUnavailable || code == Code::kResourceExhausted ||
         code == Code::kDeadlineExceeded || code == Code::kAborted;
}

bool CallError::outcome_unknown() const {
  if (never_sent) return false;
  switch (code) {
    case Code::kUnavailable:
      return reason != "STORE_READ_ONLY" && reason != "DRAINING";
    case Code::kDeadlineExceeded:
    case Code::kCancelled:
    case Code::kUnknown:
    case Code::kInternal:
      return true;
    default:
      return false;
  }
}

ExitCode CallError::exit_code() const {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
      return kExitUsage;
    case Code::kNotFound:
      return kExitNotFound;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return kExitUnavailable;
    default:
      return kExitFailed;
  }
}

CallError ReadCallError(const rpc::RpcStatus& status) {
  CallError error;
  error.code = status.code;
  error.message = status.message;
  google::rpc::Status details;
  if (status.details.empty() || !details.ParseFromString(status.details)) return error;
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    google::rpc::BadRequest bad;
    if (any.UnpackTo(&info)) {
      error.reason = info.reason();
    } else if (any.UnpackTo(&retry)) {
      error.retry_delay = std::chrono::seconds(retry.retry_delay().seconds()) +
                          std::chrono::nanoseconds(retry.retry_delay().nanos());
    } else if (any.UnpackTo(&bad)) {
      for (const auto& field : bad.field_violations()) {
        error.fields.push_back({field.field(), field.description()});
      }
    }
  }
  return error;
}

CallError ReadCallError(const rpc::CallResult& result) {
  CallError error = ReadCallError(result.status);
  error.never_sent = result.never_sent;
  return error;
}

std::string HintFor(const CallError& error, const std::string& address) {
  if (error.reason == "LEASE_LOST") {
    return "the task was finished, its lease ran out, or somebody else has it now; nothing was "
           "changed";
  }
  if (error.reason == "STORE_READ_ONLY") {
    return "the server cannot write to its data folder (disk full?); see its log, then try again";
  }
  if (error.reason == "DRAINING") return "the server is shutting down; try again when it is back";
  if (error.reason == "OUTCOME_UNKNOWN")
    return "it may have been done; look with `millrace queue describe`";
  if (error.reason == "QUEUE_NOT_FOUND") return "`millrace queue list` shows the queues there are";
  if (error.reason == "PAYLOAD_TOO_LARGE") {
    return "store the data elsewhere and enqueue its address, or raise the server's payload limit";
  }
  switch (error.code) {
    case Code::kUnavailable:
      if (error.message.find("the peer speaks TLS") != std::string::npos) {
        return "the server wants TLS: give --tls, and --tls-ca-file unless the system knows its CA";
      }
      if (error.message.find("does not speak TLS") != std::string::npos) {
        return "the server speaks plain text: leave out --tls and its kin";
      }
      if (error.message.find("asks for a client certificate") != std::string::npos) {
        return "give --tls-cert-file and --tls-key-file";
      }
      if (error.message.find("TLS") != std::string::npos) return "";
      return "is a server running at " + address +
             "? Start one with `millrace server --dev`, or name another with --address or "
             "MILLRACE_ADDRESS";
    case Code::kDeadlineExceeded:
      return "the server did not answer in time; `millrace server check` tells its health, "
             "--timeout allows more";
    case Code::kResourceExhausted:
      return "a limit was reached and nothing was done; try again later";
    case Code::kUnimplemented:
      return "the server does not know this call: it is older than this command";
    default:
      return "";
  }
}

void PrintCallError(std::ostream& err, const std::string& what, const CallError& error,
                    const std::string& address) {
  err << "error: " << what << ": "
      << (error.message.empty() ? rpc::CodeName(error.code) : error.message);
  if (!error.reason.empty()) err << " (" << error.reason << ")";
  err << "\n";
  for (const CallError::Field& field : error.fields) {
    err << "  " << field.name << ": " << field.description << "\n";
  }
  const std::string hint = HintFor(error, address);
  if (!hint.empty()) err << "  hint: " << hint << "\n";
}

}  // namespace millrace::cli
