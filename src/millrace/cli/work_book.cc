#include "millrace/cli/work_book.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::cli {
namespace {

TaskEnd EndOf(WorkBook::Settle settle) {
  switch (settle) {
    case WorkBook::Settle::kComplete:
      return TaskEnd::kCompleted;
    case WorkBook::Settle::kFail:
      return TaskEnd::kFailed;
    case WorkBook::Settle::kRelease:
      return TaskEnd::kReleased;
  }
  return TaskEnd::kUnreported;
}

}  // namespace

std::string_view TaskEndName(TaskEnd end) {
  switch (end) {
    case TaskEnd::kCompleted:
      return "completed";
    case TaskEnd::kFailed:
      return "failed";
    case TaskEnd::kReleased:
      return "released";
    case TaskEnd::kLeaseLost:
      return "lease_lost";
    case TaskEnd::kUnconfirmed:
      return "unconfirmed";
    case TaskEnd::kUnreported:
      return "unreported";
  }
  return "";
}

WorkBook::WorkBook(Options options) : options_(options), kill_wait_(options.kill_wait) {
  MR_CHECK(options.slots > 0);
  MR_CHECK(options.lease > Duration::zero());
}

bool WorkBook::polling() const {
  return polling_ && !stop_ && (options_.tasks_max == 0 || summary_.leased < options_.tasks_max);
}

