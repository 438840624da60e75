// What a trivial unary call costs the server, and what a waiting call costs it in memory.
//
//   rpc_bench [calls per measurement]
//
// The server runs in a process of its own, with one event loop; this process makes the calls.

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/check.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/server.h"

namespace millrace::rpc {
namespace {

std::int64_t CpuNs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& t) { return t.tv_sec * 1'000'000'000LL + t.tv_usec * 1'000LL; };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

std::int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

[[noreturn]] void Serve(int address_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const SystemClock clock;
  NullLog log;
  const auto loop = exec::EventLoop::Create("server", clock);
  std::vector<std::unique_ptr<ServerCall>> parked;  // One loop, so one thread.
  ServiceTable services;
  services.unary["/bench.Bench/Echo"] = [](std::unique_ptr<ServerCall> call) {
    call->FinishOk(std::string(call->request()));
  };
  services.unary["/bench.Bench/Park"] = [&parked](std::unique_ptr<ServerCall> call) {
    call->OnCancel([] {});
    parked.push_back(std::move(call));
  };
  services.unary["/bench.Bench/Cpu"] = [](std::unique_ptr<ServerCall> call) {
    call->FinishOk(std::to_string(CpuNs()));
  };
  services.unary["/bench.Bench/Memory"] = [](std::unique_ptr<ServerCall> call) {
    call->FinishOk(std::to_string(ResidentBytes()));
  };
  ServerOptions options;
  options.listen = {"127.0.0.1:0"};
  options.concurrent_streams_max = 100'000;
  const auto server =
      Server::Create({loop.get()}, options, std::move(services), log, NullMetrics());
  const Status started = server->Start();
  MR_CHECK(started.ok());
  const std::string address = server->addresses().front() + "\n";
  MR_CHECK(write(address_fd, address.data(), address.size()) ==
           static_cast<ssize_t>(address.size()));
  for (;;) pause();
}

std::int64_t Ask(Channel& channel, const char* method) {
  const CallResult result = CallAndWait(channel, method, "", {});
  MR_CHECK(result.status.ok());
  return std::atoll(result.response.c_str());
}

// Callers that each make one call after the other. Lives on the client's loop.
struct Load {
  Channel& channel;
  const Clock& clock;
  int left;
  int running;
  bool with_deadline;
  std::vector<std::int64_t> latencies_ns;
  std::promise<void> done;

  void Next() {
    if (left == 0) {
      if (--running == 0) done.set_value();
      return;
    }
    --left;
    const Instant start = clock.Now();
    CallOptions options;
    if (with_deadline) options.deadline = start + std::chrono::seconds(60);
    channel.Call("/bench.Bench/Echo", "0123456789abcdef", std::move(options),
                 [this, start](CallResult result) {
                   MR_CHECK(result.status.ok());
                   latencies_ns.push_back((clock.Now() - start).count());
                   Next();
                 });
  }
};

void Measure(exec::EventLoop& loop, const std::string& target, int callers, int connections,
             int calls, bool with_deadline) {
  ChannelOptions options;
  options.target = target;
  options.connections_max = connections;
  const auto channel = Channel::Create(loop, options);
  for (int i = 0; i < 200; ++i) Ask(*channel, "/bench.Bench/Cpu");
  const std::int64_t server_before = Ask(*channel, "/bench.Bench/Cpu");
  const std::int64_t client_before = CpuNs();
  Load load{*channel, loop.clock(), calls, callers, with_deadline, {}, {}};
  load.latencies_ns.reserve(static_cast<std::size_t>(calls));
  const Instant start = loop.clock().Now();
  loop.Post([&load, callers] {
    for (int i = 0; i < callers; ++i) load.Next();
  });
  load.done.get_future().wait();
  const double seconds = static_cast<double>((loop.clock().Now() - start).count()) / 1e9;
  const std::int64_t client_after = CpuNs();
  const std::int64_t server_after = Ask(*channel, "/bench.Bench/Cpu");
  std::sort(load.latencies_ns.begin(), load.latencies_ns.end());
  const auto percentile = [&load](double p) {
    const auto at = static_cast<std::size_t>(p * static_cast<double>(load.latencies_ns.size() - 1));
    return static_cast<double>(load.latencies_ns[at]) / 1e3;
  };
  std::printf(
      "%4d callers %2d connections %-8s  %7.0f calls/s  server %5.2f us  client %5.2f us  "
      "p50 %6.0f us  p99 %6.0f us\n",
      callers, connections, with_deadline ? "deadline" : "", calls / seconds,
      static_cast<double>(server_after - server_before) / 1e3 / calls,
      static_cast<double>(client_after - client_before) / 1e3 / calls, percentile(0.5),
      percentile(0.99));
}

void MeasureWaiting(exec::EventLoop& loop, const std::string& target, int calls) {
  ChannelOptions options;
  options.target = target;
  const auto channel = Channel::Create(loop, options);
  const std::int64_t before = Ask(*channel, "/bench.Bench/Memory");
  CallOptions call_options;
  call_options.deadline = loop.clock().Now() + std::chrono::hours(1);
  for (int i = 0; i < calls; ++i) {
    channel->Call("/bench.Bench/Park", "0123456789abcdef", call_options, [](CallResult) {});
  }
  const std::int64_t after = Ask(*channel, "/bench.Bench/Memory");
  std::printf("%d waiting calls with deadline and cancel closure: %.0f bytes each\n", calls,
              static_cast<double>(after - before) / calls);
}

int Main(int argc, char** argv) {
  const int calls = argc > 1 ? std::max(1000, std::atoi(argv[1])) : 300'000;
  int address_pipe[2];
  MR_CHECK(pipe(address_pipe) == 0);
  const pid_t server = fork();
  MR_CHECK(server >= 0);
  if (server == 0) Serve(address_pipe[1]);
  std::string target;
  char c;
  while (read(address_pipe[0], &c, 1) == 1 && c != '\n') target.push_back(c);
  {
    const SystemClock clock;
    const auto loop = exec::EventLoop::Create("client", clock);
    MeasureWaiting(*loop, target, 50'000);
    for (const int callers : {1, 8, 64, 256}) {
      Measure(*loop, target, callers, 1, callers == 1 ? calls / 10 : calls, false);
    }
    Measure(*loop, target, 64, 8, calls, false);
    Measure(*loop, target, 64, 64, calls, false);
    Measure(*loop, target, 64, 1, calls, true);
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace millrace::rpc

int main(int argc, char** argv) { return millrace::rpc::Main(argc, argv); }
