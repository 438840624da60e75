#include "millrace/cli/enqueuer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/cli/methods.h"

namespace millrace::cli {

Enqueuer::Enqueuer(exec::EventLoop& loop, rpc::Channel& channel, Random& random, Options options)
    : loop_(loop), channel_(channel), random_(random), options_(options) {
  MR_CHECK(options.parallel > 0);
}

Enqueuer::~Enqueuer() {
  Abandon();
  MutexLock lock(mutex_);
  while (in_flight_ > 0) changed_.Wait(mutex_);
}

bool Enqueuer::WaitForChange(Instant until) {
  if (until == Instant::Max()) {
    changed_.Wait(mutex_);
    return true;
  }
  const Instant now = Now();
  if (now >= until) return false;
  changed_.WaitFor(mutex_, until - now);
  return true;
}

bool Enqueuer::WaitForRoom(Instant until) {
  MutexLock lock(mutex_);
  while (!Over() && in_flight_ >= options_.parallel) {
    if (!WaitForChange(until)) return false;
  }
  return true;
}

bool Enqueuer::Submit(v1::EnqueueRequest request) {
  MR_CHECK(request.tasks_size() > 0);
  auto batch = std::make_shared<Batch>(Batch{.backoff = Backoff(random_)});
  const auto count = static_cast<std::size_t>(request.tasks_size());
  batch->request = std::move(request);
  batch->positions.resize(count);
  std::iota(batch->positions.begin(), batch->positions.end(), 0);
  if (options_.keep_ids) batch->ids.resize(count);
  batch->begun = Now();
  {
    MutexLock lock(mutex_);
    while (!Over() && in_flight_ >= options_.parallel) changed_.Wait(mutex_);
    if (Over()) return false;
    ++in_flight_;
    batch->number = batches_++;
    batch->first_record = records_ + 1;
    records_ += static_cast<std::int64_t>(count);
  }
  Send(std::move(batch));
  return true;
}

void Enqueuer::Send(std::shared_ptr<Batch> batch) {
  rpc::CallOptions call;
  call.deadline = Now() + options_.call_timeout;
  std::string bytes = batch->request.SerializeAsString();
  channel_.Call(methods::kEnqueue, std::move(bytes), std::move(call),
                [this, batch = std::move(batch)](rpc::CallResult result) mutable {
                  OnAnswer(std::move(batch), std::move(result));
                });
}

std::optional<CallError> Enqueuer::TakeResults(Batch& batch, const v1::EnqueueResponse& response) {
  if (response.results_size() != batch.request.tasks_size()) {
    return CallError{.code = rpc::Code::kInternal,
                     .message = "the server answered for another number of tasks"};
  }
  std::optional<CallError> again;
  v1::EnqueueRequest rest;
  std::vector<std::size_t> rest_positions;
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::EnqueueResult& result = response.results(i);
    const std::size_t position = batch.positions[static_cast<std::size_t>(i)];
    if (!result.has_error()) {
      ++totals_.stored;
      if (options_.keep_ids) batch.ids[position] = result.task_id();
      continue;
    }
    CallError error{.code = static_cast<rpc::Code>(result.error().code()),
                    .message = result.error().message(),
                    .reason = result.error().reason()};
    if (error.retryable() && options_.retry) {
      *rest.add_tasks() = std::move(*batch.request.mutable_tasks(i));
      rest_positions.push_back(position);
      // One task that may be stored makes the whole retry uncertain.
      if (!again || error.outcome_unknown()) again = std::move(error);
      continue;
    }
    ++totals_.refused;
    if (totals_.first_refused.size() < kRefusedKept) {
      totals_.first_refused.push_back(
          {batch.first_record + static_cast<std::int64_t>(position), error.message, error.reason});
    }
  }
  rest.set_queue(batch.request.queue());
  batch.request = std::move(rest);
  batch.positions = std::move(rest_positions);
  return again;
}

void Enqueuer::OnAnswer(std::shared_ptr<Batch> batch, rpc::CallResult result) {
  MutexLock lock(mutex_);
  std::optional<CallError> error;
  if (!result.status.ok()) {
    error = ReadCallError(result);
    if (!error->retryable() || !options_.retry) {
      if (!error_) error_ = error;
      EndBatch(*batch);
      return;
    }
  } else {
    v1::EnqueueResponse response;
    if (!response.ParseFromString(result.response)) {
      error_ =
          CallError{.code = rpc::Code::kInternal, .message = "the server's answer cannot be read"};
      EndBatch(*batch);
      return;
    }
    error = TakeResults(*batch, response);
    if (error && error->code == rpc::Code::kInternal) {
      error_ = error;
      EndBatch(*batch);
      return;
    }
  }
  if (error) {
    Retry(std::move(batch), *error);
  } else {
    EndBatch(*batch);
  }
}

void Enqueuer::Retry(std::shared_ptr<Batch> batch, const CallError& error) {
  const Duration patience = totals_.stored == 0 ? options_.first_retry_for : options_.retry_for;
  if (Over() || Now() - batch->begun >= patience) {
    if (!Over()) error_ = error;
    EndBatch(*batch);
    return;
  }
  if (error.outcome_unknown() && !batch->uncertain) {
    batch->uncertain = true;
    ++totals_.uncertain_batches;
  }
  ++waiting_;
  const Instant when = Now() + batch->backoff.Next(error.retry_delay);
  loop_.PostAt(when, [this, batch = std::move(batch), error]() mutable {
    {
      MutexLock lock(mutex_);
      --waiting_;
      if (Over()) {
        EndBatch(*batch);
        return;
      }
    }
    Send(std::move(batch));
  });
}

void Enqueuer::EndBatch(const Batch& batch) {
  if (options_.keep_ids) ended_ids_[batch.number] = batch.ids;
  --in_flight_;
  changed_.NotifyAll();
}

bool Enqueuer::Finish(Instant until) {
  MutexLock lock(mutex_);
  while (in_flight_ > 0) {
    if (!WaitForChange(until)) return false;
  }
  return true;
}

void Enqueuer::Abandon() {
  MutexLock lock(mutex_);
  abandoned_ = true;
  changed_.NotifyAll();
}

EnqueueTotals Enqueuer::totals() const {
  MutexLock lock(mutex_);
  EnqueueTotals totals = totals_;
  totals.waiting = waiting_ > 0;
  return totals;
}

std::optional<CallError> Enqueuer::error() const {
  MutexLock lock(mutex_);
  return error_;
}

std::vector<std::string> Enqueuer::TakeIds() {
  MutexLock lock(mutex_);
  std::vector<std::string> ids;
  while (!ended_ids_.empty() && ended_ids_.begin()->first == next_ids_) {
    for (std::string& id : ended_ids_.begin()->second) {
      if (!id.empty()) ids.push_back(std::move(id));
    }
    ended_ids_.erase(ended_ids_.begin());
    ++next_ids_;
  }
  return ids;
}

}  // namespace millrace::cli
