#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/base/check.h"
#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/base/mutation.h"
#include "millrace/base/mutex.h"
#include "millrace/base/time.h"
#include "millrace/exec/executor.h"
#include "millrace/store/types.h"

namespace millrace::matching {

// The loaded queues of a process: loads one on demand, unloads it when it asks for that or has been
// idle.
//
// A new instance of a queue starts only after the old one has stopped, so the two never fight over
// the range id. A signal from an old instance never unloads a newer one.
//
// Queue is made by the factory as a shared_ptr and has
//   void Start(UniqueFunction<void(backlog::UnloadCause, const Status&)> on_unload);
//   void Stop(Closure done);             // Once; done from any thread.
//   void UnloadIfIdle(Instant before);   // Any thread.
//   Instant last_used() const;           // Any thread, cheap.
//
// Thread: any. Bounds: as many queues as are in use; idle ones go. Destroy only after StopAll is
// done.
template <typename Queue>
class Registry {
 public:
  using Factory = UniqueFunction<std::shared_ptr<Queue>(const store::PhysicalQueueKey&)>;

  // `home` runs the idle sweep: one timer for all queues, and only while any is loaded.
  Registry(Factory factory, exec::Executor& home, Duration idle_unload, Log& log)
      : factory_(std::move(factory)), home_(home), idle_unload_(idle_unload), log_(log) {}

  // Null after StopAll has begun, and when the factory makes none.
  std::shared_ptr<Queue> GetOrLoad(const store::PhysicalQueueKey& key) {
    std::shared_ptr<Queue> created;
    {
      MutexLock lock(mutex_);
      Entry& entry = entries_[key];
      if (entry.running != nullptr) return entry.running;
      if (stopping_) {
        if (entry.stopping.empty()) entries_.erase(key);
        return nullptr;
      }
      entry.running = factory_(key);
      if (entry.running == nullptr) {
        if (entry.stopping.empty()) entries_.erase(key);
        return nullptr;
      }
      created = entry.running;
      ArmSweep();
      if (!entry.stopping.empty()) return created;  // Started when the old one is gone.
    }
    StartInstance(created, key);
    return created;
  }

  // Null when it is not loaded.
  std::shared_ptr<Queue> Find(const store::PhysicalQueueKey& key) {
    MutexLock lock(mutex_);
    const auto it = entries_.find(key);
    return it == entries_.end() ? nullptr : it->second.running;
  }

  std::vector<std::shared_ptr<Queue>> Loaded() {
    MutexLock lock(mutex_);
    std::vector<std::shared_ptr<Queue>> queues;
    queues.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) {
      if (entry.running != nullptr) queues.push_back(entry.running);
    }
    return queues;
  }

  // Unloads the queues for which `gone` holds. `done` runs once, when none of those that were there
  // is any more, on the thread of the last one to stop, or here. The factory must refuse them from
  // before this call on, or they may be loaded again at once.
  void UnloadIf(const std::function<bool(const store::PhysicalQueueKey&)>& gone,
                backlog::UnloadCause cause, Closure done) {
    std::vector<std::pair<store::PhysicalQueueKey, std::shared_ptr<Queue>>> queues;
    {
      MutexLock lock(mutex_);
      auto waiter = std::make_unique<Waiter>();
      for (auto& [key, entry] : entries_) {
        if (!gone(key)) continue;
        waiter->left.insert(key);
        if (entry.running != nullptr) queues.emplace_back(key, entry.running);
      }
      if (!waiter->left.empty()) {
        waiter->done = std::move(done);
        waiters_.push_back(std::move(waiter));
      }
    }
    for (auto& [key, queue] : queues) Unload(key, queue, cause, OkStatus());
    if (done) done();
  }

  // Unloads every queue and loads no more. `done` runs once, on the thread of the last one to stop,
  // or here.
  void StopAll(Closure done) {
    std::vector<std::pair<store::PhysicalQueueKey, std::shared_ptr<Queue>>> queues;
    {
      MutexLock lock(mutex_);
      MR_CHECK(!stopping_);
      stopping_ = true;
      if (sweep_timer_ != 0) home_.CancelTimer(sweep_timer_);
      if (!entries_.empty()) {
        all_stopped_ = std::move(done);
        for (auto& [key, entry] : entries_) {
          if (entry.running != nullptr) queues.emplace_back(key, entry.running);
        }
      }
    }
    for (auto& [key, queue] : queues)
      Unload(key, queue, backlog::UnloadCause::kShuttingDown, OkStatus());
    if (done) done();
  }

