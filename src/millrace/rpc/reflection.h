#pragma once

#include <string>
#include <vector>

#include "millrace/rpc/service.h"

namespace millrace::rpc {

// Adds gRPC server reflection (v1 and v1alpha) to the table. It answers from the descriptors linked
// into the program; `services` is what it lists.
void AddReflection(std::vector<std::string> services, ServiceTable* table);

// One question and its answer, both serialized grpc.reflection.v1 messages. Empty when the question
// is not valid.
std::string AnswerReflection(const std::vector<std::string>& services, const std::string& request);

}  // namespace millrace::rpc
