#pragma once

#include <optional>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/cli/call_error.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/output.h"
#include "millrace/v1/queue.pb.h"

namespace millrace::cli {

// A queue as JSON, as `queue list` and `queue describe` print it.
Json QueueJson(const v1::QueueInfo& queue);

const std::vector<Column>& QueueColumns();

// Pages through all queues whose names start with `prefix`.
std::optional<CallError> ForEachQueue(ClientSession& session, const std::string& prefix,
                                      UniqueFunction<void(const v1::QueueInfo&)> visit);

}  // namespace millrace::cli