int WorkBook::PollSize() const {
  if (!polling()) return 0;
  const std::size_t unsettled = tasks_.size() - running_;
  if (unsettled >= options_.settles_max) return 0;
  std::int64_t free = options_.slots - static_cast<std::int64_t>(running_);
  if (options_.tasks_max != 0) free = std::min(free, options_.tasks_max - summary_.leased);
  return static_cast<int>(std::clamp<std::int64_t>(free, 0, 1'000));
}

void WorkBook::PlanExtend(Task& task, Duration left, Instant now) {
  task.lease_end = now + left;
  task.extend_at = now + left / 3;
}

WorkBook::Key WorkBook::OnLeased(std::string token, Duration left, Instant now) {
  const Key key = ++last_key_;
  Task& task = tasks_[key];
  task.token = std::move(token);
  PlanExtend(task, left, now);
  ++running_;
  ++summary_.leased;
  return key;
}

WorkBook::Key WorkBook::OnLeasedTooLate(std::string token) {
  const Key key = ++last_key_;
  Task& task = tasks_[key];
  task.token = std::move(token);
  ++summary_.leased;
  QueueReport(key, task, Settle::kRelease);
  return key;
}

void WorkBook::OnNotStarted(Key key) {
  --running_;
  QueueReport(key, tasks_.at(key), Settle::kRelease);
}

void WorkBook::QueueReport(Key key, Task& task, Settle settle) {
  task.phase = Phase::kSettling;
  task.settle = settle;
  task.reporting = false;
  queues_[static_cast<int>(settle)].insert(key);
}

void WorkBook::OnExit(Key key, TaskExit exit, Instant now) {
  const auto found = tasks_.find(key);
  MR_CHECK(found != tasks_.end() && found->second.phase != Phase::kSettling);
  Task& task = found->second;
  --running_;
  if (task.cause == KillCause::kLeaseLost) {
    CountEnd(key, TaskEnd::kLeaseLost);
    tasks_.erase(found);
  } else {
    const bool done = exit.kind == TaskExit::Kind::kDone;
    const bool killed = task.cause == KillCause::kStop;
    task.exit = std::move(exit);
    QueueReport(key, task, done ? Settle::kComplete : killed ? Settle::kRelease : Settle::kFail);
  }
  PlanGiveUp(now);
}

void WorkBook::StartKill(Key key, Task& task, KillCause cause, Instant now, Actions& actions) {
  task.phase = Phase::kKilling;
  task.cause = cause;
  task.kill_at = now + kill_wait_;
  actions.terminate.push_back(key);
}

WorkBook::Actions WorkBook::Tick(Instant now) {
  Actions actions;
  bool extend_due = false;
  for (auto& [key, task] : tasks_) {
    if (task.phase == Phase::kRunning) {
      if (now >= grace_end_) {
        StartKill(key, task, KillCause::kStop, now, actions);
      } else if (now >= task.lease_end) {
        StartKill(key, task, KillCause::kLeaseLost, now, actions);
      } else if (!task.extending && now >= task.extend_at) {
        extend_due = true;
      }
    }
    if (task.phase == Phase::kKilling && !task.hard_killed && now >= task.kill_at) {
      task.hard_killed = true;
      actions.kill.push_back(key);
    }
  }
  if (!extend_due) return actions;
  const Instant nearly = now + options_.lease / 12;
  for (auto& [key, task] : tasks_) {
    if (task.phase == Phase::kRunning && !task.extending && nearly >= task.extend_at &&
        actions.extend.size() < 1'000) {
      task.extending = true;
      actions.extend.emplace_back(key, task.token);
    }
  }
  return actions;
}

void WorkBook::OnExtendAnswer(Key key, ItemAnswer answer, Instant sent, Instant now) {
  const auto found = tasks_.find(key);
  if (found == tasks_.end() || found->second.phase != Phase::kRunning) return;
  Task& task = found->second;
  task.extending = false;
  switch (answer) {
    case ItemAnswer::kOk:
      // From when it was sent: the server cannot have started the new time earlier.
      PlanExtend(task, options_.lease, sent);
      break;
    case ItemAnswer::kLeaseLost:
      task.lease_end = now;
      break;
    case ItemAnswer::kRefused:
    case ItemAnswer::kNotDone:
    case ItemAnswer::kUncertain:
      task.extend_at = now + options_.lease / 12;
      break;
  }
}

Instant WorkBook::NextTick() const {
  Instant next = Instant::Max();
  for (const auto& [key, task] : tasks_) {
    if (task.phase == Phase::kRunning) {
      next = std::min({next, task.lease_end, grace_end_});
      if (!task.extending) next = std::min(next, task.extend_at);
    } else if (task.phase == Phase::kKilling && !task.hard_killed) {
      next = std::min(next, task.kill_at);
    }
  }
  if (!tasks_.empty()) next = std::min(next, give_up_at_);
  return next;
}

std::vector<WorkBook::Report> WorkBook::TakeReports(Settle kind, std::size_t count_max) {
  std::set<Key>& queue = queues_[static_cast<int>(kind)];
  std::vector<Report> reports;
  while (!queue.empty() && reports.size() < count_max) {
    const Key key = *queue.begin();
    queue.erase(queue.begin());
    Task& task = tasks_.at(key);
    task.reporting = true;
    reports.push_back({key, task.token, task.exit});
  }
  return reports;
}

void WorkBook::CountEnd(Key key, TaskEnd end) {
  switch (end) {
    case TaskEnd::kCompleted:
      ++summary_.completed;
      break;
    case TaskEnd::kFailed:
      ++summary_.failed;
      break;
    case TaskEnd::kReleased:
      ++summary_.released;
      break;
    case TaskEnd::kLeaseLost:
      ++summary_.lease_lost;
      break;
    case TaskEnd::kUnconfirmed:
      ++summary_.unconfirmed;
      break;
    case TaskEnd::kUnreported:
      ++summary_.unreported;
      break;
  }
  ends_.emplace_back(key, end);
}

void WorkBook::OnReportAnswer(Key key, ItemAnswer answer) {
  const auto found = tasks_.find(key);
  if (found == tasks_.end() || !found->second.reporting) return;
  Task& task = found->second;
  switch (answer) {
    case ItemAnswer::kOk:
      CountEnd(key, EndOf(task.settle));
      tasks_.erase(found);
      break;
    case ItemAnswer::kLeaseLost:
      CountEnd(key, task.uncertain ? TaskEnd::kUnconfirmed : TaskEnd::kLeaseLost);
      tasks_.erase(found);
      break;
    case ItemAnswer::kRefused:
      CountEnd(key, TaskEnd::kUnreported);
      tasks_.erase(found);
      break;
    case ItemAnswer::kUncertain:
      task.uncertain = true;
      QueueReport(key, task, task.settle);
      break;
    case ItemAnswer::kNotDone:
      QueueReport(key, task, task.settle);
      break;
  }
}

void WorkBook::PlanGiveUp(Instant now) {
  if (stop_ && running_ == 0 && give_up_at_ == Instant::Max())
    give_up_at_ = now + options_.report_wait;
}

void WorkBook::Stop(bool at_once, Instant now) {
  stop_ = true;
  grace_end_ = std::min(grace_end_, at_once ? now : now + options_.grace);
  if (at_once) {
    kill_wait_ = Duration::zero();
    for (auto& [key, task] : tasks_) {
      if (task.phase == Phase::kKilling) task.kill_at = std::min(task.kill_at, now);
    }
  }
  PlanGiveUp(now);
}

void WorkBook::GiveUpReports() {
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    if (it->second.phase == Phase::kSettling) {
      const bool maybe = it->second.uncertain || it->second.reporting;
      CountEnd(it->first, maybe ? TaskEnd::kUnconfirmed : TaskEnd::kUnreported);
      queues_[static_cast<int>(it->second.settle)].erase(it->first);
      it = tasks_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace millrace::cli
