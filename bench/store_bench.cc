// Measures the embedded store without the rest of the server.
//
//   store_bench batched DIRECTORY SECONDS [relaxed]   one queue; each commit creates 64 rows and
//   deletes the 64 before store_bench single DIRECTORY SECONDS [WRITERS]    64 queues, each waiting
//   for its create, then for its delete
//
// Prints tasks a second and CPU time a task, the whole process counted.

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/exec/event_loop.h"
#include "millrace/exec/strand.h"
#include "millrace/store/rocksdb/rocks_task_store.h"
#include "millrace/store/threaded_task_store.h"

namespace millrace::store {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBatch = 64;
constexpr std::size_t kPayloadBytes = 100;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Report {
 public:
  void Print(const char* name, std::int64_t tasks, std::int64_t commits) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const double cpu = CpuSeconds() - cpu_;
    const auto count = static_cast<double>(tasks);
    std::printf("%s: %.0f tasks/s, %.2f us CPU a task, %.0f commits/s\n", name, count / seconds,
                cpu * 1e6 / count, static_cast<double>(commits) / seconds);
  }

 private:
  Clock::time_point start_ = Clock::now();
  double cpu_ = CpuSeconds();
};

QueueMetadata Metadata() {
  QueueMetadata metadata;
  metadata.range_id = RangeId{1};
  metadata.subqueues.emplace_back();
  metadata.owner_state.assign(40, 's');
  return metadata;
}

PhysicalQueueKey Queue(int n) { return {"default", "queue-" + std::to_string(n), 0}; }

TaskRow Row(std::int64_t id) {
  return {TaskKey{0, {0, TaskId{id}}}, WallTime{id}, WallTime{}, std::string(kPayloadBytes, 'x')};
}

void MustBeOk(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

void Batched(TaskStore& store, std::chrono::seconds duration) {
  QueueWrite write;
  write.queue = Queue(0);
  write.metadata = Metadata();
  MustBeOk(store.Commit({&write, 1})[0]);
  write.expected_range_id = RangeId{1};
  const Report report;
  std::int64_t id = 0;
  std::int64_t commits = 0;
  for (const auto end = Clock::now() + duration; Clock::now() < end; ++commits) {
    write.deletes.clear();
    for (const TaskRow& row : write.creates) write.deletes.push_back(row.key);
    write.creates.clear();
    for (int i = 0; i < kBatch; ++i) write.creates.push_back(Row(++id));
    MustBeOk(store.Commit({&write, 1})[0]);
  }
  report.Print("batched", id, commits);
}

struct Writer {
  explicit Writer(exec::Executor& home) : strand(home) {}
  exec::Strand strand;
  int queue = 0;
  std::int64_t id = 0;
  bool created = false;
};

void Single(TaskStore& store, std::chrono::seconds duration, int writers_count) {
  SystemClock clock;
  std::unique_ptr<exec::EventLoop> loop = exec::EventLoop::Create("bench", clock);
  ThreadedTaskStore threaded(store, {}, NullMetrics());
  std::vector<std::unique_ptr<Writer>> writers;
  for (int i = 0; i < writers_count; ++i) {
    writers.push_back(std::make_unique<Writer>(*loop));
    writers.back()->queue = i;
    QueueWrite lease;
    lease.queue = Queue(i);
    lease.metadata = Metadata();
    MustBeOk(store.Commit({&lease, 1})[0]);
  }
  std::atomic<int> running = writers_count;
  std::atomic<std::int64_t> done = 0;
  std::promise<void> all;
  const auto end = Clock::now() + duration;
  const std::function<void(Writer&)> step = [&](Writer& writer) {
    QueueWrite write;
    write.queue = Queue(writer.queue);
    write.expected_range_id = RangeId{1};
    write.metadata = Metadata();
    if (writer.created) {
      write.deletes.push_back(TaskKey{0, {0, TaskId{writer.id}}});
    } else {
      write.creates.push_back(Row(++writer.id));
    }
    writer.created = !writer.created;
    threaded.Commit(std::move(write), writer.strand, [&](const Status& status, const QueueWrite&) {
      MustBeOk(status);
      if (!writer.created) {
        done.fetch_add(1, std::memory_order_relaxed);
        if (Clock::now() >= end) {
          if (--running == 0) all.set_value();
          return;
        }
      }
      step(writer);
    });
  };
  const Report report;
  for (auto& writer : writers) writer->strand.Post([&] { step(*writer); });
  all.get_future().get();
  report.Print("single", done.load(), 2 * done.load());
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: store_bench batched|single DIRECTORY SECONDS [relaxed|WRITERS]\n");
    return 2;
  }
  const std::string_view mode = argv[1];
  const std::string_view option = argc > 4 ? argv[4] : "";
  RocksTaskStoreConfig config;
  config.path = argv[2];
  config.sync = option != "relaxed";
  NullLog log;
  Result<std::unique_ptr<RocksTaskStore>> store = RocksTaskStore::Open(config, log);
  if (!store.ok()) MustBeOk(store.status());
  const std::chrono::seconds duration(std::atoi(argv[3]));
  if (mode == "batched") {
    Batched(**store, duration);
  } else {
    const int writers = std::atoi(std::string(option).c_str());
    Single(**store, duration, writers > 0 ? writers : 64);
  }
  return 0;
}

}  // namespace
}  // namespace millrace::store

int main(int argc, char** argv) { return millrace::store::Main(argc, argv); }
