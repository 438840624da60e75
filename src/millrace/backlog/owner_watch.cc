#include "millrace/backlog/owner_watch.h"

#include <map>
#include <utility>
#include <vector>

#include "millrace/base/mutation.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/strand.h"

namespace millrace::backlog {

struct OwnerWatch::Entry {
  store::PhysicalQueueKey queue;
  std::atomic<std::int64_t> range_id;
  Notify notify;
};

// Lives as long as the watch, a watched queue, or a question in flight.
struct OwnerWatch::State : std::enable_shared_from_this<State> {
  struct Asked {
    std::uint64_t number;
    RangeId range_id;
  };

  State(store::AsyncTaskStore& to_ask, exec::Executor& executor, Duration every)
      : store(to_ask), home(executor), interval(every), strand(executor) {}

  void Arm() MR_REQUIRES(mutex) {
    if (timer != 0 || closed || entries.empty()) return;
    timer = home.PostAt(home.clock().Now() + interval, [weak = weak_from_this()] {
      if (const std::shared_ptr<State> state = weak.lock()) state->Ask();
    });
  }

  void Disarm() MR_REQUIRES(mutex) {
    if (timer != 0) home.CancelTimer(timer);
    timer = 0;
  }

  void Ask() {
    std::vector<std::vector<store::PhysicalQueueKey>> questions;
    std::vector<std::vector<Asked>> asked;
    {
      MutexLock lock(mutex);
      timer = 0;
      Arm();
      if (closed || in_flight > 0 || MR_MUTANT(idle_owner_never_checks)) return;
      for (const auto& [number, entry] : entries) {
        if (questions.empty() || questions.back().size() == store::kRangeIdsMax) {
          questions.emplace_back();
          asked.emplace_back();
        }
        questions.back().push_back(entry->queue);
        asked.back().push_back({number, RangeId{entry->range_id.load()}});
      }
      in_flight = questions.size();
    }
    for (std::size_t i = 0; i < questions.size(); ++i) {
      store.ReadRangeIds(
          std::move(questions[i]), strand,
          [self = shared_from_this(), about = std::move(asked[i])](
              const std::vector<Result<RangeId>>& found) { self->OnAnswer(about, found); });
    }
  }

  void OnAnswer(const std::vector<Asked>& about, const std::vector<Result<RangeId>>& found) {
    MutexLock lock(mutex);
    --in_flight;
    for (std::size_t i = 0; i < about.size(); ++i) {
      const bool gone = found[i].code() == StatusCode::kNotFound;
      if (!found[i].ok() && !gone) continue;
      const RangeId stored = gone ? RangeId{0} : *found[i];
      const auto it = entries.find(about[i].number);
      if (it == entries.end() || stored == about[i].range_id) continue;
      it->second->notify(about[i].range_id, stored);
    }
  }

  store::AsyncTaskStore& store;
  exec::Executor& home;
  const Duration interval;
  exec::Strand strand;

  Mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries MR_GUARDED_BY(mutex);
  std::uint64_t last_number MR_GUARDED_BY(mutex) = 0;
  exec::TimerId timer MR_GUARDED_BY(mutex) = 0;
  std::size_t in_flight MR_GUARDED_BY(mutex) = 0;
  bool closed MR_GUARDED_BY(mutex) = false;
};

OwnerWatch::OwnerWatch(store::AsyncTaskStore& store, exec::Executor& home, Duration interval)
    : state_(std::make_shared<State>(store, home, interval)) {}

OwnerWatch::~OwnerWatch() {
  MutexLock lock(state_->mutex);
  state_->closed = true;
  state_->Disarm();
}

std::unique_ptr<OwnerWatch::Watched> OwnerWatch::Watch(const store::PhysicalQueueKey& queue,
                                                       RangeId ours, Notify notify) {
  auto entry = std::make_shared<Entry>();
  entry->queue = queue;
  entry->range_id.store(ours.value);
  entry->notify = std::move(notify);
  MutexLock lock(state_->mutex);
  const std::uint64_t number = ++state_->last_number;
  state_->entries.emplace(number, entry);
  state_->Arm();
  return std::unique_ptr<Watched>(new Watched(state_, number, std::move(entry)));
}

OwnerWatch::Watched::Watched(std::shared_ptr<State> state, std::uint64_t number,
                             std::shared_ptr<Entry> entry)
    : state_(std::move(state)), number_(number), entry_(std::move(entry)) {}

OwnerWatch::Watched::~Watched() {
  MutexLock lock(state_->mutex);
  state_->entries.erase(number_);
  if (state_->entries.empty()) state_->Disarm();
}

void OwnerWatch::Watched::SetRangeId(RangeId ours) { entry_->range_id.store(ours.value); }

}  // namespace millrace::backlog
