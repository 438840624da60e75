#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/cli/app.h"
#include "millrace/cli/audit.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/methods.h"
#include "millrace/cli/queue_rows.h"
#include "millrace/cli/units.h"
#include "millrace/v1/queue.pb.h"

namespace millrace::cli {
namespace {

Json AuditJson(const Conservation& law) {
  return {{"queue", law.name},      {"accepted", law.accepted}, {"done", law.done},
          {"waiting", law.waiting}, {"leased", law.leased},     {"dead", law.dead},
          {"dropped", law.dropped}, {"missing", law.missing()}, {"holds", law.holds()}};
}

template <const char* kName>
std::string Number(const Json& row) {
  return ShowCount(row[kName].get<std::int64_t>());
}

constexpr char kAccepted[] = "accepted";
constexpr char kDone[] = "done";
constexpr char kWaiting[] = "waiting";
constexpr char kLeased[] = "leased";
constexpr char kDead[] = "dead";
constexpr char kDropped[] = "dropped";
constexpr char kMissing[] = "missing";

const std::vector<Column>& AuditColumns() {
  static const std::vector<Column> kColumns = {
      {"QUEUE", [](const Json& row) { return row["queue"].get<std::string>(); }},
      {"ACCEPTED", &Number<kAccepted>, true},
      {"= DONE", &Number<kDone>, true},
      {"+ WAITING", &Number<kWaiting>, true},
      {"+ LEASED", &Number<kLeased>, true},
      {"+ DEAD", &Number<kDead>, true},
      {"+ DROPPED", &Number<kDropped>, true},
      {"MISSING", &Number<kMissing>, true},
      {"VERDICT",
       [](const Json& row) { return std::string(row["holds"].get<bool>() ? "ok" : "VIOLATED"); }}};
  return kColumns;
}

ExitCode Report(Context& context, const std::vector<Conservation>& laws) {
  std::int64_t violated = 0;
  Conservation total{.name = "(all)"};
  std::vector<Json> rows;
  for (const Conservation& law : laws) {
    if (!law.holds()) ++violated;
    total.Add(law);
    rows.push_back(AuditJson(law));
  }
  if (context.output == OutputFormat::kTable && laws.size() > 1) {
    rows.push_back(AuditJson(total));
    rows.back()["holds"] = violated == 0;
  }
  if (context.output == OutputFormat::kJson) {
    PrintObject(context.out, OutputFormat::kJson,
                {{"holds", violated == 0},
                 {"violated", violated},
                 {"total", AuditJson(total)},
                 {"queues", rows}});
  } else {
    PrintRows(context.out, context.output, AuditColumns(), rows,
              "no queues: nothing was ever accepted");
  }
  if (violated == 0) return kExitOk;
  return context.Fail(kExitFailed,
                      "conservation is violated in " + std::to_string(violated) + " queues",
                      "tasks were lost or counted twice; keep the data folder and report this");
}

// Has the server count the stored rows of one queue; they, not its counters, are what is audited.
std::optional<CallError> CountRows(ClientSession& session, const std::string& queue,
                                   std::vector<Conservation>& laws) {
  v1::DescribeRequest request;
  request.set_queue(queue);
  request.set_count_rows(true);
  v1::DescribeResponse response;
  std::optional<CallError> error = session.Call(methods::kDescribe, request, response);
  if (!error) laws.push_back(ConservationOf(response.queue()));
  return error;
}

ExitCode Audit(Context& context, const std::string& queue) {
  ClientSession session(context);
  std::vector<std::string> names;
  std::optional<CallError> error;
  if (queue.empty()) {
    error = ForEachQueue(session, "",
                         [&names](const v1::QueueInfo& info) { names.push_back(info.name()); });
  } else {
    names.push_back(queue);
  }
  std::vector<Conservation> laws;
  for (std::size_t i = 0; i < names.size() && !error; ++i) {
    error = CountRows(session, names[i], laws);
  }
  if (error) {
    PrintCallError(context.err, "audit", *error, context.address);
    return error->exit_code();
  }
  return Report(context, laws);
}

}  // namespace

void AddAuditCommand(Command& root, Context& context) {
  auto queue = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  Command audit =
      root.Subcommand("audit",
                      "check that every task is accounted for:\n"
                      "accepted = done + waiting + leased + dead + dropped\n"
                      "The server counts the stored tasks one by one while it goes on working.\n"
                      "Changes nothing. Exit code 1 when the law is broken.");
  CommandOption name = audit.Text("QUEUE", *queue, "", "one queue; all of them if none is named");
  audit.Flag("--all", *all, "all queues").Excludes(name);
  audit.Examples("  millrace audit\n  millrace audit mail -o json");
  audit.Runs(context, [&context, queue, all] { return Audit(context, *queue); });
}

}  // namespace millrace::cli
