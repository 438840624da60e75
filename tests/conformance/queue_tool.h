#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/backlog/metrics.h"
#include "millrace/backlog/owner_watch.h"
#include "millrace/base/annotations.h"
#include "millrace/base/log.h"
#include "millrace/base/random.h"
#include "millrace/exec/event_loop.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"
#include "tests/conformance/words.h"

namespace millrace::conformance {

// A queue that this process owns, as a server would: BacklogManager with a layer above it that does
// what the lines say.
//
//   start                                    held RANGE-ID FIRST-ID LAST-ID
//   take COUNT                               tasks N, then N words KEY CREATED EXPIRES PAYLOAD each
//   complete KEY                             done
//   rewrite KEY                              stored KEY
//   spool SUBQUEUE CREATED EXPIRES PAYLOAD   stored KEY
//   status                                   status RANGE-ID COUNT UNLOAD-CAUSE
//   stop                                     stopped
//
// A refusal is "refused CODE TEXT". Times are nanoseconds, 0 = not set.
//
// Thread: one, not the loop's. Each line waits for its answer.
class LiveQueue final : private backlog::BacklogListener {
 public:
  LiveQueue(store::PhysicalQueueKey key, const backlog::BacklogConfig& config,
            exec::EventLoop& loop, store::AsyncTaskStore& store, Random& random, Log& log);
  // Stops it.
  ~LiveQueue() override;
  LiveQueue(const LiveQueue&) = delete;
  LiveQueue& operator=(const LiveQueue&) = delete;

  std::string Do(const std::string& command, Words& words);

 private:
  using Answer = UniqueFunction<void(std::string)>;
  std::string Ask(UniqueFunction<void(Answer)> step);

  void Start(Answer answer) MR_REQUIRES(strand_);
  void Take(std::size_t count, Answer answer) MR_REQUIRES(strand_);
  void TakeMore() MR_REQUIRES(strand_);
  void Rewrite(const store::TaskKey& key, Answer answer) MR_REQUIRES(strand_);
  void Submit(backlog::WriteOp op, Answer answer) MR_REQUIRES(strand_);
  [[nodiscard]] bool ReadToTheEnd() const MR_REQUIRES(strand_);

  void OnLeaseHeld() override;
  bool OnTaskLoaded(const store::TaskRow& /*row*/) override { return false; }
  void OnTasksAvailable() override {}
  void OnBuildWrite(store::QueueWrite& /*write*/) override {}
  void OnWriteEnd(bool /*applied*/) override {}
  void OnUnloadRequested(backlog::UnloadCause cause, const Status& status) override;

  exec::Strand strand_;
  backlog::BacklogMetrics metrics_;
  backlog::OwnerWatch watch_;
  backlog::BacklogManager manager_;
  bool stopped_ = false;  // Of the calling thread.
  std::string unload_cause_ MR_GUARDED_BY(strand_) = "none";
  std::map<store::TaskKey, backlog::LoadedTask> held_ MR_GUARDED_BY(strand_);
  std::size_t wanted_ MR_GUARDED_BY(strand_) = 0;
  std::vector<backlog::LoadedTask> taken_ MR_GUARDED_BY(strand_);
  Answer taker_ MR_GUARDED_BY(strand_);
  // Only on the strand, but for its end: nothing is armed then.
  std::optional<exec::StrandTimer> poll_;
};

}  // namespace millrace::conformance
