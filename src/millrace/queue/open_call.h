#pragma once

#include <google/protobuf/arena.h>

#include <memory>
#include <string>
#include <utility>

#include "millrace/queue/errors.h"
#include "millrace/queue/request_checks.h"
#include "millrace/rpc/parse_request.h"
#include "millrace/rpc/service.h"

namespace millrace::queue {

using rpc::ParseRequest;

// Ends the call when something is wrong with the request; true then.
inline bool RejectIfBad(const FieldErrors& errors, std::unique_ptr<rpc::ServerCall>& call) {
  if (errors.empty()) return false;
  call->Finish(errors.ToRpcStatus(), std::string());
  call = nullptr;
  return true;
}

// Item errors of millrace.v1 batches; an ok outcome leaves the item unset.
template <typename Item>
void SetItemError(const QueueError& error, Item* item) {
  if (error.ok()) return;
  auto* out = item->mutable_error();
  out->set_code(static_cast<int>(error.code));
  out->set_message(error.message);
  out->set_reason(std::string(ReasonName(error.reason)));
}

}  // namespace millrace::queue
