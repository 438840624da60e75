#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "millrace/base/random.h"
#include "millrace/cli/app.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/output.h"
#include "millrace/cli/stop_signals.h"
#include "millrace/cli/units.h"
#include "millrace/cli/worker.h"

namespace millrace::cli {
namespace {

struct WorkArguments {
  Worker::Options worker;
  int slots = 0;
  bool quiet = false;
  std::string journal;
};

std::string DefaultWorkerId() {
  std::array<char, 128> host{};
  gethostname(host.data(), host.size() - 1);
  return std::string(host.data()) + ":" + std::to_string(getpid());
}

Json SummaryJson(const std::string& queue, const WorkSummary& summary, Duration elapsed) {
  return {{"queue", queue},
          {"leased", summary.leased},
          {"completed", summary.completed},
          {"failed", summary.failed},
          {"lease_lost", summary.lease_lost},
          {"released", summary.released},
          {"unconfirmed", summary.unconfirmed},
          {"unreported", summary.unreported},
          {"seconds", static_cast<double>(elapsed.count()) / 1e9}};
}

// "12 completed, 1 failed ... in 3.2s (40/s)"; what did not happen is left out.
std::string SummaryText(const WorkSummary& summary, Duration elapsed) {
  std::string text = ShowCount(summary.completed) + " completed, " + ShowCount(summary.failed) +
                     " failed, " + ShowCount(summary.lease_lost) + " leases lost, " +
                     ShowCount(summary.released) + " released";
  if (summary.unconfirmed > 0) text += ", " + ShowCount(summary.unconfirmed) + " unconfirmed";
  if (summary.unreported > 0) text += ", " + ShowCount(summary.unreported) + " unreported";
  const double seconds = static_cast<double>(elapsed.count()) / 1e9;
  text += " in " + ShowDuration(elapsed);
  if (seconds > 0.2)
    text += " (" + ShowRate(static_cast<double>(summary.completed) / seconds) + "/s)";
  return text;
}

ExitCode Work(Context& context, WorkArguments arguments) {
  // Inherited from the parent, either of these would break waiting for commands or their pipes.
  signal(SIGCHLD, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  Worker::Options& options = arguments.worker;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.book.slots = arguments.slots > 0 ? arguments.slots : cores;
  if (options.worker_id.empty()) options.worker_id = DefaultWorkerId();
  options.call_timeout = context.timeout;
  options.pass_stderr = !arguments.quiet;

  std::ofstream journal;
  if (!arguments.journal.empty()) {
    journal.open(arguments.journal, std::ios::app);
    if (!journal) {
      return context.Fail(kExitFailed, "cannot write the journal \"" + arguments.journal + "\"");
    }
  }

  StopSignals signals;
  SystemRandom random;
  ClientSession session(context);
  const Instant begun = session.clock().Now();
  std::promise<Worker::End> promise;
  Worker worker(
      session.loop(), session.channel(), random, options, context.environment,
      [&context](const std::string& line) {
        context.err << "work: " << line << "\n" << std::flush;
      },
      [&journal](const Worker::TaskName& task, TaskEnd end) {
        if (!journal.is_open()) return;
        const Json line = {
            {"task_id", task.task_id}, {"attempt", task.attempt}, {"outcome", TaskEndName(end)}};
        journal << JsonText(line, false) << "\n" << std::flush;
      },
      [&promise](Worker::End end) { promise.set_value(std::move(end)); });
  signals.Attach(session.loop(), [&worker] { worker.Signal(); });
  worker.Start();
  const Worker::End end = promise.get_future().get();
  signals.Detach();
  const Duration elapsed = session.clock().Now() - begun;
  if (context.output == OutputFormat::kTable) {
    context.err << "work: " << SummaryText(end.summary, elapsed) << "\n";
  } else {
    PrintObject(context.out, context.output, SummaryJson(options.queue, end.summary, elapsed));
  }
  if (end.fatal) {
    PrintCallError(context.err, "lease from queue \"" + options.queue + "\"", *end.fatal,
                   context.address);
    return end.fatal->exit_code();
  }
  return kExitOk;
}

}  // namespace

void AddWorkCommand(Command& root, Context& context) {
  auto arguments = std::make_shared<WorkArguments>();
  Worker::Options& options = arguments->worker;
  Command work = root.Subcommand(
      "work",
      "run a command for each task of a queue\n"
      "The task's payload is the command's standard input. Its environment has MILLRACE_TASK_ID,\n"
      "MILLRACE_ATTEMPT, MILLRACE_MAX_ATTEMPTS, MILLRACE_QUEUE, MILLRACE_ENQUEUE_TIME, and\n"
      "MILLRACE_HEADER_<NAME> for each header.\n"
      "Exit code 0 completes the task, 100 fails it for good, any other fails this attempt; the "
      "end of what\n"
      "the command wrote to standard error is kept as the message.\n"
      "Leases are extended while the command runs. When one is lost, the command gets TERM, then "
      "KILL.\n"
      "The first TERM or INT lets running commands finish (--grace), then kills them and gives "
      "their tasks\n"
      "back without charging an attempt; the second does so at once. A server that goes away is "
      "waited for.");
  work.Queue(options.queue);
  work.Text("-e,--exec", options.command, "COMMAND", "for /bin/sh -c").Required();
  work.Number("--slots", arguments->slots, 0, 10'000, "commands at a time; 0 = one per core");
  work.Time("--lease", options.book.lease,
            "length of a lease; extended each time a third of it is over",
            std::chrono::milliseconds(1));
  work.Time("--grace", options.book.grace, "for running commands when told to stop");
  work.Time("--kill-after", options.book.kill_wait, "from TERM to KILL");
  work.Flag("--until-empty", options.until_empty,
            "end when no task is waiting and none is leased, by anyone");
  work.Number("--max-tasks", options.book.tasks_max, 0, std::int64_t{1} << 53,
              "end after this many tasks; 0 = never");
  work.Text("--worker-id", options.worker_id, "TEXT",
            "who works, for `task peek` and logs; HOST:PID if not given");
  work.Flag("-q,--quiet", arguments->quiet, "do not pass on what commands write to standard error");
  work.Text("--journal", arguments->journal, "FILE",
            "append one line of JSON for each task when its end is known: task_id, attempt, and "
            "outcome = "
            "completed, failed, released, lease_lost, unconfirmed or unreported");
  work.Examples(
      "  millrace work mail --exec './send-mail'\n"
      "  millrace work packages --exec 'grep -q ^Package:' --slots 8 --until-empty\n"
      "  millrace work jobs --exec 'python3 job.py' --lease 5m --grace 2m -o json");
  work.Runs(context, [&context, arguments] { return Work(context, *arguments); });
}

}  // namespace millrace::cli
