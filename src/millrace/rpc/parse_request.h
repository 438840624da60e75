#pragma once

#include <google/protobuf/arena.h>

#include <memory>
#include <string>
#include <string_view>

#include "millrace/rpc/service.h"

namespace millrace::rpc {

// Parses the request of `call` onto `arena`; ends the call and returns null when the bytes are no
// such message.
template <typename Request>
Request* ParseRequest(google::protobuf::Arena& arena, std::unique_ptr<ServerCall>& call) {
  auto* request = google::protobuf::Arena::CreateMessage<Request>(&arena);
  const std::string_view bytes = call->request();
  if (request->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return request;
  call->Finish({Code::kInvalidArgument, "the request is not a " + request->GetTypeName(), {}},
               std::string());
  call = nullptr;
  return nullptr;
}

}  // namespace millrace::rpc
