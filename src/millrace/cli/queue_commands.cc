#include <memory>
#include <string>

#include "millrace/cli/app.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/methods.h"
#include "millrace/cli/queue_rows.h"
#include "millrace/v1/queue.pb.h"

namespace millrace::cli {
namespace {

ExitCode ListQueues(Context& context, const std::string& prefix) {
  ClientSession session(context);
  std::vector<Json> rows;
  const bool stream = context.output == OutputFormat::kJsonl;
  const auto error = ForEachQueue(session, prefix, [&](const v1::QueueInfo& queue) {
    if (stream) {
      context.out << JsonText(QueueJson(queue), false) << "\n";
    } else {
      rows.push_back(QueueJson(queue));
    }
  });
  if (error) {
    PrintCallError(context.err, "list queues", *error, context.address);
    return error->exit_code();
  }
  if (!stream) {
    PrintRows(context.out, context.output, QueueColumns(), rows,
              prefix.empty() ? "no queues yet; `millrace task enqueue QUEUE PAYLOAD` makes one"
                             : "no queue whose name starts with \"" + prefix + "\"");
  }
  return kExitOk;
}

ExitCode DescribeQueue(Context& context, const std::string& queue) {
  ClientSession session(context);
  v1::DescribeRequest request;
  request.set_queue(queue);
  v1::DescribeResponse response;
  if (const auto error = session.Call(methods::kDescribe, request, response)) {
    PrintCallError(context.err, "describe queue \"" + queue + "\"", *error, context.address);
    return error->exit_code();
  }
  PrintObject(context.out, context.output, QueueJson(response.queue()));
  return kExitOk;
}

}  // namespace

void AddQueueCommands(Command& root, Context& context) {
  Command group = root.Subcommand("queue", "look at queues");
  group.NeedsSubcommand();

  auto prefix = std::make_shared<std::string>();
  Command list = group.Subcommand("list", "list queues with their counts");
  list.Text("--prefix", *prefix, "TEXT", "only names that start with this");
  list.Examples("  millrace queue list\n  millrace queue list --prefix mail/ -o jsonl");
  list.Runs(context, [&context, prefix] { return ListQueues(context, *prefix); });

  auto queue = std::make_shared<std::string>();
  Command describe = group.Subcommand("describe", "counts, age and engine levels of one queue");
  describe.Queue(*queue);
  describe.Examples(
      "  millrace queue describe mail\n"
      "  millrace queue describe mail -o json | jq .counts.waiting");
  describe.Runs(context, [&context, queue] { return DescribeQueue(context, *queue); });
}

}  // namespace millrace::cli
