#include "millrace/cli/worker.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/cli/methods.h"
#include "millrace/cli/proto_time.h"
#include "millrace/cli/task_environment.h"

namespace millrace::cli {
namespace {

constexpr std::size_t kReportsPerCall = 1'000;
constexpr Duration kUntilEmptyWait = std::chrono::milliseconds(500);

ItemAnswer AnswerOf(const v1::ItemResult& result) {
  if (!result.has_error()) return ItemAnswer::kOk;
  if (result.error().reason() == "LEASE_LOST") return ItemAnswer::kLeaseLost;
  CallError error;
  error.code = static_cast<rpc::Code>(result.error().code());
  error.reason = result.error().reason();
  if (error.code == rpc::Code::kUnavailable && error.reason == "OUTCOME_UNKNOWN")
    return ItemAnswer::kUncertain;
  return error.retryable() ? ItemAnswer::kNotDone : ItemAnswer::kRefused;
}

ItemAnswer AnswerOf(const CallError& error) {
  if (error.outcome_unknown()) return ItemAnswer::kUncertain;
  return error.retryable() ? ItemAnswer::kNotDone : ItemAnswer::kRefused;
}

std::string TrimmedEnd(std::string text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  text.erase(end == std::string::npos ? 0 : end + 1);
  return text;
}

TaskExit Judge(ChildExit exit) {
  if (!exit.signalled && exit.code == 0) return {};
  std::string cause = exit.signalled ? "killed by signal " + std::to_string(exit.code)
                                     : "exit code " + std::to_string(exit.code);
  const std::string tail = TrimmedEnd(std::move(exit.stderr_tail));
  if (!tail.empty()) cause += ": " + tail;
  // A server keeps so many bytes; the end of what the command said is the part that matters, and
  // the front the code.
  cause = CutToUtf8(std::move(cause), 1'000);
  const bool for_good = !exit.signalled && exit.code == kPermanentFailureCode;
  return {for_good ? TaskExit::Kind::kFailedForGood : TaskExit::Kind::kFailed, std::move(cause)};
}

}  // namespace

Worker::Worker(exec::EventLoop& loop, rpc::Channel& channel, Random& random, Options options,
               std::vector<std::string> environment, Notice notice, Journal journal,
               UniqueFunction<void(End)> on_end)
    : loop_(loop),
      channel_(channel),
      options_(std::move(options)),
      environment_(std::move(environment)),
      notice_(std::move(notice)),
      journal_(std::move(journal)),
      on_end_(std::move(on_end)),
      book_(options_.book),
      poll_backoff_(random),
      report_backoff_{Backoff(random), Backoff(random), Backoff(random)},
      self_(std::make_shared<Worker*>(this)) {}

Worker::~Worker() { MR_CHECK(calls_in_flight_ == 0 && children_.empty()); }

void Worker::Start() {
  loop_.Post([this] { Pump(); });
}

void Worker::Signal() {
  loop_.Post([weak = std::weak_ptr<Worker*>(self_)] {
    const std::shared_ptr<Worker*> self = weak.lock();
    if (self == nullptr || (*self)->ended_) return;
    Worker& worker = **self;
    const bool again = worker.book_.stopping();
    worker.book_.Stop(again, worker.Now());
    worker.notice_(again ? "stopping at once: killing the commands and giving their tasks back"
                   : worker.book_.running() == 0
                       ? std::string("stopping")
                       : "stopping: waiting for " + std::to_string(worker.book_.running()) +
                             " running commands; signal again to stop at once");
    worker.Pump();
  });
}

// Does whatever can be done now, and plans to come back when more will be.
void Worker::Pump() {
  if (ended_) return;
  const Instant now = Now();
  if (now >= book_.give_up_at()) book_.GiveUpReports();
  WriteJournal();
  WorkBook::Actions actions = book_.Tick(now);
  for (const auto& [signal, keys] :
       {std::pair(SIGTERM, &actions.terminate), std::pair(SIGKILL, &actions.kill)}) {
    for (const WorkBook::Key key : *keys) {
      const auto child = children_.find(key);
      if (child != children_.end()) child->second->Signal(signal);
    }
  }
  if (!actions.extend.empty()) SendExtend(std::move(actions.extend));
  for (const auto kind :
       {WorkBook::Settle::kComplete, WorkBook::Settle::kFail, WorkBook::Settle::kRelease}) {
    const auto at = static_cast<std::size_t>(kind);
    if (!reporting_[at] && now >= report_after_[at] && book_.HasReports(kind)) SendReports(kind);
  }
  if (polling_ && !book_.polling()) channel_.Cancel(poll_call_);
  if (!polling_ && !asking_ && now >= poll_after_) {
    if (const int count = book_.PollSize(); count > 0) Poll(count);
  }
  if (book_.Finished() && calls_in_flight_ == 0) {
    ended_ = true;
    if (timer_ != 0) loop_.CancelTimer(timer_);
    self_.reset();
    loop_.Post([end = End{book_.summary(), fatal_}, on_end = std::move(on_end_)]() mutable {
      on_end(std::move(end));
    });
    return;
  }
  ArmTimer();
}

void Worker::WriteJournal() {
  for (const auto& [key, end] : book_.TakeEnds()) {
    journal_(names_.at(key), end);
    names_.erase(key);
  }
}

void Worker::ArmTimer() {
  Instant next = book_.NextTick();
  if (book_.polling() && !polling_ && !asking_ && book_.PollSize() > 0)
    next = std::min(next, poll_after_);
  for (std::size_t at = 0; at < reporting_.size(); ++at) {
    if (!reporting_[at] && book_.HasReports(static_cast<WorkBook::Settle>(at))) {
      next = std::min(next, report_after_[at]);
    }
  }
  if (next == timer_at_) return;
  if (timer_ != 0) loop_.CancelTimer(std::exchange(timer_, 0));
  timer_at_ = next;
  if (next == Instant::Max()) return;
  timer_ = loop_.PostAt(next, [weak = std::weak_ptr<Worker*>(self_)] {
    const std::shared_ptr<Worker*> self = weak.lock();
    if (self == nullptr) return;
    (*self)->timer_ = 0;
    (*self)->timer_at_ = Instant::Max();
    (*self)->Pump();
  });
}

rpc::Channel::CallId Worker::Call(std::string_view method, std::string request, Duration timeout,
                                  UniqueFunction<void(rpc::CallResult)> done) {
  ++calls_in_flight_;
  rpc::CallOptions call;
  call.deadline = Now() + timeout;
  return channel_.Call(method, std::move(request), std::move(call),
                       [this, done = std::move(done)](rpc::CallResult result) mutable {
                         --calls_in_flight_;
                         done(std::move(result));
                         Pump();
                       });
}

void Worker::Poll(int count) {
  const Duration wait =
      options_.until_empty ? std::min(options_.poll_wait, kUntilEmptyWait) : options_.poll_wait;
  v1::LeaseRequest request;
  request.set_queue(options_.queue);
  request.set_max_tasks(count);
  SetDuration(*request.mutable_lease_duration(), options_.book.lease);
  SetDuration(*request.mutable_wait_time(), wait);
  request.set_worker_id(options_.worker_id);
  polling_ = true;
  poll_call_ =
      Call(methods::kLease, request.SerializeAsString(), wait + options_.call_timeout,
           [this, sent = Now()](rpc::CallResult result) { OnPolled(std::move(result), sent); });
}

void Worker::OnPolled(rpc::CallResult result, Instant sent) {
  polling_ = false;
  if (!result.status.ok()) {
    if (!book_.polling()) return;
    const CallError error = ReadCallError(result);
    if (!error.retryable() && !error.outcome_unknown()) {
      fatal_ = error;
      book_.Stop(false, Now());
      return;
    }
    poll_after_ = Now() + poll_backoff_.Next(error.retry_delay);
    NoteTrouble(error);
    return;
  }
  poll_backoff_.Reset();
  NoteHealth();
  v1::LeaseResponse response;
  if (!response.ParseFromString(result.response)) {
    fatal_ =
        CallError{.code = rpc::Code::kInternal, .message = "the server's answer cannot be read"};
    book_.Stop(false, Now());
    return;
  }
  if (response.tasks().empty()) {
    // A server that does not wait although asked to must not be asked in a tight loop.
    if (Now() - sent < std::chrono::milliseconds(100))
      poll_after_ = Now() + std::chrono::milliseconds(100);
    if (options_.until_empty && book_.Idle() && book_.polling()) AskWhetherEmpty();
    return;
  }
  for (const v1::LeasedTask& task : response.tasks()) StartTask(task);
}

void Worker::StartTask(const v1::LeasedTask& leased) {
  if (!book_.polling()) {
    names_[book_.OnLeasedTooLate(leased.lease_token())] = {leased.task_id(), leased.attempt()};
    return;
  }
  const Duration left =
      leased.has_lease_duration() ? ToDuration(leased.lease_duration()) : options_.book.lease;
  const WorkBook::Key key = book_.OnLeased(leased.lease_token(), left, Now());
  names_[key] = {leased.task_id(), leased.attempt()};
  ChildSpec spec;
  spec.command = options_.command;
  spec.environment = TaskEnvironment(environment_, options_.queue, leased);
  spec.input = leased.payload();
  spec.pass_stderr = options_.pass_stderr;
  Result<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(
      loop_, spec, [this, key](ChildExit exit) { OnChildExit(key, std::move(exit)); });
  if (!child.ok()) {
    notice_("cannot start the command: " + std::string(child.status().message()));
    // No fault of the task's; a pause keeps a starved machine from spinning.
    poll_after_ = Now() + std::chrono::seconds(1);
    book_.OnNotStarted(key);
    return;
  }
  children_.emplace(key, std::move(child).value());
}

void Worker::OnChildExit(WorkBook::Key key, ChildExit exit) {
  children_.erase(key);
  book_.OnExit(key, Judge(std::move(exit)), Now());
  Pump();
}

void Worker::AskWhetherEmpty() {
  v1::DescribeRequest request;
  request.set_queue(options_.queue);
  asking_ = true;
  Call(methods::kDescribe, request.SerializeAsString(), options_.call_timeout,
       [this](rpc::CallResult result) {
         asking_ = false;
         if (result.status.code == rpc::Code::kNotFound) {
           book_.StopPolling();
           return;
         }
         v1::DescribeResponse response;
         if (!result.status.ok() || !response.ParseFromString(result.response)) {
           poll_after_ =
               Now() + poll_backoff_.Next(std::nullopt);  // The next poll tells what is wrong.
           return;
         }
         const v1::QueueCounts& counts = response.queue().counts();
         if (counts.waiting() == 0 && counts.leased() == 0) book_.StopPolling();
       });
}

void Worker::SendExtend(std::vector<std::pair<WorkBook::Key, std::string>> due) {
  v1::ExtendRequest request;
  request.set_queue(options_.queue);
  SetDuration(*request.mutable_lease_duration(), options_.book.lease);
  std::vector<WorkBook::Key> keys;
  for (auto& [key, token] : due) {
    keys.push_back(key);
    request.add_lease_tokens(std::move(token));
  }
  const Duration timeout = std::min<Duration>(options_.call_timeout, options_.book.lease / 6);
  Call(methods::kExtend, request.SerializeAsString(), timeout,
       [this, keys = std::move(keys), sent = Now()](rpc::CallResult result) {
         v1::ExtendResponse response;
         const bool parsed = result.status.ok() && response.ParseFromString(result.response);
         if (!result.status.ok()) NoteTrouble(ReadCallError(result));
         for (std::size_t i = 0; i < keys.size(); ++i) {
           const bool known = parsed && static_cast<int>(i) < response.results_size();
           book_.OnExtendAnswer(
               keys[i],
               known ? AnswerOf(response.results(static_cast<int>(i))) : ItemAnswer::kUncertain,
               sent, Now());
         }
       });
}

void Worker::SendReports(WorkBook::Settle kind) {
  std::vector<WorkBook::Report> reports = book_.TakeReports(kind, kReportsPerCall);
  std::vector<WorkBook::Key> keys;
  keys.reserve(reports.size());
  for (const WorkBook::Report& report : reports) keys.push_back(report.key);
  reporting_[static_cast<std::size_t>(kind)] = true;

  const auto send = [&]<typename Request, typename Response>(std::string_view method,
                                                             Request request) {
    request.set_queue(options_.queue);
    Call(method, request.SerializeAsString(), options_.call_timeout,
         [this, kind, keys = std::move(keys)](rpc::CallResult result) {
           Response response;
           std::optional<CallError> error;
           if (!result.status.ok()) {
             error = ReadCallError(result);
           } else if (!response.ParseFromString(result.response)) {
             error = CallError{.code = rpc::Code::kInternal,
                               .message = "the server's answer cannot be read"};
           }
           OnReported(kind, keys, &response.results(), error);
         });
  };
  switch (kind) {
    case WorkBook::Settle::kComplete: {
      v1::CompleteRequest request;
      for (WorkBook::Report& report : reports) request.add_lease_tokens(std::move(report.token));
      send.template operator()<v1::CompleteRequest, v1::CompleteResponse>(methods::kComplete,
                                                                          std::move(request));
      break;
    }
    case WorkBook::Settle::kFail: {
      v1::FailRequest request;
      for (WorkBook::Report& report : reports) {
        v1::FailItem& item = *request.add_items();
        item.set_lease_token(std::move(report.token));
        item.set_error_message(std::move(report.exit.error_message));
        item.set_permanent(report.exit.kind == TaskExit::Kind::kFailedForGood);
      }
      send.template operator()<v1::FailRequest, v1::FailResponse>(methods::kFail,
                                                                  std::move(request));
      break;
    }
    case WorkBook::Settle::kRelease: {
      v1::ReleaseRequest request;
      for (WorkBook::Report& report : reports) request.add_lease_tokens(std::move(report.token));
      send.template operator()<v1::ReleaseRequest, v1::ReleaseResponse>(methods::kRelease,
                                                                        std::move(request));
      break;
    }
  }
}

void Worker::OnReported(WorkBook::Settle kind, const std::vector<WorkBook::Key>& keys,
                        const Items* results, const std::optional<CallError>& error) {
  const auto at = static_cast<std::size_t>(kind);
  reporting_[at] = false;
  bool again = false;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ItemAnswer answer = ItemAnswer::kUncertain;
    if (error.has_value()) {
      answer = AnswerOf(*error);
    } else if (static_cast<int>(i) < results->size()) {
      answer = AnswerOf((*results)[static_cast<int>(i)]);
      if (answer == ItemAnswer::kRefused) {
        notice_("a result was refused: " + (*results)[static_cast<int>(i)].error().message());
      }
    }
    again |= answer == ItemAnswer::kNotDone || answer == ItemAnswer::kUncertain;
    book_.OnReportAnswer(keys[i], answer);
  }
  if (error.has_value()) {
    NoteTrouble(*error);
  } else {
    NoteHealth();
  }
  if (again) {
    report_after_[at] = Now() + report_backoff_[at].Next(error ? error->retry_delay : std::nullopt);
  } else {
    report_backoff_[at].Reset();
  }
}

void Worker::NoteTrouble(const CallError& error) {
  if (in_trouble_ || ended_) return;
  in_trouble_ = true;
  notice_("the server does not answer as it should, trying again: " +
          (error.message.empty() ? std::string(rpc::CodeName(error.code)) : error.message) +
          (error.reason.empty() ? "" : " (" + error.reason + ")"));
}

void Worker::NoteHealth() {
  if (!in_trouble_) return;
  in_trouble_ = false;
  notice_("the server answers again");
}

}  // namespace millrace::cli
