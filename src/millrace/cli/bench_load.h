#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/cli/latency_histogram.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/v1/queue.pb.h"

namespace millrace::cli {

// Load of many callers on one event loop. Each caller has one call in flight and goes on as soon as
// it is answered.
//
//   kEnqueue  a batch of new tasks, again and again
//   kCycle    a batch of new tasks, then lease and complete as many, so that the backlog stays
//   below callers * batch kDrain    lease and complete, until the queues are empty
//
// With at least as many queues as callers each caller has queues of its own, and goes round;
// otherwise they share.
//
// Thread: the loop's, construction apart. Destroy after `on_end`, or before Start.
// Bounds: `callers` calls.
// Fails: a failed call is counted by its code and made again after 10 ms.
class BenchLoad {
 public:
  enum class Mode { kEnqueue, kCycle, kDrain };
  enum Operation { kEnqueueCall, kLeaseCall, kCompleteCall, kWholeCycle, kOperations };

  struct Options {
    Mode mode = Mode::kCycle;
    int callers = 64;
    int batch = 1;
    int queues = 1;
    std::string queue_prefix = "bench/";
    std::size_t payload_bytes = 256;
    std::int64_t tasks_max = 0;  // 0 = until Stop.
    Duration call_timeout = std::chrono::seconds(30);
  };

  struct Counts {
    std::int64_t enqueued = 0;
    std::int64_t completed = 0;
    std::int64_t calls = 0;
    std::map<std::string, std::int64_t> errors;  // By code or reason.

    [[nodiscard]] std::int64_t tasks(Mode mode) const {
      return mode == Mode::kEnqueue ? enqueued : completed;
    }
  };

  // All must outlive the load.
  BenchLoad(exec::EventLoop& loop, rpc::Channel& channel, const Options& options, Closure on_end);

  void Start();
  // Callers end when their present round is over.
  void Stop() { stopping_ = true; }

  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const LatencyHistogram& latency(Operation operation) const {
    return latency_[operation];
  }
  void ClearLatencies();

 private:
  struct Caller {
    int queue = 0;
    int owed = 0;  // Tasks it enqueued and has not yet taken out again.
    int empty_queues = 0;
    Instant round_begun;
    Instant call_begun;
    v1::CompleteRequest complete;
  };

  void BeginRound(Caller& caller);
  void EndRound(Caller& caller);
  void Enqueue(Caller& caller);
  void Lease(Caller& caller);
  void OnLeased(Caller& caller, const std::string& response);
  void Complete(Caller& caller);
  // Makes the call; `done` gets the response when it is ok, else `again` is called after a pause.
  template <typename Done>
  void Call(Caller& caller, Operation operation, std::string_view method, std::string request,
            void (BenchLoad::*again)(Caller&), Done done);
  void CountError(const std::string& name) { ++counts_.errors[name]; }
  [[nodiscard]] bool TakeQuota();

  exec::EventLoop& loop_;
  rpc::Channel& channel_;
  const Options options_;
  Closure on_end_;
  std::vector<Caller> callers_;
  int running_ = 0;
  bool stopping_ = false;
  std::int64_t quota_left_ = 0;
  std::vector<std::string> queue_names_;
  std::string tasks_bytes_;  // A batch of tasks, serialized once: messages may be concatenated.
  v1::EnqueueResponse enqueue_response_;
  v1::LeaseRequest lease_request_;
  v1::LeaseResponse lease_response_;
  v1::CompleteResponse complete_response_;
  Counts counts_;
  std::array<LatencyHistogram, kOperations> latency_;
};

}  // namespace millrace::cli
