#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/random.h"
#include "millrace/cli/backoff.h"
#include "millrace/cli/call_error.h"
#include "millrace/cli/child_process.h"
#include "millrace/cli/work_book.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/v1/queue.pb.h"

namespace millrace::cli {

// Exit code by which a command says that no further attempt can help.
inline constexpr int kPermanentFailureCode = 100;

// Leases tasks of one queue, runs a command for each, and reports how it ended. The decisions are
// WorkBook's; this class makes the calls and processes they ask for.
//
// Thread: Start and Signal from any; everything else happens on the loop. Destroy only after
// `on_end` has run. Bounds: one Lease call in flight, one report of each kind; slots as WorkBook
// says. Fails: calls that a retry may mend are retried with back-off for as long as the worker
// runs. Any other failure of a Lease call ends the worker as a stop would, and is handed to
// `on_end`.
class Worker {
 public:
  struct Options {
    std::string queue;
    std::string command;
    std::string worker_id;
    WorkBook::Options book;
    Duration poll_wait = std::chrono::seconds(20);
    Duration call_timeout = std::chrono::seconds(10);
    bool until_empty = false;
    bool pass_stderr = true;
  };
  struct End {
    WorkSummary summary;
    std::optional<CallError> fatal;
  };
  // One line for people about what the worker waits for or gave up.
  using Notice = UniqueFunction<void(const std::string&)>;
  // A task this worker held, as the journal names it.
  struct TaskName {
    std::string task_id;
    std::int32_t attempt = 0;
  };
  // Called on the loop, once for each task leased.
  using Journal = UniqueFunction<void(const TaskName&, TaskEnd)>;

  // All must outlive the worker. `environment`: what commands get besides MILLRACE_*.
  Worker(exec::EventLoop& loop, rpc::Channel& channel, Random& random, Options options,
         std::vector<std::string> environment, Notice notice, Journal journal,
         UniqueFunction<void(End)> on_end);
  ~Worker();

  void Start();
  // The first one stops gracefully, the second at once.
  void Signal();

 private:
  using Items = google::protobuf::RepeatedPtrField<v1::ItemResult>;

  void Pump();
  void WriteJournal();
  void Poll(int count);
  void OnPolled(rpc::CallResult result, Instant sent);
  void StartTask(const v1::LeasedTask& leased);
  void OnChildExit(WorkBook::Key key, ChildExit exit);
  void AskWhetherEmpty();
  void SendExtend(std::vector<std::pair<WorkBook::Key, std::string>> due);
  void SendReports(WorkBook::Settle kind);
  void OnReported(WorkBook::Settle kind, const std::vector<WorkBook::Key>& keys,
                  const Items* results, const std::optional<CallError>& error);
  // Counts the call in flight, and pumps after `done`.
  rpc::Channel::CallId Call(std::string_view method, std::string request, Duration timeout,
                            UniqueFunction<void(rpc::CallResult)> done);
  void NoteTrouble(const CallError& error);
  void NoteHealth();
  void ArmTimer();
  [[nodiscard]] Instant Now() const { return loop_.clock().Now(); }

  exec::EventLoop& loop_;
  rpc::Channel& channel_;
  const Options options_;
  const std::vector<std::string> environment_;
  Notice notice_;
  Journal journal_;
  std::map<WorkBook::Key, TaskName> names_;
  UniqueFunction<void(End)> on_end_;

  WorkBook book_;
  std::map<WorkBook::Key, std::unique_ptr<ChildProcess>> children_;
  Backoff poll_backoff_;
  Instant poll_after_{0};
  Instant start_after_{0};
  rpc::Channel::CallId poll_call_ = 0;
  bool polling_ = false;
  bool asking_ = false;
  std::array<Backoff, 3> report_backoff_;
  std::array<Instant, 3> report_after_{};
  std::array<bool, 3> reporting_{};
  int calls_in_flight_ = 0;
  bool in_trouble_ = false;
  bool ended_ = false;
  std::optional<CallError> fatal_;
  exec::TimerId timer_ = 0;
  Instant timer_at_ = Instant::Max();
  // Timers hold it weakly: one that comes late finds the worker gone.
  std::shared_ptr<Worker*> self_;
};

}  // namespace millrace::cli
