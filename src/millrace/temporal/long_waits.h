#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "millrace/base/function.h"
#include "millrace/base/time.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/rpc/service.h"

namespace millrace::temporal {

// Calls that wait for news which this server never has: each gets its answer when its time is up.
//
// Thread: any; destroyed after Stop is done.
// Bounds: `max` calls; one more is answered at once.
class LongWaits {
 public:
  LongWaits(exec::Executor& home, std::size_t max);
  ~LongWaits();
  LongWaits(const LongWaits&) = delete;
  LongWaits& operator=(const LongWaits&) = delete;

  void Add(std::unique_ptr<rpc::ServerCall> call, Instant until, std::string response);
  // Answers all, and later ones at once. `done` runs on an executor thread.
  void Stop(Closure done);

 private:
  struct Waiting {
    std::unique_ptr<rpc::ServerCall> call;
    Instant until;
    std::string response;
  };

  void End(std::map<std::uint64_t, Waiting>::iterator it);
  void OnTimer();
  void Arm();

  const std::size_t max_;
  exec::Strand strand_;
  exec::Gate gate_;
  exec::StrandTimer timer_;
  bool stopped_ MR_GUARDED_BY(strand_) = false;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Waiting> waiting_ MR_GUARDED_BY(strand_);
  std::set<std::pair<Instant, std::uint64_t>> by_time_ MR_GUARDED_BY(strand_);
};

}  // namespace millrace::temporal
