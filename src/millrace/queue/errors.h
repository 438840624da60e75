#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/rpc/status.h"

namespace millrace::queue {

// Machine-readable causes, sent as google.rpc.ErrorInfo with domain "millrace". The list is frozen:
// names are only added.
enum class Reason : std::uint8_t {
  kNone,
  kLeaseLost,  // The token is not the task's current lease; nothing changed.
  kQueueNotFound,
  kPayloadTooLarge,
  kQuotaExceeded,   // A bound was reached; surely not done.
  kStoreReadOnly,   // The store refuses writes for now (disk full, I/O errors); surely not done.
  kOutcomeUnknown,  // It may have been done: look before repeating, or accept a repeat.
  kDraining,        // The server or the queue's owner is going away; surely not done. Try again.
  kDataDamaged,     // Stored bytes of this queue do not parse.
};
std::string_view ReasonName(Reason reason);

// How one call or one item of a batch failed; ok when code is kOk.
struct QueueError {
  rpc::Code code = rpc::Code::kOk;
  Reason reason = Reason::kNone;
  std::string message;

  [[nodiscard]] bool ok() const { return code == rpc::Code::kOk; }

  static QueueError From(const Status& status);
  static QueueError LeaseLost();
};

// The status of a call, with ErrorInfo and, where waiting helps, RetryInfo in its details.
rpc::RpcStatus ToRpcStatus(const QueueError& error);

// Collects what is wrong with a request; several fields may be.
class FieldErrors {
 public:
  void Add(std::string field, std::string description);
  [[nodiscard]] bool empty() const { return message_.empty(); }
  // INVALID_ARGUMENT with google.rpc.BadRequest.
  [[nodiscard]] rpc::RpcStatus ToRpcStatus() const;

 private:
  std::string message_;
  std::string violations_;  // Serialized google.rpc.BadRequest.
};

}  // namespace millrace::queue
