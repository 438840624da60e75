#pragma once

#include <google/protobuf/arena.h>

#include <memory>
#include <string>
#include <utility>

#include "millrace/queue/errors.h"
#include "millrace/queue/request_checks.h"
#include "millrace/rpc/service.h"

namespace millrace::queue {

// Parses the request of `call` onto `arena`; ends the call and returns null when the bytes are no
// such message.
template <typename Request>
Request* ParseRequest(google::protobuf::Arena& arena, std::unique_ptr<rpc::ServerCall>& call) {
  auto* request = google::protobuf::Arena::CreateMessage<Request>(&arena);
  const std::string_view bytes = call->request();
  if (request->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return request;
  call->Finish({rpc::Code::kInvalidArgument, "the request is not a " + request->GetTypeName(), {}},
               std::string());
  call = nullptr;
  return nullptr;
}

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
