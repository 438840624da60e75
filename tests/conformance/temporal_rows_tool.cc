// Owns task queues in the tables that Temporal's matching service uses, as lines of standard input
// say; one line of answer each. A test talks to this and to Temporal's own persistence layer in
// turn.
//
//   temporal_rows_tool CONNECTION-STRING classic|fair
//
//   queue NUMBER QUEUE            makes a queue of this process (queue_tool.h); QUEUE = namespace,
//   name, type queue NUMBER COMMAND ...      does something with it COMMAND ... does something with
//   the store (row_tool.h)

#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "millrace/exec/event_loop.h"
#include "millrace/store/postgres/postgres_task_store.h"
#include "millrace/store/postgres/temporal_layout.h"
#include "millrace/store/threaded_task_store.h"
#include "tests/conformance/queue_tool.h"
#include "tests/conformance/row_tool.h"
#include "tests/conformance/words.h"

namespace millrace::conformance {
namespace {

class Tool {
 public:
  Tool(store::TaskStore& store, exec::EventLoop& loop)
      : store_(store), async_(store, {}, NullMetrics()), loop_(loop) {
    // The other engine's; the rest as servers have it.
    config_.range_size = 100'000;
  }

  std::string Do(const std::string& line) {
    Words words(line);
    const std::string command = words.Text();
    const std::string answer =
        command == "queue" ? DoOnQueue(words) : DoOnStore(store_, command, words);
    return words.good() ? answer : "error bad line";
  }

 private:
  std::string DoOnQueue(Words& words) {
    const std::int64_t number = words.Number();
    const auto it = queues_.find(number);
    if (it != queues_.end()) return it->second->Do(words.Text(), words);
    queues_[number] =
        std::make_unique<LiveQueue>(words.Queue(), config_, loop_, async_, random_, log_);
    return "made";
  }

  store::TaskStore& store_;
  store::ThreadedTaskStore async_;
  exec::EventLoop& loop_;
  backlog::BacklogConfig config_;
  SystemRandom random_;
  NullLog log_;
  std::map<std::int64_t, std::unique_ptr<LiveQueue>> queues_;
};

int Main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CONNECTION-STRING classic|fair\n", argv[0]);
    return 2;
  }
  const bool fair = std::string(argv[2]) == "fair";
  const auto layout = store::MakeTemporalLayout(
      fair ? store::TemporalTables::kFair : store::TemporalTables::kClassic, nullptr);
  store::PostgresConfig config;
  config.url = argv[1];
  NullLog log;
  const auto store = store::PostgresTaskStore::Open(config, *layout, NullMetrics(), log);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  const SystemClock clock;
  const std::unique_ptr<exec::EventLoop> loop = exec::EventLoop::Create("tool", clock);
  Tool tool(**store, *loop);
  for (std::string line; std::getline(std::cin, line);) std::cout << tool.Do(line) << std::endl;
  return 0;
}

}  // namespace
}  // namespace millrace::conformance

int main(int argc, char** argv) { return millrace::conformance::Main(argc, argv); }
