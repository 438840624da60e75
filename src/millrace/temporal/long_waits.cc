#include "millrace/temporal/long_waits.h"

namespace millrace::temporal {

LongWaits::LongWaits(exec::Executor& home, std::size_t max)
    : max_(max), strand_(home), timer_(strand_) {}

LongWaits::~LongWaits() = default;

void LongWaits::Add(std::unique_ptr<rpc::ServerCall> call, Instant until, std::string response) {
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return call->FinishOk(std::move(response));
  strand_.Post([this, hold = std::move(hold), call = std::move(call), until,
                response = std::move(response)]() mutable {
    strand_.AssertCurrent();
    if (stopped_ || waiting_.size() >= max_) return call->FinishOk(std::move(response));
    const std::uint64_t id = ++last_id_;
    rpc::ServerCall* raw = call.get();
    waiting_.emplace(id, Waiting{std::move(call), until, std::move(response)});
    by_time_.emplace(until, id);
    Arm();
    // Cancelling comes before the answer or not at all; it holds the gate until it ran.
    raw->OnCancel([this, id] {
      exec::Gate::Holder in = gate_.TryEnter();
      if (!in) return;
      strand_.Post([this, id, in = std::move(in)] {
        strand_.AssertCurrent();
        const auto it = waiting_.find(id);
        if (it != waiting_.end()) End(it);
      });
    });
  });
}

void LongWaits::End(std::map<std::uint64_t, Waiting>::iterator it) {
  strand_.AssertCurrent();
  Waiting waiting = std::move(it->second);
  by_time_.erase({waiting.until, it->first});
  waiting_.erase(it);
  waiting.call->FinishOk(std::move(waiting.response));
}

void LongWaits::OnTimer() {
  strand_.AssertCurrent();
  const Instant now = strand_.clock().Now();
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    End(waiting_.find(by_time_.begin()->second));
  }
  Arm();
}

void LongWaits::Arm() {
  strand_.AssertCurrent();
  if (by_time_.empty()) return timer_.Cancel();
  const Instant first = by_time_.begin()->first;
  if (timer_.armed() && timer_.when() <= first) return;
  timer_.Arm(first, [this] { OnTimer(); });
}

void LongWaits::Stop(Closure done) {
  strand_.Post([this, done = std::move(done)]() mutable {
    strand_.AssertCurrent();
    stopped_ = true;
    timer_.Cancel();
    while (!waiting_.empty()) End(waiting_.begin());
    gate_.Close([this, done = std::move(done)]() mutable { strand_.Post(std::move(done)); });
  });
}

}  // namespace millrace::temporal
