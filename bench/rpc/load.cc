// The load generator of bench/rpc: calls any gRPC server and says, as one line of JSON, what that
// cost the server's process (CPU, memory, from the kernel's books) and the callers (latency).

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpc/testing/test.pb.h"
#include "millrace/base/check.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"

namespace millrace::rpc {
namespace {

// CPU time of all threads that the process has now. Servers here end none while they work.
std::int64_t CpuNs(int pid) {
  std::int64_t total = 0;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream file(task.path() / "schedstat");
    std::int64_t ns = 0;
    file >> ns;
    total += ns;
  }
  return total;
}

std::int64_t ResidentBytes(int pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct Settings {
  std::string target;
  int pid = 0;
  std::string method = "UnaryCall";
  int callers = 64;
  int connections = 1;
  int calls = 100'000;
  int waiting = 0;
  std::string ca;
};

// Callers that each make one call after the other. Thread: the client's loop.
struct Load {
  Channel& channel;
  const Clock& clock;
  const std::string method;
  const std::string request;
  int left;
  int running;
  std::vector<std::int64_t> latencies_ns;
  std::promise<void> done;

  void Next() {
    if (left == 0) {
      if (--running == 0) done.set_value();
      return;
    }
    --left;
    const Instant start = clock.Now();
    channel.Call(method, request, {}, [this, start](CallResult result) {
      if (!result.status.ok()) {
        std::fprintf(stderr, "a call failed: %s\n", result.status.message.c_str());
        std::_Exit(EXIT_FAILURE);
      }
      latencies_ns.push_back((clock.Now() - start).count());
      Next();
    });
  }
};

void Run(exec::EventLoop& loop, const Settings& settings, int calls, Load& load) {
  load.left = calls;
  load.running = settings.callers;
  load.done = {};
  load.latencies_ns.clear();
  loop.Post([&load, callers = settings.callers] {
    for (int i = 0; i < callers; ++i) load.Next();
  });
  load.done.get_future().wait();
}

std::string Payload() {
  grpc::testing::SimpleRequest request;
  request.mutable_payload()->set_body("0123456789abcdef");
  return request.SerializeAsString();
}

std::string Method(const std::string& name) { return "/grpc.testing.TestService/" + name; }

int MeasureCalls(exec::EventLoop& loop, Channel& channel, const Settings& settings) {
  Load load{channel, loop.clock(), Method(settings.method), Payload(), 0, 0, {}, {}};
  load.latencies_ns.reserve(static_cast<std::size_t>(settings.calls));
  Run(loop, settings, settings.calls / 5, load);  // Warms up.
  const std::int64_t cpu_before = CpuNs(settings.pid);
  const Instant start = loop.clock().Now();
  Run(loop, settings, settings.calls, load);
  const double seconds = static_cast<double>((loop.clock().Now() - start).count()) / 1e9;
  const double cpu_us = static_cast<double>(CpuNs(settings.pid) - cpu_before) / 1e3;
  std::sort(load.latencies_ns.begin(), load.latencies_ns.end());
  const auto percentile = [&load](double p) {
    const auto at = static_cast<std::size_t>(p * static_cast<double>(load.latencies_ns.size() - 1));
    return static_cast<double>(load.latencies_ns[at]) / 1e3;
  };
  std::printf(
      "{\"cpu_us_per_call\": %.3f, \"calls_per_second\": %.0f, \"p50_us\": %.1f, \"p99_us\": "
      "%.1f}\n",
      cpu_us / settings.calls, settings.calls / seconds, percentile(0.5), percentile(0.99));
  return EXIT_SUCCESS;
}

// A call that was sent behind the waiting ones has come back: they have all arrived.
void Ask(Channel& channel) {
  const CallResult result = CallAndWait(channel, Method("UnaryCall"), Payload(), {});
  MR_CHECK(result.status.ok());
}

int MeasureWaiting(exec::EventLoop& loop, Channel& channel, const Settings& settings) {
  // What a server needs once for its connections and threads shall not count.
  for (int i = 0; i < 1'000; ++i) Ask(channel);
  const std::int64_t before = ResidentBytes(settings.pid);
  std::atomic<int> ended = 0;
  CallOptions options;
  options.deadline = loop.clock().Now() + std::chrono::hours(1);
  for (int i = 0; i < settings.waiting; ++i) {
    channel.Call(Method("EmptyCall"), {}, options, [&ended](CallResult) { ++ended; });
  }
  Ask(channel);
  // Servers that start their handlers on other threads may need a moment more: until nothing grows.
  std::int64_t after = ResidentBytes(settings.pid);
  for (int steady = 0; steady < 5; ++steady) {
    usleep(50'000);
    const std::int64_t now = ResidentBytes(settings.pid);
    if (now > after) steady = -1;
    after = now;
  }
  if (ended != 0) {
    std::fprintf(stderr, "%d of the waiting calls have ended\n", ended.load());
    std::_Exit(EXIT_FAILURE);
  }
  std::printf("{\"bytes_per_waiting_call\": %.0f}\n",
              static_cast<double>(after - before) / settings.waiting);
  return EXIT_SUCCESS;
}

int Main(int argc, char** argv) {
  CLI::App app("Load generator of bench/rpc");
  Settings settings;
  app.add_option("--target", settings.target)->required();
  app.add_option("--pid", settings.pid, "The server's process")->required();
  app.add_option("--method", settings.method);
  app.add_option("--callers", settings.callers);
  app.add_option("--connections", settings.connections);
  app.add_option("--calls", settings.calls);
  app.add_option("--waiting", settings.waiting, "Measure the memory of so many waiting calls");
  app.add_option("--ca", settings.ca, "Speak TLS, and who signed the server's certificate");
  CLI11_PARSE(app, argc, argv);
  const SystemClock clock;
  const auto loop = exec::EventLoop::Create("client", clock);
  ChannelOptions options;
  options.target = settings.target;
  options.connections_max = settings.connections;
  if (!settings.ca.empty()) {
    options.tls.emplace();
    options.tls->ca_file = settings.ca;
    options.tls->server_name = "localhost";
  }
  const auto channel = Channel::Create(*loop, options);
  return settings.waiting > 0 ? MeasureWaiting(*loop, *channel, settings)
                              : MeasureCalls(*loop, *channel, settings);
}

}  // namespace
}  // namespace millrace::rpc

int main(int argc, char** argv) { return millrace::rpc::Main(argc, argv); }
