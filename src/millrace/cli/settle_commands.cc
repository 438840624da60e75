#include <functional>
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
#include "millrace/v1/queue.pb.h"

namespace millrace::cli {
namespace {

struct SettleArguments {
  std::string queue;
  std::vector<std::string> tokens;  // Decoded when the command runs.
  std::string error_message;
  bool permanent = false;
  Duration lease = std::chrono::seconds(30);
};

// Prints one result per token. The exit code is that of the worst.
ExitCode ReportItems(Context& context, const std::string& verb,
                     const std::vector<std::string>& tokens,
                     const google::protobuf::RepeatedPtrField<v1::ItemResult>& results) {
  static const std::vector<Column> kColumns = {
      {"LEASE TOKEN", [](const Json& row) { return row["lease_token"].get<std::string>(); }},
      {"RESULT", [](const Json& row) { return row["result"].get<std::string>(); }},
      {"MESSAGE", [](const Json& row) { return row.value("message", std::string()); }}};
  std::vector<Json> rows;
  ExitCode exit_code = kExitOk;
  std::string lost_hint;
  for (int i = 0; i < results.size() && i < static_cast<int>(tokens.size()); ++i) {
    Json row = {{"lease_token", tokens[static_cast<std::size_t>(i)]}};
    if (results[i].has_error()) {
      const CallError error{.code = static_cast<rpc::Code>(results[i].error().code()),
                            .message = results[i].error().message(),
                            .reason = results[i].error().reason()};
      row["result"] = error.reason.empty() ? std::string(rpc::CodeName(error.code)) : error.reason;
      row["message"] = error.message;
      exit_code = kExitFailed;
      lost_hint = HintFor(error, context.address);
    } else {
      row["result"] = verb;
    }
    rows.push_back(std::move(row));
  }
  PrintRows(context.out, context.output, kColumns, rows, "nothing to do");
  if (results.size() != static_cast<int>(tokens.size())) {
    return context.Fail(kExitFailed, "the server answered for another number of tasks");
  }
  if (exit_code != kExitOk) context.err << "error: not every task was " << verb << "\n";
  if (!lost_hint.empty()) context.err << "  hint: " << lost_hint << "\n";
  return exit_code;
}

template <typename Request, typename Response>
ExitCode Send(Context& context, std::string_view method, const std::string& verb,
              const SettleArguments& arguments, Request& request) {
  ClientSession session(context);
  request.set_queue(arguments.queue);
  Response response;
  if (const auto error = session.Call(method, request, response)) {
    PrintCallError(context.err, "queue \"" + arguments.queue + "\"", *error, context.address);
    return error->exit_code();
  }
  return ReportItems(context, verb, arguments.tokens, response.results());
}

// Decodes all tokens, then lets `run` make the call.
ExitCode WithTokens(Context& context, const SettleArguments& arguments,
                    const std::function<ExitCode(std::vector<std::string>)>& run) {
  std::vector<std::string> tokens;
  for (const std::string& text : arguments.tokens) {
    std::optional<std::string> token = Base64UrlDecode(text);
    if (!token) {
      return context.Fail(kExitUsage, "\"" + text + "\" is not a lease token",
                          "copy the lease_token that `millrace task lease` printed");
    }
    tokens.push_back(std::move(*token));
  }
  return run(std::move(tokens));
}

ExitCode Complete(Context& context, const SettleArguments& arguments) {
  return WithTokens(context, arguments, [&](std::vector<std::string> tokens) {
    v1::CompleteRequest request;
    for (std::string& token : tokens) request.add_lease_tokens(std::move(token));
    return Send<v1::CompleteRequest, v1::CompleteResponse>(context, methods::kComplete, "completed",
                                                           arguments, request);
  });
}

ExitCode Fail(Context& context, const SettleArguments& arguments) {
  return WithTokens(context, arguments, [&](std::vector<std::string> tokens) {
    v1::FailRequest request;
    for (std::string& token : tokens) {
      v1::FailItem& item = *request.add_items();
      item.set_lease_token(std::move(token));
      item.set_error_message(arguments.error_message);
      item.set_permanent(arguments.permanent);
    }
    return Send<v1::FailRequest, v1::FailResponse>(context, methods::kFail, "failed", arguments,
                                                   request);
  });
}

ExitCode Extend(Context& context, const SettleArguments& arguments) {
  return WithTokens(context, arguments, [&](std::vector<std::string> tokens) {
    v1::ExtendRequest request;
    for (std::string& token : tokens) request.add_lease_tokens(std::move(token));
    SetDuration(*request.mutable_lease_duration(), arguments.lease);
    return Send<v1::ExtendRequest, v1::ExtendResponse>(context, methods::kExtend, "extended",
                                                       arguments, request);
  });
}

ExitCode Release(Context& context, const SettleArguments& arguments) {
  return WithTokens(context, arguments, [&](std::vector<std::string> tokens) {
    v1::ReleaseRequest request;
    for (std::string& token : tokens) request.add_lease_tokens(std::move(token));
    return Send<v1::ReleaseRequest, v1::ReleaseResponse>(context, methods::kRelease, "released",
                                                         arguments, request);
  });
}

Command AddOne(Command& task, Context& context, const std::string& name, const std::string& help,
               const std::shared_ptr<SettleArguments>& arguments,
               ExitCode (*run)(Context&, const SettleArguments&)) {
  Command command = task.Subcommand(name, help);
  command.Queue(arguments->queue);
  command.Texts("TOKEN", arguments->tokens, "", "lease tokens, as `task lease` prints them")
      .Required();
  command.Runs(context, [&context, arguments, run] { return run(context, *arguments); });
  return command;
}

}  // namespace

void AddSettleCommands(Command& task, Context& context) {
  const auto complete = std::make_shared<SettleArguments>();
  AddOne(task, context, "complete", "end leased tasks as done", complete, &Complete)
      .Examples("  millrace task complete mail TOKEN1 TOKEN2");

  const auto fail = std::make_shared<SettleArguments>();
  Command fail_command =
      AddOne(task, context, "fail",
             "give leased tasks back as failed; out of attempts they are dead", fail, &Fail);
  fail_command.Text("-m,--message", fail->error_message, "TEXT", "kept with a task that is dead");
  fail_command.Flag("--permanent", fail->permanent, "no further attempt: dead at once");
  fail_command.Examples("  millrace task fail mail TOKEN --message 'no such user' --permanent");

  const auto extend = std::make_shared<SettleArguments>();
  Command extend_command =
      AddOne(task, context, "extend", "set the time left of leases", extend, &Extend);
  extend_command.Time("--lease", extend->lease, "from now; may also shorten");
  extend_command.Examples("  millrace task extend mail TOKEN --lease 5m");

  const auto release = std::make_shared<SettleArguments>();
  AddOne(task, context, "release", "give leased tasks back unworked; no attempt is charged",
         release, &Release)
      .Examples("  millrace task release mail TOKEN");
}

}  // namespace millrace::cli
