#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/base/annotations.h"
#include "millrace/base/mutex.h"
#include "millrace/base/random.h"
#include "millrace/cli/backoff.h"
#include "millrace/cli/call_error.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/v1/queue.pb.h"

namespace millrace::cli {

// A record that the server will not take, whatever is tried.
struct RefusedRecord {
  std::int64_t record = 0;  // From 1, in the order of submission.
  std::string message;
  std::string reason;
};

struct EnqueueTotals {
  std::int64_t stored = 0;
  std::int64_t refused = 0;
  std::vector<RefusedRecord> first_refused;  // At most kRefusedKept.
  // Batches sent again although an earlier try may have stored them, so that tasks may be there
  // twice.
  std::int64_t uncertain_batches = 0;
  bool waiting = false;  // For the server, at this moment.
};

// Sends batches of new tasks, several at a time, again and again until the server answered for each
// task.
//
// Thread: Submit and Finish on one thread that is not the loop's; Abandon and totals from any.
// Bounds: `parallel` batches; Submit waits for a free place.
// Fails: with the error that ended it; batches in flight then end, nothing new is sent. A batch is
// given up when it was tried for `retry_for` (until the first task of all is stored: for
// `first_retry_for`). Invariants: task ids come in the order of submission, whatever order the
// answers have.
class Enqueuer {
 public:
  static constexpr std::size_t kRefusedKept = 10;

  struct Options {
    int parallel = 1;
    bool retry = true;
    bool keep_ids = false;
    Duration call_timeout = std::chrono::seconds(10);
    Duration first_retry_for = std::chrono::seconds(10);
    Duration retry_for = std::chrono::minutes(5);
  };

  // All must outlive the enqueuer.
  Enqueuer(exec::EventLoop& loop, rpc::Channel& channel, Random& random, Options options);
  // Waits for what is in flight.
  ~Enqueuer();

  // False when the run is over: failed or abandoned. `request` holds at least one task.
  bool Submit(v1::EnqueueRequest request);
  // Waits until `until`, or earlier until everything submitted is answered or the run is over.
  // True: all done.
  bool Finish(Instant until);
  // No new batch and no further try.
  void Abandon();

  // Waits at most until `until` for room for a batch. True: Submit will not wait.
  bool WaitForRoom(Instant until);

  [[nodiscard]] EnqueueTotals totals() const;
  [[nodiscard]] std::optional<CallError> error() const;
  // In order, without gaps, and each only once. With keep_ids only.
  std::vector<std::string> TakeIds();

 private:
  struct Batch {
    std::int64_t number = 0;
    std::int64_t first_record = 0;
    v1::EnqueueRequest request{};          // What is still to store.
    std::vector<std::size_t> positions{};  // Of its tasks within the batch as submitted.
    std::vector<std::string> ids{};        // By position; empty = refused.
    Instant begun{};
    bool uncertain = false;
    Backoff backoff;
  };

  void Send(std::shared_ptr<Batch> batch);
  void OnAnswer(std::shared_ptr<Batch> batch, rpc::CallResult result);
  // Takes the answered tasks out of the batch. Returns the error that is worth a retry of the rest,
  // if any.
  std::optional<CallError> TakeResults(Batch& batch, const v1::EnqueueResponse& response)
      MR_REQUIRES(mutex_);
  void Retry(std::shared_ptr<Batch> batch, const CallError& error) MR_REQUIRES(mutex_);
  void EndBatch(const Batch& batch) MR_REQUIRES(mutex_);
  [[nodiscard]] bool Over() const MR_REQUIRES(mutex_) { return abandoned_ || error_.has_value(); }
  [[nodiscard]] Instant Now() const { return loop_.clock().Now(); }
  // Waits for a change, no longer than `until`. False: the time is over.
  bool WaitForChange(Instant until) MR_REQUIRES(mutex_);

  exec::EventLoop& loop_;
  rpc::Channel& channel_;
  Random& random_;
  const Options options_;

  mutable Mutex mutex_;
  CondVar changed_;
  int in_flight_ MR_GUARDED_BY(mutex_) = 0;
  int waiting_ MR_GUARDED_BY(mutex_) = 0;
  bool abandoned_ MR_GUARDED_BY(mutex_) = false;
  std::int64_t batches_ MR_GUARDED_BY(mutex_) = 0;
  std::int64_t records_ MR_GUARDED_BY(mutex_) = 0;
  std::int64_t next_ids_ MR_GUARDED_BY(mutex_) = 0;
  std::map<std::int64_t, std::vector<std::string>> ended_ids_ MR_GUARDED_BY(mutex_);
  EnqueueTotals totals_ MR_GUARDED_BY(mutex_);
  std::optional<CallError> error_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::cli
