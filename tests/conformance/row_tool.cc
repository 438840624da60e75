#include "tests/conformance/row_tool.h"

#include <utility>
#include <vector>

namespace millrace::conformance {
namespace {

constexpr std::size_t kRowsMax = 1'000;
constexpr std::size_t kBytesMax = 4u << 20;

std::string Describe(store::TaskStore& store, Words& words) {
  const auto metadata = store.ReadMetadata(words.Queue());
  if (!metadata.ok()) return Refused(metadata.status());
  std::string text = "metadata " + std::to_string(metadata->range_id.value) + " " +
                     std::to_string(metadata->update_time.ns) + " " + Hex(metadata->owner_state) +
                     " " + std::to_string(metadata->subqueues.size());
  for (const store::SubqueueMetadata& subqueue : metadata->subqueues) {
    text += " " + std::to_string(subqueue.ack_level.pass) + " " +
            std::to_string(subqueue.ack_level.id.value) + " " +
            std::to_string(subqueue.approximate_count);
  }
  return text;
}

std::string Rows(store::TaskStore& store, Words& words) {
  const store::PhysicalQueueKey queue = words.Queue();
  const auto subqueue = static_cast<store::Subqueue>(words.Number());
  std::string text;
  std::size_t count = 0;
  store::TaskLevel from = store::TaskLevel::Min();
  for (bool more = true; more;) {
    const auto page =
        store.ReadTasks(queue, subqueue, from, store::TaskLevel::Max(), kRowsMax, kBytesMax);
    if (!page.ok()) return Refused(page.status());
    for (const store::TaskRow& row : page->rows) {
      ++count;
      text += " " + KeyText(row.key) + " " + std::to_string(row.create_time.ns) + " " +
              std::to_string(row.expiry_time.ns) + " " + Hex(row.payload);
      from = {row.key.level.pass, TaskId{row.key.level.id.value + 1}};
    }
    more = page->more;
  }
  return "tasks " + std::to_string(count) + text;
}

std::string Write(store::TaskStore& store, Words& words) {
  store::QueueWrite write;
  write.queue = words.Queue();
  write.expected_range_id = RangeId{words.Number()};
  const RangeId range_id{words.Number()};
  std::vector<store::SubqueueMetadata> subqueues;
  while (words.more()) {
    const std::string what = words.Text();
    if (what == "create") {
      store::TaskRow& row = write.creates.emplace_back();
      row.key = words.Key();
      row.create_time.ns = words.Number();
      row.expiry_time.ns = words.Number();
      row.payload = words.Bytes();
    } else if (what == "delete") {
      write.deletes.push_back(words.Key());
    } else if (what == "subqueue") {
      const std::int64_t pass = words.Number();
      const TaskId id{words.Number()};
      subqueues.push_back({{pass, id}, words.Number()});
    } else {
      return "error cannot write " + what;
    }
  }
  auto found = store.ReadMetadata(write.queue);
  if (!found.ok() && found.code() != StatusCode::kNotFound) return Refused(found.status());
  write.metadata = found.ok() ? std::move(*found) : store::QueueMetadata();
  write.metadata->range_id = range_id;
  write.metadata->update_time = SystemClock().WallNow();
  if (!subqueues.empty()) write.metadata->subqueues = std::move(subqueues);
  const Status status = store.Commit({&write, 1}).at(0);
  return status.ok() ? "written" : Refused(status);
}

std::string List(store::TaskStore& store) {
  std::string text;
  std::size_t count = 0;
  std::string token;
  do {
    const auto page = store.ListQueues(token, kRowsMax);
    if (!page.ok()) return Refused(page.status());
    for (const store::QueueEntry& queue : page->queues) {
      ++count;
      text += " " + queue.key.namespace_id + " " + Hex(queue.key.persistence_name) + " " +
              std::to_string(queue.key.task_type) + " " +
              std::to_string(queue.metadata.range_id.value);
    }
    token = page->next_page_token;
  } while (!token.empty());
  return "queues " + std::to_string(count) + text;
}

}  // namespace

std::string DoOnStore(store::TaskStore& store, const std::string& command, Words& words) {
  if (command == "metadata") return Describe(store, words);
  if (command == "rows") return Rows(store, words);
  if (command == "write") return Write(store, words);
  if (command == "list") return List(store);
  return "error no such command: " + command;
}

}  // namespace millrace::conformance
