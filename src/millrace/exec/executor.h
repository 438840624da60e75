#pragma once

#include <cstdint>

#include "millrace/base/function.h"
#include "millrace/base/time.h"

namespace millrace::exec {

// Names a pending timer of one executor; 0 = none. Never reused within a process.
using TimerId = std::uint64_t;

// Runs closures, each to completion, one at a time, never inside the call that hands them over.
//
// Thread: every method from any thread.
// Bounds: none of its own; whoever posts per request bounds the requests.
class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `closure` soon. Closures posted from one thread run in the order they were posted.
  virtual void Post(Closure closure) = 0;

  // Runs `closure` at `when` or soon after, never before. A time in the past is now.
  virtual TimerId PostAt(Instant when, Closure closure) = 0;

  // True when the timer had not been handed over for running yet; its closure is destroyed unrun
  // then.
  virtual bool CancelTimer(TimerId timer) = 0;

  [[nodiscard]] virtual const Clock& clock() const = 0;

  // The executor whose closure the calling thread is running, or null. Work that is not bound to a
  // place goes there, since a hand-off to another thread costs more than most closures do.
  static Executor* Current();

 protected:
  // Implementations hold one of these while they run closures.
  class CurrentScope {
   public:
    explicit CurrentScope(Executor* executor);
    ~CurrentScope();
    CurrentScope(const CurrentScope&) = delete;
    CurrentScope& operator=(const CurrentScope&) = delete;

   private:
    Executor* previous_;
  };
};

}  // namespace millrace::exec
