#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/cli/app.h"
#include "millrace/cli/base64url.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/methods.h"
#include "millrace/cli/output.h"
#include "millrace/cli/proto_time.h"
#include "millrace/cli/settle_commands.h"
#include "millrace/cli/task_environment.h"
#include "millrace/cli/units.h"
#include "millrace/v1/queue.pb.h"

namespace millrace::cli {
namespace {

constexpr std::size_t kExcerptWidth = 48;

std::string StateName(v1::TaskState state) {
  switch (state) {
    case v1::TASK_STATE_WAITING:
      return "waiting";
    case v1::TASK_STATE_LEASED:
      return "leased";
    case v1::TASK_STATE_DEAD:
      return "dead";
    default:
      return "unknown";
  }
}

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(ToDuration(duration).count()) / 1e9;
}

template <typename Headers>
Json HeadersJson(const Headers& headers) {
  const std::map<std::string, std::string> sorted(headers.begin(), headers.end());
  Json json = Json::object();
  for (const auto& [name, value] : sorted) json[name] = value;
  return json;
}

Json TaskJson(const v1::Task& task, bool full) {
  Json json = {{"task_id", task.task_id()},
               {"state", StateName(task.state())},
               {"attempt", task.attempt()},
               {"max_attempts", task.max_attempts()},
               {"enqueue_time", TimestampText(task.enqueue_time())}};
  if (task.has_expiry_time()) json["expiry_time"] = TimestampText(task.expiry_time());
  if (task.has_lease_time_left()) json["lease_seconds_left"] = Seconds(task.lease_time_left());
  if (!task.worker_id().empty()) json["worker_id"] = task.worker_id();
  if (!task.error_message().empty()) json["error_message"] = task.error_message();
  if (full) {
    json["headers"] = HeadersJson(task.headers());
    SetPayload(json, task.payload());
  }
  return json;
}

Json LeasedJson(const v1::LeasedTask& task) {
  Json json = {{"task_id", task.task_id()},
               {"lease_token", Base64UrlEncode(task.lease_token())},
               {"attempt", task.attempt()},
               {"max_attempts", task.max_attempts()},
               {"enqueue_time", TimestampText(task.enqueue_time())},
               {"lease_seconds_left", Seconds(task.lease_duration())},
               {"headers", HeadersJson(task.headers())}};
  SetPayload(json, task.payload());
  return json;
}

std::string PayloadCell(const Json& row) {
  if (row.contains("payload")) return Excerpt(row["payload"].get<std::string>(), kExcerptWidth);
  if (!row.contains("payload_base64url")) return "";
  return Excerpt(Base64UrlDecode(row["payload_base64url"].get<std::string>()).value_or(""),
                 kExcerptWidth);
}

std::string AttemptCell(const Json& row) {
  const int limit = row["max_attempts"].get<int>();
  return std::to_string(row["attempt"].get<int>()) + (limit > 0 ? "/" + std::to_string(limit) : "");
}

const Column kTaskIdColumn = {"TASK",
                              [](const Json& row) { return row["task_id"].get<std::string>(); }};
const Column kAttemptColumn = {"ATTEMPT", &AttemptCell, true};
const Column kEnqueuedColumn = {
    "ENQUEUED", [](const Json& row) { return row["enqueue_time"].get<std::string>(); }};
const Column kPayloadColumn = {"PAYLOAD", &PayloadCell};

struct PeekArguments {
  std::string queue;
  std::string state;
  int limit = 20;
  bool no_payload = false;
};

ExitCode Peek(Context& context, const PeekArguments& arguments) {
  static const std::map<std::string, v1::TaskState> kStates = {{"", v1::TASK_STATE_UNSPECIFIED},
                                                               {"waiting", v1::TASK_STATE_WAITING},
                                                               {"leased", v1::TASK_STATE_LEASED},
                                                               {"dead", v1::TASK_STATE_DEAD}};
  static const std::vector<Column> kColumns = {
      kTaskIdColumn,
      {"STATE", [](const Json& row) { return row["state"].get<std::string>(); }},
      kAttemptColumn,
      kEnqueuedColumn,
      {"WORKER / ERROR",
       [](const Json& row) {
         return Excerpt(row.value("error_message", row.value("worker_id", std::string())),
                        kExcerptWidth);
       }},
      kPayloadColumn};
  ClientSession session(context);
  v1::PeekRequest request;
  request.set_queue(arguments.queue);
  request.set_state(kStates.at(arguments.state));
  request.set_view(arguments.no_payload ? v1::TASK_VIEW_BASIC : v1::TASK_VIEW_FULL);
  std::vector<Json> rows;
  while (static_cast<int>(rows.size()) < arguments.limit) {
    request.set_page_size(std::min(1'000, arguments.limit - static_cast<int>(rows.size())));
    v1::PeekResponse response;
    if (const auto error = session.Call(methods::kPeek, request, response)) {
      PrintCallError(context.err, "peek into queue \"" + arguments.queue + "\"", *error,
                     context.address);
      return error->exit_code();
    }
    for (const v1::Task& task : response.tasks())
      rows.push_back(TaskJson(task, !arguments.no_payload));
    if (response.next_page_token().empty()) break;
    request.set_page_token(response.next_page_token());
  }
  PrintRows(context.out, context.output, kColumns, rows, "no such tasks");
  return kExitOk;
}

struct LeaseArguments {
  std::string queue;
  int max_tasks = 1;
  Duration lease = std::chrono::seconds(30);
  Duration wait = Duration::zero();
  std::string worker_id = "millrace-cli";
};

ExitCode Lease(Context& context, const LeaseArguments& arguments) {
  static const std::vector<Column> kColumns = {
      kTaskIdColumn,
      kAttemptColumn,
      {"LEFT",
       [](const Json& row) {
         return ShowDuration(
             Duration(static_cast<std::int64_t>(row["lease_seconds_left"].get<double>() * 1e9)));
       },
       true},
      {"LEASE TOKEN", [](const Json& row) { return row["lease_token"].get<std::string>(); }},
      kPayloadColumn};
  ClientSession session(context);
  v1::LeaseRequest request;
  request.set_queue(arguments.queue);
  request.set_max_tasks(arguments.max_tasks);
  request.set_worker_id(arguments.worker_id);
  SetDuration(*request.mutable_lease_duration(), arguments.lease);
  SetDuration(*request.mutable_wait_time(), arguments.wait);
  v1::LeaseResponse response;
  if (const auto error =
          session.Call(methods::kLease, request, response, arguments.wait + context.timeout)) {
    PrintCallError(context.err, "lease from queue \"" + arguments.queue + "\"", *error,
                   context.address);
    return error->exit_code();
  }
  std::vector<Json> rows;
  for (const v1::LeasedTask& task : response.tasks()) rows.push_back(LeasedJson(task));
  PrintRows(context.out, context.output, kColumns, rows, "no task is waiting");
  return kExitOk;
}

void AddPeek(Command& task, Context& context) {
  auto arguments = std::make_shared<PeekArguments>();
  Command peek =
      task.Subcommand("peek", "look at stored tasks; changes nothing, not even a delivery count");
  peek.Queue(arguments->queue);
  peek.Text("--state", arguments->state, "STATE",
            "waiting, leased or dead; waiting and leased if not given")
      .OneOf({"waiting", "leased", "dead"});
  peek.Number("--limit", arguments->limit, 1, 1'000'000, "tasks shown at most, from the head");
  peek.Flag("--no-payload", arguments->no_payload, "without payloads and headers");
  peek.Examples("  millrace task peek mail\n  millrace task peek mail --state dead -o jsonl");
  peek.Runs(context, [&context, arguments] { return Peek(context, *arguments); });
}

void AddLease(Command& task, Context& context) {
  auto arguments = std::make_shared<LeaseArguments>();
  Command lease =
      task.Subcommand("lease",
                      "take waiting tasks by hand; end them with complete, fail or release\n"
                      "(`millrace work` does all of it by itself)");
  lease.Queue(arguments->queue);
  lease.Number("--max", arguments->max_tasks, 1, 1'000, "tasks at most");
  lease.Time("--lease", arguments->lease, "how long they are ours");
  lease.Time("--wait", arguments->wait, "for the first task, when none is there");
  lease.Text("--worker-id", arguments->worker_id, "TEXT", "who asks");
  lease.Examples(
      "  millrace task lease mail --lease 5m\n"
      "  millrace task lease mail --max 10 --wait 30s -o jsonl | jq -r .lease_token");
  lease.Runs(context, [&context, arguments] { return Lease(context, *arguments); });
}

}  // namespace

void AddTaskCommands(Command& root, Context& context) {
  Command task = root.Subcommand("task", "store, look at, take and end tasks");
  task.NeedsSubcommand();
  AddEnqueueCommand(task, context);
  AddPeek(task, context);
  AddLease(task, context);
  AddSettleCommands(task, context);
}

}  // namespace millrace::cli
