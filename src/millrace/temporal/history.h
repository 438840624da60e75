#pragma once

#include <cstdint>
#include <string>

#include "millrace/base/function.h"
#include "millrace/base/time.h"
#include "millrace/rpc/status.h"
#include "millrace/temporal/start_outcome.h"
#include "millrace/temporal/task_queue_name.h"

namespace millrace::temporal {

// A task that a poller is to have.
struct StartRequest {
  TaskType type = TaskType::kWorkflow;  // Workflow or activity.
  std::string task;                     // TaskInfo, as stored.
  std::string poll_request;             // The worker's public poll request, as it came.
  std::string namespace_name;           // Whose quota the call counts against; may be empty.
  // One UUID per start: history takes a second call with the same one for the first.
  std::string request_id;
  Instant deadline;
};

struct StartResult {
  StartOutcome outcome;
  rpc::RpcStatus status;  // Of history; goes to the poller when the outcome says so.
  // When started: the serialized poll response for the worker. What is appended to it, serialized,
  // is set in it: AppendBacklogHint.
  std::string response;
};

// A query that a poller is to answer.
struct QueryStart {
  std::string query;         // The serialized matchingservice QueryWorkflowRequest.
  std::string token;         // QueryTaskToken
  std::string polled_queue;  // Name of the queue the poll is for: a sticky worker needs no history.
  Instant deadline;
};

struct QueryStartResult {
  rpc::RpcStatus status;  // Not ok: goes to whoever asked the query.
  std::string response;   // The serialized poll response for the worker.
};

struct ValidResult {
  rpc::RpcStatus status;
  bool valid = true;  // Only an ok status says false.
};

// What matching asks of a cluster's history service.
//
// Thread: any. `done` runs exactly once, never inside the call, on an executor of the
// implementation's choosing; whoever lives on a strand posts it there.
// Bounds: calls in flight as made. Fails: a call ends by its deadline, or soon after; what it ended
// with is in the status.
class History {
 public:
  virtual ~History() = default;

  virtual void StartTask(StartRequest request, UniqueFunction<void(StartResult)> done) = 0;
  // Whether the task (TaskInfo) may still be started.
  virtual void IsTaskValid(TaskType type, std::string task, Instant deadline,
                           UniqueFunction<void(ValidResult)> done) = 0;
  virtual void StartQuery(QueryStart query, UniqueFunction<void(QueryStartResult)> done) = 0;
};

// Sets the hint in a serialized workflow poll response.
void AppendBacklogHint(std::string& response, std::int64_t hint);

}  // namespace millrace::temporal
