#include <string>
#include <vector>

#include "millrace/cli/app.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/methods.h"
#include "millrace/cli/output.h"
#include "millrace/cli/proto_time.h"
#include "millrace/cli/units.h"
#include "millrace/v1/node.pb.h"

namespace millrace::cli {
namespace {

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Json NodeJson(const v1::Node& node, WallTime now) {
  const WallTime started{node.start_time().seconds() * 1'000'000'000 + node.start_time().nanos()};
  return {{"id", node.id()},
          {"address", node.address()},
          {"state", node.state() == v1::NODE_STATE_LEAVING ? "leaving" : "serving"},
          {"loaded_queues", node.loaded_queues()},
          {"uptime_seconds", Seconds(std::max(Duration::zero(), now - started))},
          {"heartbeat_age_seconds", Seconds(ToDuration(node.heartbeat_age()))},
          {"answering", node.answering()}};
}

std::string Time(const Json& row, const char* name) {
  return ShowDuration(Duration(static_cast<std::int64_t>(row[name].get<double>() * 1e9)));
}

const std::vector<Column>& NodeColumns() {
  static const std::vector<Column> kColumns = {
      {"NODE",
       [](const Json& row) {
         return row["id"].get<std::string>() + (row["answering"].get<bool>() ? " *" : "");
       }},
      {"ADDRESS", [](const Json& row) { return row["address"].get<std::string>(); }},
      {"STATE", [](const Json& row) { return row["state"].get<std::string>(); }},
      {"QUEUES",
       [](const Json& row) { return ShowCount(row["loaded_queues"].get<std::int64_t>()); }, true},
      {"UP", [](const Json& row) { return Time(row, "uptime_seconds"); }, true},
      {"HEARD OF", [](const Json& row) { return Time(row, "heartbeat_age_seconds"); }, true}};
  return kColumns;
}

ExitCode ListNodes(Context& context) {
  ClientSession session(context);
  v1::ListNodesResponse response;
  if (const auto error = session.Call(methods::kListNodes, v1::ListNodesRequest(), response)) {
    PrintCallError(context.err, "list nodes", *error, context.address);
    return error->exit_code();
  }
  std::vector<Json> rows;
  for (const v1::Node& node : response.nodes()) {
    rows.push_back(NodeJson(node, session.clock().WallNow()));
  }
  PrintRows(context.out, context.output, NodeColumns(), rows, "no node is known yet");
  if (context.output == OutputFormat::kTable && !response.settled()) {
    context.out << "queues are moving\n";
  }
  return kExitOk;
}

}  // namespace

void AddNodeCommands(Command& root, Context& context) {
  Command group = root.Subcommand("node", "look at the nodes that share a database");
  group.NeedsSubcommand();
  Command list = group.Subcommand(
      "list",
      "list the live nodes\n"
      "* marks the one that answers. HEARD OF: how long ago it last said that it is alive.");
  list.Examples("  millrace node list\n  millrace node list -o json | jq -r '.[].address'");
  list.Runs(context, [&context] { return ListNodes(context); });
}

}  // namespace millrace::cli
