#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/cli/app.h"
#include "millrace/cli/bench_load.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/output.h"
#include "millrace/cli/private_server.h"
#include "millrace/cli/process_usage.h"
#include "millrace/cli/stop_signals.h"
#include "millrace/cli/store_traffic.h"
#include "millrace/cli/units.h"

namespace millrace::cli {
namespace {

struct BenchArguments {
  std::string mode = "cycle";
  int callers = 64;
  int batch = 1;
  int queues = 1;
  int connections = 1;
  std::uint64_t payload_bytes = 256;
  Duration duration = std::chrono::seconds(5);
  Duration warmup = std::chrono::seconds(1);
  std::int64_t tasks = 0;
  bool spawn = false;
  std::vector<std::string> server_flags;
  int server_pid = 0;
};

struct Sample {
  Instant at;
  BenchLoad::Counts counts;
  std::optional<ProcessUsage> server;
  std::optional<StoreTraffic> store;
  ProcessUsage client;
};

std::string ShowFraction(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

double Micros(Duration duration) { return static_cast<double>(duration.count()) / 1e3; }

Json LatencyJson(const LatencyHistogram& histogram) {
  return {{"count", histogram.count()},
          {"p50", Micros(histogram.Quantile(0.5))},
          {"p99", Micros(histogram.Quantile(0.99))},
          {"p999", Micros(histogram.Quantile(0.999))},
          {"max", Micros(histogram.max())}};
}

bool SpeaksTls(const std::vector<std::string>& server_flags) {
  return std::any_of(server_flags.begin(), server_flags.end(),
                     [](const std::string& flag) { return flag.starts_with("--rpc-tls-"); });
}

// One run of the command.
class BenchRun {
 public:
  BenchRun(Context& context, const BenchArguments& arguments)
      : context_(context), arguments_(arguments) {}

  ExitCode Run() {
    if (arguments_.spawn || !context_.address_given) {
      if (Status status = server_.Start(arguments_.server_flags); !status.ok()) {
        return context_.Fail(kExitUnavailable, std::string(status.message()),
                             "--address names a server that runs already");
      }
      context_.address = server_.address();
      if (!SpeaksTls(arguments_.server_flags)) {
        // What the environment says about the usual server does not hold for this one.
        context_.tls_given = false;
        context_.tls = {};
      }
      server_pid_ = server_.pid();
    } else {
      server_pid_ = arguments_.server_pid;
    }
    session_ = std::make_unique<ClientSession>(context_, arguments_.connections);
    signals_.Attach(session_->loop(), [this] { Interrupt(); });
    const ExitCode code = arguments_.mode == "idle-queues" ? IdleQueues() : Throughput();
    signals_.Detach();
    return code;
  }

 private:
  BenchLoad::Options LoadOptions() const {
    BenchLoad::Options options;
    options.mode = arguments_.mode == "enqueue" ? BenchLoad::Mode::kEnqueue
                   : arguments_.mode == "drain" ? BenchLoad::Mode::kDrain
                                                : BenchLoad::Mode::kCycle;
    options.callers = arguments_.callers;
    options.batch = arguments_.batch;
    options.queues = arguments_.queues;
    options.payload_bytes = arguments_.payload_bytes;
    options.tasks_max = arguments_.tasks;
    options.queue_prefix = "bench-" + std::to_string(getpid()) + "/";
    return options;
  }

  void Interrupt() {
    if (interrupted_) _exit(kExitFailed);
    interrupted_ = true;
    if (load_ != nullptr) load_->Stop();
    stop_.set_value();
  }

  // Runs a load by itself until it ends.
  void RunToEnd(const BenchLoad::Options& options) {
    Begin(options);
    ended_.get_future().wait();
    End();
  }
  void Begin(const BenchLoad::Options& options) {
    ended_ = std::promise<void>();
    load_holder_ = std::make_unique<BenchLoad>(session_->loop(), session_->channel(), options,
                                               [this] { ended_.set_value(); });
    session_->RunOnLoop([this] {
      load_ = load_holder_.get();
      if (interrupted_) load_->Stop();
      load_->Start();
    });
  }
  void End() {
    session_->RunOnLoop([this] { load_ = nullptr; });
    load_holder_.reset();
  }

  Sample Take(bool clear_latencies) {
    Sample sample;
    session_->RunOnLoop([this, &sample, clear_latencies] {
      sample.at = session_->clock().Now();
      sample.counts = load_->counts();
      if (clear_latencies) load_->ClearLatencies();
    });
    if (server_pid_ > 0) sample.server = ReadProcessUsage(server_pid_);
    sample.store = ReadStoreTraffic(server_.admin_address());
    sample.client = ReadProcessUsage(getpid()).value_or(ProcessUsage());
    return sample;
  }

  ExitCode Throughput() {
    BenchLoad::Options options = LoadOptions();
    if (options.mode == BenchLoad::Mode::kDrain) {
      BenchLoad::Options fill = options;
      fill.mode = BenchLoad::Mode::kEnqueue;
      fill.batch = 64;
      fill.tasks_max = arguments_.tasks > 0 ? arguments_.tasks : 200'000;
      RunToEnd(fill);
    }
    std::future<void> stop = stop_.get_future();
    Begin(options);
    Sample begin;
    Sample end;
    std::future<void> ended = ended_.get_future();
    if (options.tasks_max > 0 || options.mode == BenchLoad::Mode::kDrain) {
      begin = Take(false);
      ended.wait();
      end = Take(false);
    } else {
      stop.wait_for(arguments_.warmup);
      begin = Take(true);
      stop.wait_for(arguments_.duration);
      end = Take(false);
    }
    const Json report = ReportJson(options, begin, end);
    session_->RunOnLoop([this] { load_->Stop(); });
    ended.wait();
    End();
    Print(report);
    if (interrupted_) return kExitFailed;
    return report["errors"].empty() ? kExitOk : kExitFailed;
  }

  Json ReportJson(const BenchLoad::Options& options, const Sample& begin, const Sample& end) {
    const double seconds = static_cast<double>((end.at - begin.at).count()) / 1e9;
    const std::int64_t tasks = end.counts.tasks(options.mode) - begin.counts.tasks(options.mode);
    const double per_task = tasks > 0 ? 1.0 / static_cast<double>(tasks) : 0;
    Json report = {{"mode", arguments_.mode},
                   {"batch", options.batch},
                   {"callers", options.callers},
                   {"queues", options.queues},
                   {"connections", arguments_.connections},
                   {"payload_bytes", options.payload_bytes},
                   {"seconds", seconds},
                   {"tasks", tasks},
                   {"tasks_per_second", seconds > 0 ? static_cast<double>(tasks) / seconds : 0}};
    Json errors = Json::object();
    for (const auto& [name, count] : end.counts.errors) {
      const auto before = begin.counts.errors.find(name);
      errors[name] = count - (before == begin.counts.errors.end() ? 0 : before->second);
    }
    report["errors"] = errors;
    Json latency = Json::object();
    session_->RunOnLoop([&] {
      const std::pair<BenchLoad::Operation, const char*> names[] = {
          {BenchLoad::kEnqueueCall, "enqueue"},
          {BenchLoad::kLeaseCall, "lease"},
          {BenchLoad::kCompleteCall, "complete"},
          {BenchLoad::kWholeCycle, "round"}};
      for (const auto& [operation, name] : names) {
        if (load_->latency(operation).count() > 0)
          latency[name] = LatencyJson(load_->latency(operation));
      }
    });
    report["latency_us"] = latency;
    if (begin.server && end.server) {
      report["server"] = {
          {"cpu_us_per_task", Micros(end.server->cpu - begin.server->cpu) * per_task},
          {"cpu_cores", Micros(end.server->cpu - begin.server->cpu) / 1e6 / seconds},
          {"resident_bytes", end.server->resident_bytes},
          {"written_bytes", end.server->written_bytes - begin.server->written_bytes},
          {"written_bytes_per_task",
           static_cast<double>(end.server->written_bytes - begin.server->written_bytes) *
               per_task}};
    }
    if (begin.store && end.store) {
      const double commits = end.store->commits - begin.store->commits;
      const double groups = end.store->groups - begin.store->groups;
      report["database"] = {
          {"statements_per_task", (end.store->statements - begin.store->statements) * per_task},
          {"round_trips_per_task", (end.store->round_trips - begin.store->round_trips) * per_task},
          {"commits_per_task", commits * per_task},
          {"commits_per_second", seconds > 0 ? commits / seconds : 0},
          {"commits_per_batch", groups > 0 ? commits / groups : 0}};
    }
    report["client"] = {{"cpu_us_per_task", Micros(end.client.cpu - begin.client.cpu) * per_task}};
    return report;
  }

  ExitCode IdleQueues() {
    if (server_pid_ <= 0) {
      return context_.Fail(kExitUsage,
                           "memory can only be measured with --server-pid or a server of its own",
                           "leave --address out, or add --server-pid");
    }
    BenchLoad::Options options = LoadOptions();
    options.mode = BenchLoad::Mode::kCycle;
    options.batch = 1;
    // Buffers, caches and threads that come with the first traffic are no queue's.
    BenchLoad::Options warm = options;
    warm.queues = 1;
    warm.queue_prefix += "warm-up-";
    warm.tasks_max = 20'000;
    RunToEnd(warm);
    const std::optional<ProcessUsage> before = ReadProcessUsage(server_pid_);
    options.tasks_max = options.queues;
    Begin(options);
    ended_.get_future().wait();
    const Sample sample = Take(false);
    End();
    std::future<void> stop = stop_.get_future();
    stop.wait_for(std::chrono::seconds(1));
    const std::optional<ProcessUsage> after = ReadProcessUsage(server_pid_);
    if (!before || !after)
      return context_.Fail(kExitUnavailable, "the server's process cannot be looked at");
    const auto grown =
        static_cast<double>(after->anonymous_bytes) - static_cast<double>(before->anonymous_bytes);
    Json report = {{"mode", arguments_.mode},
                   {"queues", options.queues},
                   {"loaded", sample.counts.completed},
                   {"resident_bytes_before", before->resident_bytes},
                   {"resident_bytes_after", after->resident_bytes},
                   {"anonymous_bytes_grown", static_cast<std::int64_t>(grown)},
                   {"bytes_per_queue", grown / options.queues}};
    Json errors = Json::object();
    for (const auto& [name, count] : sample.counts.errors) errors[name] = count;
    report["errors"] = errors;
    PrintObject(context_.out, context_.output, report);
    return errors.empty() && !interrupted_ ? kExitOk : kExitFailed;
  }

  void Print(const Json& report) {
    if (context_.output != OutputFormat::kTable) {
      PrintObject(context_.out, context_.output, report);
      return;
    }
    std::ostream& out = context_.out;
    out << report["mode"].get<std::string>() << ": batch " << report["batch"] << ", "
        << report["callers"] << " callers, " << report["queues"] << " queues, payload "
        << ShowBytes(report["payload_bytes"]) << "\n";
    out << "  " << ShowCount(report["tasks"]) << " tasks in "
        << ShowDuration(Duration(static_cast<std::int64_t>(report["seconds"].get<double>() * 1e9)))
        << " = " << ShowRate(report["tasks_per_second"]) << " tasks/s\n";
    for (const auto& [name, values] : report["latency_us"].items()) {
      out << "  " << name << std::string(10 - std::min<std::size_t>(name.size(), 9), ' ');
      for (const char* quantile : {"p50", "p99", "p999", "max"}) {
        out << quantile << " "
            << ShowDuration(
                   Duration(static_cast<std::int64_t>(values[quantile].get<double>() * 1e3)))
            << "  ";
      }
      out << "\n";
    }
    if (report.contains("server")) {
      const Json& server = report["server"];
      out << "  server    " << ShowRate(server["cpu_us_per_task"]) << " us CPU a task, "
          << ShowRate(server["cpu_cores"]) << " cores, " << ShowBytes(server["resident_bytes"])
          << " resident, "
          << ShowBytes(static_cast<std::uint64_t>(server["written_bytes_per_task"].get<double>()))
          << " written a task\n";
    }
    if (report.contains("database")) {
      const Json& database = report["database"];
      out << "  database  " << ShowFraction(database["statements_per_task"]) << " statements, "
          << ShowFraction(database["round_trips_per_task"]) << " round trips, "
          << ShowFraction(database["commits_per_task"]) << " commits a task; "
          << ShowRate(database["commits_per_second"]) << " commits/s, "
          << ShowFraction(database["commits_per_batch"]) << " a batch of waiting writes\n";
    }
    out << "  client    " << ShowRate(report["client"]["cpu_us_per_task"]) << " us CPU a task\n";
    for (const auto& [name, count] : report["errors"].items())
      out << "  error " << name << ": " << count << "\n";
  }

  Context& context_;
  const BenchArguments& arguments_;
  StopSignals signals_;
  PrivateServer server_;
  int server_pid_ = 0;
  std::unique_ptr<ClientSession> session_;
  std::unique_ptr<BenchLoad> load_holder_;
  BenchLoad* load_ = nullptr;  // On the loop.
  std::atomic<bool> interrupted_{false};
  std::promise<void> ended_;
  std::promise<void> stop_;
};

}  // namespace

void AddBenchCommand(Command& root, Context& context) {
  auto arguments = std::make_shared<BenchArguments>();
  Command bench = root.Subcommand(
      "bench",
      "measure a server\n"
      "Without --address it starts a server of its own, with a temporary data folder below TMPDIR, "
      "and also\n"
      "tells what that server used. Modes:\n"
      "  enqueue      store tasks\n"
      "  cycle        store, lease and complete, with a bounded backlog\n"
      "  drain        store --tasks first, then measure leasing and completing them\n"
      "  idle-queues  memory of a queue that was used once and is loaded");
  bench.Text("MODE", arguments->mode, "", "enqueue, cycle, drain or idle-queues")
      .OneOf({"enqueue", "cycle", "drain", "idle-queues"});
  bench.Number("--batch", arguments->batch, 1, 1'000, "tasks in one call");
  bench.Number("--callers", arguments->callers, 1, 10'000, "calls in flight");
  bench.Number("--queues", arguments->queues, 1, 1'000'000, "queues that share the load");
  bench.Number("--connections", arguments->connections, 1, 1'000,
               "connections that share the calls");
  bench.Size("--payload", arguments->payload_bytes, "bytes of a task");
  CommandOption duration = bench.Time("--duration", arguments->duration, "how long is measured");
  bench.Time("--warmup", arguments->warmup, "before it");
  bench
      .Number("--tasks", arguments->tasks, 1, std::int64_t{1} << 40,
              "measure so many tasks instead")
      .Excludes(duration);
  bench.Flag("--spawn", arguments->spawn, "a server of its own even when an address is set");
  bench.Texts("--server-flag", arguments->server_flags, "FLAG",
              "flag for that server, such as --store-kind=memory");
  bench.Number("--server-pid", arguments->server_pid, 1, 1 << 30,
               "process of the server at --address, to see what it uses");
  bench.Examples(
      "  millrace bench cycle --batch 64 --duration 10s\n"
      "  millrace bench enqueue --queues 1000 -o json\n"
      "  millrace bench drain --tasks 100000\n"
      "  millrace bench idle-queues --queues 10000");
  bench.Runs(context, [&context, arguments] { return BenchRun(context, *arguments).Run(); });
}

}  // namespace millrace::cli