  [[nodiscard]] std::size_t size() {
    MutexLock lock(mutex_);
    return entries_.size();
  }

 private:
  // Somebody who wants to know when queues are gone.
  struct Waiter {
    std::set<store::PhysicalQueueKey> left;
    Closure done;
  };
  struct Entry {
    std::shared_ptr<Queue> running;  // Takes calls; started once nothing before it is stopping.
    std::vector<std::shared_ptr<Queue>> stopping;  // Instances on their way out.
  };

  void StartInstance(const std::shared_ptr<Queue>& queue, const store::PhysicalQueueKey& key) {
    queue->Start([this, weak = std::weak_ptr<Queue>(queue), key](backlog::UnloadCause cause,
                                                                 const Status& status) {
      if (std::shared_ptr<Queue> instance = weak.lock()) Unload(key, instance, cause, status);
    });
  }

  void Unload(const store::PhysicalQueueKey& key, const std::shared_ptr<Queue>& instance,
              backlog::UnloadCause cause, const Status& status) {
    {
      MutexLock lock(mutex_);
      const auto it = entries_.find(key);
      if (it == entries_.end() || it->second.running == nullptr) return;
      if (it->second.running != instance && !MR_MUTANT(stale_signal_unloads_newer)) return;
      it->second.running = nullptr;
      it->second.stopping.push_back(instance);
    }
    const bool routine = cause == backlog::UnloadCause::kIdle ||
                         cause == backlog::UnloadCause::kForced ||
                         cause == backlog::UnloadCause::kShuttingDown;
    const LogLevel level = routine ? LogLevel::kDebug : LogLevel::kWarn;
    if (log_.Enabled(level)) {
      const std::string why = status.ok() ? std::string() : status.ToString();
      log_.Write(level, "matching", "unloading a queue",
                 {{"queue", std::string_view(key.persistence_name)},
                  {"cause", backlog::UnloadCauseName(cause)},
                  {"error", std::string_view(why)}});
    }
    instance->Stop([this, key, instance] { OnStopped(key, instance); });
  }

  void OnStopped(const store::PhysicalQueueKey& key, const std::shared_ptr<Queue>& instance) {
    std::shared_ptr<Queue> next;
    Closure all_stopped;
    std::vector<std::unique_ptr<Waiter>> answered;
    {
      MutexLock lock(mutex_);
      const auto it = entries_.find(key);
      MR_CHECK(it != entries_.end() && std::erase(it->second.stopping, instance) == 1);
      if (!it->second.stopping.empty()) return;
      next = it->second.running;
      if (next == nullptr) {
        entries_.erase(it);
        if (entries_.empty()) all_stopped = std::move(all_stopped_);
      }
      for (std::unique_ptr<Waiter>& waiter : waiters_) {
        if (waiter->left.erase(key) == 1 && waiter->left.empty()) {
          answered.push_back(std::move(waiter));
        }
      }
      std::erase(waiters_, nullptr);
    }
    if (next != nullptr) StartInstance(next, key);
    for (const std::unique_ptr<Waiter>& waiter : answered) waiter->done();
    if (all_stopped) all_stopped();
  }

  void ArmSweep() MR_REQUIRES(mutex_) {
    if (sweep_timer_ != 0 || stopping_) return;
    sweep_timer_ = home_.PostAt(home_.clock().Now() + idle_unload_ / 4, [this] { Sweep(); });
  }

  void Sweep() {
    const Instant before = home_.clock().Now() - idle_unload_;
    for (const std::shared_ptr<Queue>& queue : Loaded()) {
      if (queue->last_used() <= before) queue->UnloadIfIdle(before);
    }
    MutexLock lock(mutex_);
    sweep_timer_ = 0;
    if (!entries_.empty()) ArmSweep();
  }

  Mutex mutex_;
  Factory factory_ MR_GUARDED_BY(mutex_);
  std::map<store::PhysicalQueueKey, Entry> entries_ MR_GUARDED_BY(mutex_);
  exec::TimerId sweep_timer_ MR_GUARDED_BY(mutex_) = 0;
  bool stopping_ MR_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Waiter>> waiters_ MR_GUARDED_BY(mutex_);
  Closure all_stopped_ MR_GUARDED_BY(mutex_);

  exec::Executor& home_;
  const Duration idle_unload_;
  Log& log_;
};

}  // namespace millrace::matching
