#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "millrace/base/function.h"
#include "millrace/exec/executor.h"

namespace millrace::exec {

// One thread that waits on file descriptors (epoll, level triggered), timers and posted closures.
//
// Thread: Executor's methods from any thread; Watch, Change and Unwatch on the loop's own thread
// only. Bounds: closures and timers as posted; one wake-up of the thread serves all posts made
// while it slept. Invariants: a closure never blocks. Closures posted from the loop's own thread
// cost no lock and no system call. After a wake-up: ready descriptors, due timers, posted closures,
// then the flush closures; so that many replies to one connection leave in one write.
class EventLoop : public Executor {
 public:
  // Bits of the events argument: what epoll calls EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR,
  // EPOLLHUP.
  using FdHandler = UniqueFunction<void(std::uint32_t events)>;
  using WatchId = std::uint64_t;

  // Starts the thread. `name` shows in debuggers; at most 15 bytes.
  static std::unique_ptr<EventLoop> Create(const std::string& name, const Clock& clock);
  // Runs what is posted already, then ends the thread. Timers left are destroyed unrun.
  ~EventLoop() override = default;

  [[nodiscard]] virtual bool InLoopThread() const = 0;

  virtual WatchId Watch(int fd, std::uint32_t events, FdHandler handler) = 0;
  virtual void Change(WatchId watch, std::uint32_t events) = 0;
  // The handler is destroyed; it never runs again, even when this is called from inside it.
  virtual void Unwatch(WatchId watch) = 0;

  // Runs `closure` once at the end of the current wake-up, just before the loop would sleep. Loop
  // thread only.
  virtual void PostFlush(Closure closure) = 0;
};

}  // namespace millrace::exec
