#include "millrace/exec/strand.h"

#include <utility>

#include "millrace/base/check.h"

namespace millrace::exec {
namespace {

constexpr int kClosuresPerTurnMax = 256;

thread_local const void* current_strand = nullptr;

class StrandScope {
 public:
  explicit StrandScope(const void* strand) : previous_(current_strand) { current_strand = strand; }
  ~StrandScope() { current_strand = previous_; }
  StrandScope(const StrandScope&) = delete;
  StrandScope& operator=(const StrandScope&) = delete;

 private:
  const void* previous_;
};

}  // namespace

struct Strand::State {
  explicit State(Executor& executor) : home(executor) {}

  Executor& home;
  Mutex mutex;
  std::vector<Closure> waiting MR_GUARDED_BY(mutex);
  bool scheduled MR_GUARDED_BY(mutex) = false;

  // Touched only by the one Drain that `scheduled` allows.
  std::vector<Closure> running;
  std::size_t next = 0;
};

Strand::Strand(Executor& home) : state_(std::make_shared<State>(home)) {}

Strand::~Strand() = default;

void Strand::Post(Closure closure) { Push(state_, std::move(closure)); }

void Strand::Push(const std::shared_ptr<State>& state, Closure closure) {
  {
    MutexLock lock(state->mutex);
    state->waiting.push_back(std::move(closure));
    if (state->scheduled) return;
    state->scheduled = true;
  }
  Executor* current = Executor::Current();
  Executor& target = current != nullptr ? *current : state->home;
  target.Post([state] { Drain(state); });
}

void Strand::Drain(const std::shared_ptr<State>& state) {
  StrandScope scope(state.get());
  for (int done = 0; done < kClosuresPerTurnMax; ++done) {
    if (state->next == state->running.size()) {
      state->running.clear();
      state->next = 0;
      MutexLock lock(state->mutex);
      if (state->waiting.empty()) {
        // Idle strands keep no memory: there may be a great many of them.
        std::vector<Closure>().swap(state->running);
        std::vector<Closure>().swap(state->waiting);
        state->scheduled = false;
        return;
      }
      state->running.swap(state->waiting);
    }
    // Moved out first, so that what it holds (a gate, for one) is free before the next one runs.
    Closure closure = std::move(state->running[state->next++]);
    closure();
  }
  state->home.Post([state] { Drain(state); });
}

bool Strand::IsCurrent() const { return current_strand == state_.get(); }

void Strand::AssertCurrent() const { MR_CHECK(IsCurrent()); }

Executor& Strand::home() const { return state_->home; }

StrandTimer::StrandTimer(Strand& strand) : strand_(strand) {}

StrandTimer::~StrandTimer() { Cancel(); }

void StrandTimer::Arm(Instant when, Closure closure) {
  Cancel();
  when_ = when;
  cell_ = std::make_shared<Cell>(Cell{this, std::move(closure)});
  id_ = strand_.home().PostAt(when, [cell = cell_, state = strand_.state_]() mutable {
    Strand::Push(state, [cell = std::move(cell)] {
      if (cell->timer == nullptr) return;
      cell->timer->cell_ = nullptr;
      Closure run = std::move(cell->closure);
      run();
    });
  });
}

void StrandTimer::Cancel() {
  if (cell_ == nullptr) return;
  cell_->timer = nullptr;
  cell_->closure = nullptr;
  cell_ = nullptr;
  strand_.home().CancelTimer(id_);
}

}  // namespace millrace::exec
