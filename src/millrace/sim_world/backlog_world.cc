#include "millrace/sim_world/backlog_world.h"

#include <algorithm>
#include <utility>

namespace millrace::sim {

using std::chrono::seconds;

BacklogWorld::BacklogWorld(const RunOptions& options, Coverage& coverage)
    : World(options, coverage),
      backlog_metrics_(backlog::BacklogMetrics::Create(metrics_)),
      context_{scheduler_, judge_, coverage_, ledger_, durable_, swarm_, backlog_metrics_, log_} {}

void BacklogWorld::OnHostStarted(std::size_t) {
  if (Lot(75)) Supervise();
}

void BacklogWorld::OnHostCrashing(std::size_t host) {
  for (const OwnerPtr& owner : owners_) {
    if (&owner->host() == hosts_[host].get()) owner->Sever();
  }
}

void BacklogWorld::OnHostCrashed(std::size_t host) {
  for (const OwnerPtr& owner : owners_) {
    if (&owner->host() == hosts_[host].get()) owner->Stop();
  }
}

void BacklogWorld::Enqueue() {
  const OwnerPtr owner = PickOwner();
  if (owner == nullptr) return;
  const std::uint64_t burst = Lot(25) ? 1 + random().Below(6) : 1;
  for (std::uint64_t i = 0; i < burst && tasks_made_ < swarm_.tasks; ++i) {
    ++tasks_made_;
    WallTime expiry;
    if (Lot(swarm_.expiry_percent))
      expiry = owner->host().clock.WallNow() + Some(swarm_.expiry_max);
    const std::int64_t task = ledger_.NewTask(expiry);
    std::string payload(random().Below(static_cast<std::uint64_t>(swarm_.payload_max) + 1), 'p');
    payload += TaskMarker(task);
    const bool listening = !Lot(swarm_.weight_vanish);
    if (!listening) coverage_.Reach("producer vanishes");
    scheduler_.Trace("enqueue", task, owner->queue_number(), owner->host().number);
    owner->Enqueue(task, expiry, std::move(payload), listening);
  }
}

void BacklogWorld::StopSomething() {
  const OwnerPtr owner = PickOwner();
  if (owner == nullptr) return;
  coverage_.Reach("act clean stop");
  owner->Stop();
}

void BacklogWorld::AddSecondOwner(std::size_t host) {
  const auto queue = static_cast<int>(random().Below(static_cast<std::uint64_t>(swarm_.queues)));
  if (HasOwner(queue)) coverage_.Reach("act second owner");
  StartOwner(queue, host);
}

void BacklogWorld::PauseSomething() {
  const OwnerPtr owner = PickOwner();
  if (owner == nullptr) return;
  coverage_.Reach("act pause work");
  owner->PauseWork(true);
  driver_.PostAt(world_clock_.Now() + Some(seconds(10)), [owner] { owner->PauseWork(false); });
}

void BacklogWorld::RestartCleanly() {
  for (const OwnerPtr& owner : owners_) owner->Stop();
  const bool stopped = RunSteps([this] { return owners_.empty(); }, seconds(60));
  judge_.Expect(stopped || judge_.failed(),
                [] { return "owners do not stop within 60 s without faults"; });
  if (judge_.failed()) return;
  durable_.CheckAgainstStore();
  const std::vector<std::size_t> up = HostsUp();
  if (up.empty()) return;
  for (int queue = 0; queue < swarm_.queues; ++queue) {
    StartOwner(queue, up[random().Below(up.size())]);
    owners_.back()->PauseWork(true);
  }
  (void)RunSteps([] { return false; }, seconds(3));
  LookAtOwners();
  for (const OwnerPtr& owner : owners_) {
    if (judge_.failed()) return;
    const QueueImage* image = durable_.Image(Key(owner->queue_number()));
    if (!owner->snapshot()->lease_held || image == nullptr) {
      judge_.Fail("a new owner did not get the lease within 3 s without faults");
      return;
    }
    if (swarm_.backlog.delete_on_finish) {
      const std::int64_t count = owner->snapshot()->count;
      judge_.Expect(count == static_cast<std::int64_t>(image->rows.size()), [&] {
        return "after a clean restart the count is " + std::to_string(count) + " with " +
               std::to_string(image->rows.size()) + " rows stored";
      });
    }
  }
  for (const OwnerPtr& owner : owners_) owner->PauseWork(false);
}

bool BacklogWorld::HasOwner(int queue) const {
  return std::any_of(owners_.begin(), owners_.end(), [queue](const OwnerPtr& owner) {
    return owner->queue_number() == queue && !owner->stopping() && !owner->host().crashed;
  });
}

void BacklogWorld::Supervise() {
  const std::vector<std::size_t> up = HostsUp();
  if (up.empty()) return;
  for (int queue = 0; queue < swarm_.queues; ++queue) {
    if (!HasOwner(queue)) StartOwner(queue, up[random().Below(up.size())]);
  }
}

void BacklogWorld::StartOwner(int queue, std::size_t host) {
  scheduler_.Trace("own", queue, static_cast<std::int64_t>(host));
  const std::size_t loop = random().Below(4);
  owners_.push_back(std::make_shared<BacklogOwner>(context_, hosts_[host], loop, Key(queue), queue,
                                                   DrawBacklogConfig()));
  owners_.back()->Start();
}

BacklogWorld::OwnerPtr BacklogWorld::PickOwner() {
  std::vector<OwnerPtr> able;
  for (const OwnerPtr& owner : owners_) {
    if (!owner->stopping() && !owner->host().crashed) able.push_back(owner);
  }
  return able.empty() ? nullptr : able[random().Below(able.size())];
}

void BacklogWorld::CalmDown() {
  for (const OwnerPtr& owner : owners_) {
    if (!owner->host().crashed) owner->PauseWork(false);
  }
}

void BacklogWorld::BeginStop() {
  for (const OwnerPtr& owner : owners_) owner->Stop();
}

void BacklogWorld::CheckDrained() {
  LookAtOwners();
  if (judge_.failed()) return;
  for (const OwnerPtr& owner : owners_) {
    const OwnerSnapshot& seen = *owner->snapshot();
    const QueueImage* image = durable_.Image(Key(owner->queue_number()));
    if (owner->stopping() || !seen.lease_held || image == nullptr ||
        image->metadata.range_id != seen.range_id)
      continue;
    judge_.Expect(seen.count == 0,
                  [&] { return "the count of a drained queue is " + std::to_string(seen.count); });
    judge_.Expect(seen.head_age == Duration::zero(),
                  [] { return "the head age of a drained queue is not 0"; });
    judge_.Expect(seen.idle, [] { return "a drained queue is not idle"; });
  }
}

void BacklogWorld::LookAtOwners() {
  for (const OwnerPtr& owner : owners_) owner->TakeSnapshot();
  (void)RunSteps(
      [this] {
        return std::all_of(owners_.begin(), owners_.end(),
                           [](const OwnerPtr& owner) { return owner->snapshot().has_value(); });
      },
      seconds(5));
  for (const OwnerPtr& owner : owners_) {
    judge_.Expect(owner->snapshot().has_value(),
                  [] { return "an owner does not run its closures"; });
  }
}

void BacklogWorld::Reap() {
  std::erase_if(owners_,
                [](const OwnerPtr& owner) { return owner->gone() && owner.use_count() == 1; });
  // Whoever still runs on a host holds it.
  std::erase_if(old_hosts_,
                [](const std::shared_ptr<SimHost>& host) { return host.use_count() == 1; });
}

}  // namespace millrace::sim
