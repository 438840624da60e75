#include "tests/conformance/queue_tool.h"

#include <chrono>
#include <future>
#include <utility>

namespace millrace::conformance {
namespace {

// How often a waiting `take` looks whether the reader has come to the end.
constexpr Duration kLook = std::chrono::milliseconds(5);

}  // namespace

LiveQueue::LiveQueue(store::PhysicalQueueKey key, const backlog::BacklogConfig& config,
                     exec::EventLoop& loop, store::AsyncTaskStore& store, Random& random, Log& log)
    : strand_(loop),
      metrics_(backlog::BacklogMetrics::Create(NullMetrics())),
      watch_(store, loop, config.update_interval),
      manager_(std::move(key), config, strand_, store, watch_, random, metrics_, log, *this) {}

LiveQueue::~LiveQueue() {
  Words none("");
  if (!stopped_) Do("stop", none);
}

std::string LiveQueue::Ask(UniqueFunction<void(Answer)> step) {
  const auto promise = std::make_shared<std::promise<std::string>>();
  std::future<std::string> answer = promise->get_future();
  strand_.Post([step = std::move(step), promise]() mutable {
    step([promise](std::string text) { promise->set_value(std::move(text)); });
  });
  return answer.get();
}

std::string LiveQueue::Do(const std::string& command, Words& words) {
  if (stopped_) return "error the queue was stopped";
  if (command == "start") {
    return Ask([this](Answer answer) {
      strand_.AssertCurrent();
      Start(std::move(answer));
    });
  }
  if (command == "take") {
    const auto count = static_cast<std::size_t>(words.Number());
    return Ask([this, count](Answer answer) {
      strand_.AssertCurrent();
      Take(count, std::move(answer));
    });
  }
  if (command == "complete") {
    const store::TaskKey key = words.Key();
    return Ask([this, key](Answer answer) {
      strand_.AssertCurrent();
      manager_.CompleteTask(key);
      held_.erase(key);
      answer("done");
    });
  }
  if (command == "rewrite") {
    const store::TaskKey key = words.Key();
    return Ask([this, key](Answer answer) {
      strand_.AssertCurrent();
      Rewrite(key, std::move(answer));
    });
  }
  if (command == "spool") {
    backlog::WriteOp op;
    backlog::NewTask& task = op.creates.emplace_back();
    task.subqueue = static_cast<store::Subqueue>(words.Number());
    task.create_time.ns = words.Number();
    task.expiry_time.ns = words.Number();
    task.payload = words.Bytes();
    return Ask([this, op = std::move(op)](Answer answer) mutable {
      strand_.AssertCurrent();
      Submit(std::move(op), std::move(answer));
    });
  }
  if (command == "status") {
    return Ask([this](Answer answer) {
      strand_.AssertCurrent();
      answer("status " + std::to_string(manager_.range_id().value) + " " +
             std::to_string(manager_.TotalApproximateBacklogCount()) + " " + unload_cause_);
    });
  }
  if (command == "stop") {
    stopped_ = true;
    return Ask([this](Answer answer) {
      strand_.AssertCurrent();
      manager_.Stop([this, answer = std::move(answer)]() mutable {
        poll_.reset();
        answer("stopped");
      });
    });
  }
  return "error no such command: " + command;
}

void LiveQueue::Start(Answer answer) {
  manager_.Start();
  manager_.WhenInitialized([this, answer = std::move(answer)](Status status) mutable {
    strand_.AssertCurrent();
    if (!status.ok()) return answer(Refused(status));
    const backlog::TaskIdBlockView block = manager_.DescribeBacklog().task_id_block;
    answer("held " + std::to_string(manager_.range_id().value) + " " +
           std::to_string(block.start.value) + " " + std::to_string(block.end.value));
  });
}

void LiveQueue::OnLeaseHeld() { manager_.BeginReading(); }

void LiveQueue::OnUnloadRequested(backlog::UnloadCause cause, const Status& /*status*/) {
  strand_.AssertCurrent();
  unload_cause_ = backlog::UnloadCauseName(cause);
}

void LiveQueue::Take(std::size_t count, Answer answer) {
  wanted_ = count;
  taken_.clear();
  taker_ = std::move(answer);
  poll_.emplace(strand_);
  TakeMore();
}

void LiveQueue::TakeMore() {
  for (backlog::LoadedTask& task : manager_.TakeLoaded(wanted_ - taken_.size())) {
    taken_.push_back(std::move(task));
  }
  if (taken_.size() < wanted_ && unload_cause_ == "none" &&
      (!ReadToTheEnd() || manager_.HasLoaded())) {
    poll_->Arm(strand_.clock().Now() + kLook, [this] {
      strand_.AssertCurrent();
      TakeMore();
    });
    return;
  }
  std::string text = "tasks " + std::to_string(taken_.size());
  for (backlog::LoadedTask& task : taken_) {
    text += " " + KeyText(task.key) + " " + std::to_string(task.create_time.ns) + " " +
            std::to_string(task.expiry_time.ns) + " " + Hex(task.payload);
    const store::TaskKey key = task.key;
    held_[key] = std::move(task);
  }
  taken_.clear();
  taker_(std::move(text));
}

bool LiveQueue::ReadToTheEnd() const {
  for (const backlog::InternalSubqueueStatus& subqueue : manager_.InternalStatus()) {
    if (subqueue.read_level.id < subqueue.max_read_level) return false;
  }
  return true;
}

void LiveQueue::Rewrite(const store::TaskKey& key, Answer answer) {
  const auto it = held_.find(key);
  if (it == held_.end()) return answer("error the task is not held");
  // As TaskRewriter does it.
  backlog::WriteOp op;
  op.creates.push_back({key.subqueue, it->second.create_time, it->second.expiry_time,
                        std::move(it->second.payload)});
  op.accepts = false;
  op.ends.push_back(key);
  held_.erase(it);
  Submit(std::move(op), std::move(answer));
}

void LiveQueue::Submit(backlog::WriteOp op, Answer answer) {
  op.done = [answer = std::move(answer)](backlog::WriteOutcome outcome) mutable {
    answer(outcome.status.ok() ? "stored " + KeyText(outcome.created.at(0))
                               : Refused(outcome.status));
  };
  manager_.Submit(std::move(op));
}

}  // namespace millrace::conformance
