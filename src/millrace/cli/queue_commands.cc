#include <memory>
#include <string>

#include "millrace/cli/app.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/methods.h"
#include "millrace/cli/options.h"
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

void AddQueueCommands(CLI::App& root, Context& context) {
  CLI::App* group = root.add_subcommand("queue", "look at queues");
  group->require_subcommand(1);

  auto prefix = std::make_shared<std::string>();
  CLI::App* list = group->add_subcommand("list", "list queues with their counts");
  list->add_option("--prefix", *prefix, "only names that start with this")->type_name("TEXT");
  AddExamples(list, "  millrace queue list\n  millrace queue list --prefix mail/ -o jsonl");
  list->callback([&context, prefix] {
    context.action = [&context, prefix] { return ListQueues(context, *prefix); };
  });

  auto queue = std::make_shared<std::string>();
  CLI::App* describe =
      group->add_subcommand("describe", "counts, age and engine levels of one queue");
  AddQueue(describe, *queue);
  AddExamples(describe,
              "  millrace queue describe mail\n  millrace queue describe mail -o json | jq "
              ".counts.waiting");
  describe->callback([&context, queue] {
    context.action = [&context, queue] { return DescribeQueue(context, *queue); };
  });
}

}  // namespace millrace::cli
