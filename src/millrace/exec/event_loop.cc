#include "millrace/exec/event_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/base/annotations.h"
#include "millrace/base/check.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/timer_heap.h"

namespace millrace::exec {
namespace {

thread_local const EventLoop* running_loop = nullptr;

constexpr std::uint64_t kWakeToken = 0;  // Watch ids start at generation 1, so none is 0.
constexpr int kEventsPerWait = 256;
// After this many posted closures the loop looks at its descriptors and timers again.
constexpr int kClosuresPerWakeUp = 4096;

// The epoll implementation.
//
// Thread: state without a guard belongs to the loop's thread.
// Invariants: asleep_ is true only while the thread is in, or about to enter, epoll_wait with
// nothing to run; whoever turns it false writes the eventfd, so there is at most one such write per
// sleep.
class EpollLoop final : public EventLoop {
 public:
  EpollLoop(const std::string& name, const Clock& clock) : clock_(clock) {
    epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    MR_CHECK(epoll_fd_ >= 0);
    wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    MR_CHECK(wake_fd_ >= 0);
    epoll_event event{};
    // Edge triggered: each write is news once, and the counter need never be read.
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = kWakeToken;
    MR_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &event) == 0);
    thread_ = std::thread([this] { Run(); });
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  }

  ~EpollLoop() override {
    MR_CHECK(!InLoopThread());
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      Wake();
    }
    thread_.join();
    close(wake_fd_);
    close(epoll_fd_);
  }

  [[nodiscard]] bool InLoopThread() const override { return running_loop == this; }
  [[nodiscard]] const Clock& clock() const override { return clock_; }

  void Post(Closure closure) override {
    if (InLoopThread()) {
      ready_.push_back(std::move(closure));
      return;
    }
    MutexLock lock(mutex_);
    inbox_.push_back(std::move(closure));
    Wake();
  }

  TimerId PostAt(Instant when, Closure closure) override {
    MutexLock lock(mutex_);
    const bool earliest = when < timers_.NextDue();
    const TimerId id = timers_.Arm(when, std::move(closure));
    if (earliest) Wake();
    return id;
  }

  bool CancelTimer(TimerId timer) override {
    Closure closure;  // Destroyed after the lock is let go.
    {
      MutexLock lock(mutex_);
      closure = timers_.Cancel(timer);
    }
    return static_cast<bool>(closure);
  }

  WatchId Watch(int fd, std::uint32_t events, FdHandler handler) override {
    MR_CHECK(InLoopThread());
    std::uint32_t index;
    if (free_watches_.empty()) {
      index = static_cast<std::uint32_t>(watches_.size());
      watches_.emplace_back();
    } else {
      index = free_watches_.back();
      free_watches_.pop_back();
    }
    WatchSlot& slot = watches_[index];
    slot.fd = fd;
    slot.handler = std::move(handler);
    const WatchId id = (std::uint64_t{slot.generation} << 32) | index;
    Control(EPOLL_CTL_ADD, id, fd, events);
    return id;
  }

  void Change(WatchId watch, std::uint32_t events) override {
    MR_CHECK(InLoopThread());
    const WatchSlot* slot = Find(watch);
    MR_CHECK(slot != nullptr);
    Control(EPOLL_CTL_MOD, watch, slot->fd, events);
  }

  void Unwatch(WatchId watch) override {
    MR_CHECK(InLoopThread());
    WatchSlot* slot = Find(watch);
    MR_CHECK(slot != nullptr);
    epoll_event unused{};
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, slot->fd, &unused);
    slot->fd = -1;
    ++slot->generation;
    if (!slot->running) FreeWatch(static_cast<std::uint32_t>(watch));
  }

  void PostFlush(Closure closure) override {
    MR_CHECK(InLoopThread());
    flushes_.push_back(std::move(closure));
  }

 private:
  struct WatchSlot {
    int fd = -1;
    std::uint32_t generation = 1;
    bool running = false;
    FdHandler handler;
  };

  void Wake() MR_REQUIRES(mutex_) {
    if (!asleep_) return;
    asleep_ = false;
    const std::uint64_t one = 1;
    const ssize_t written = write(wake_fd_, &one, sizeof(one));
    MR_CHECK(written == sizeof(one));
  }

  void Control(int op, WatchId id, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    MR_CHECK(epoll_ctl(epoll_fd_, op, fd, &event) == 0);
  }

  WatchSlot* Find(WatchId id) {
    const auto index = static_cast<std::uint32_t>(id);
    if (index >= watches_.size()) return nullptr;
    WatchSlot& slot = watches_[index];
    return slot.fd >= 0 && slot.generation == id >> 32 ? &slot : nullptr;
  }

  void FreeWatch(std::uint32_t index) {
    FdHandler doomed = std::move(watches_[index].handler);
    free_watches_.push_back(index);
  }

  void RunHandler(WatchId id, std::uint32_t events) {
    WatchSlot* slot = Find(id);
    // Unwatched by an earlier handler of the same batch.
    if (slot == nullptr) return;
    slot->running = true;
    slot->handler(events);
    slot->running = false;
    // The generation of a slot unwatched inside its handler has moved on; the slot was kept for the
    // handler's sake.
    if (slot->generation != id >> 32) FreeWatch(static_cast<std::uint32_t>(id));
  }

  void Run() {
    running_loop = this;
    {
      CurrentScope scope(this);
      bool stop = false;
      while (!stop) {
        const int timeout_ms = PrepareWait(&stop);
        if (!stop) HandleEvents(timeout_ms);
        RunTimers();
        RunReady();
        RunFlushes();
      }
      Discard();
    }
    running_loop = nullptr;
  }

  // Decides how long to sleep, and takes what other threads have posted. Sets *stop once there is
  // nothing left to run and the destructor waits.
  int PrepareWait(bool* stop) {
    MutexLock lock(mutex_);
    TakeInbox();
    if (!ready_.empty() || next_ < running_.size() || !flushes_.empty()) return 0;
    if (stopping_) {
      *stop = true;
      return 0;
    }
    const Instant due = timers_.NextDue();
    int timeout_ms = -1;
    if (due != Instant::Max()) {
      const Duration left = due - clock_.Now();
      if (left <= Duration::zero()) return 0;
      const std::int64_t ms = (left.count() + 999'999) / 1'000'000;
      timeout_ms = static_cast<int>(std::min<std::int64_t>(ms, std::numeric_limits<int>::max()));
    }
    asleep_ = true;
    return timeout_ms;
  }

  void HandleEvents(int timeout_ms) {
    std::array<epoll_event, kEventsPerWait> events;
    const int count = epoll_wait(epoll_fd_, events.data(), kEventsPerWait, timeout_ms);
    MR_CHECK(count >= 0 || errno == EINTR);
    if (timeout_ms != 0) {
      MutexLock lock(mutex_);
      asleep_ = false;
      TakeInbox();
    }
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 != kWakeToken) RunHandler(events[i].data.u64, events[i].events);
    }
  }

  void TakeInbox() MR_REQUIRES(mutex_) {
    for (Closure& closure : inbox_) ready_.push_back(std::move(closure));
    inbox_.clear();
  }

  // One at a time, so that a timer cancelled by an earlier one of the same wake-up does not run.
  void RunTimers() {
    Instant now;
    {
      MutexLock lock(mutex_);
      if (timers_.NextDue() == Instant::Max()) return;
      now = clock_.Now();
    }
    for (;;) {
      Closure closure;
      {
        MutexLock lock(mutex_);
        closure = timers_.PopDue(now);
      }
      if (!closure) return;
      closure();
    }
  }

  void RunReady() {
    for (int n = 0; n < kClosuresPerWakeUp; ++n) {
      if (next_ == running_.size()) {
        running_.clear();
        next_ = 0;
        if (ready_.empty()) return;
        running_.swap(ready_);
      }
      Closure closure = std::move(running_[next_++]);
      closure();
    }
  }

  void RunFlushes() {
    running_flushes_.swap(flushes_);
    for (Closure& flush : running_flushes_) flush();
    running_flushes_.clear();
  }

  // Destroys timers and handlers on this thread, where what they capture belongs.
  void Discard() {
    for (;;) {
      Closure closure;
      {
        MutexLock lock(mutex_);
        closure = timers_.PopAny();
      }
      if (!closure) break;
    }
    for (WatchSlot& slot : watches_) slot.handler = nullptr;
    RunReady();
  }

  const Clock& clock_;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;

  // Closures run in the order of running_ from next_ on, then ready_; two vectors that swap
  // allocate nothing in steady state.
  std::vector<Closure> ready_;
  std::vector<Closure> running_;
  std::size_t next_ = 0;
  std::vector<Closure> flushes_;
  std::vector<Closure> running_flushes_;
  std::deque<WatchSlot>
      watches_;  // A deque, because handlers add watches while their own slot is in use.
  std::vector<std::uint32_t> free_watches_;

  Mutex mutex_;
  std::vector<Closure> inbox_ MR_GUARDED_BY(mutex_);
  TimerHeap timers_ MR_GUARDED_BY(mutex_);
  bool asleep_ MR_GUARDED_BY(mutex_) = false;
  bool stopping_ MR_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace

std::unique_ptr<EventLoop> EventLoop::Create(const std::string& name, const Clock& clock) {
  return std::make_unique<EpollLoop>(name, clock);
}

}  // namespace millrace::exec
