// The queue service over a real PostgreSQL server: what it asks of it when nothing happens.

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/queue/testing/queue_harness.h"
#include "millrace/store/postgres/postgres_task_store.h"
#include "millrace/store/postgres/test_server.h"

namespace millrace::queue {
namespace {

// Keeps counters by name.
class CountingMetrics final : public Metrics {
 public:
  Counter& GetCounter(std::string_view name, std::string_view, const MetricLabels&) override {
    return counters_[std::string(name)];
  }
  Gauge& GetGauge(std::string_view name, std::string_view help,
                  const MetricLabels& labels) override {
    return NullMetrics().GetGauge(name, help, labels);
  }
  Histogram& GetHistogram(std::string_view name, std::string_view help,
                          const std::vector<double>& bounds, const MetricLabels& labels) override {
    return NullMetrics().GetHistogram(name, help, bounds, labels);
  }
  std::uint64_t statements() {
    return counters_.at("millrace_postgres_statements_total").value.load();
  }

 private:
  struct Count final : Counter {
    void Add(std::uint64_t n) override { value += n; }
    std::atomic<std::uint64_t> value{0};
  };
  std::map<std::string, Count> counters_;
};

class QueuePostgresTest : public ::testing::Test {
 protected:
  QueuePostgresTest() {
    postgres_.url = store::PgTestServer::Shared().NewDatabase();
    auto opened =
        store::PostgresTaskStore::Open(postgres_, store::StandaloneLayout(), metrics_, log_);
    MR_CHECK(opened.ok());
    store_ = std::move(*opened);
    config_.idle_unload = hours(1);
  }

  std::unique_ptr<Host> NewHost() {
    return std::make_unique<Host>(executor_, *store_, config_, std::make_unique<sim::NoFaults>(),
                                  /*exclusive=*/false);
  }
  template <typename Response>
  Response Call(Host& host, const std::string& method, const google::protobuf::Message& request) {
    const auto ended = host.Start(method, request);
    executor_.AdvanceBy(milliseconds(10));
    EXPECT_TRUE(ended->done && ended->status.ok()) << method << ": " << ended->status.message;
    Response response;
    EXPECT_TRUE(response.ParseFromString(ended->response));
    return response;
  }
  // A node that lost the queue without knowing hears of it with its first try.
  void EnqueueOne(Host& host, const std::string& queue, Duration ttl = Duration::zero()) {
    v1::EnqueueRequest request;
    request.set_queue(queue);
    v1::NewTask* task = request.add_tasks();
    task->set_payload("payload");
    if (ttl > Duration::zero()) ToProto(ttl, task->mutable_time_to_live());
    for (int tries = 0; tries < 3; ++tries) {
      const auto ended = host.Start("Enqueue", request);
      executor_.AdvanceBy(milliseconds(10));
      ASSERT_TRUE(ended->done);
      v1::EnqueueResponse response;
      ASSERT_TRUE(response.ParseFromString(ended->response));
      if (ended->status.ok() && !response.results(0).has_error()) return;
    }
    FAIL() << "not accepted";
  }
  std::vector<v1::LeasedTask> Lease(Host& host, const std::string& queue, Duration duration) {
    v1::LeaseRequest request;
    request.set_queue(queue);
    request.set_max_tasks(10);
    ToProto(duration, request.mutable_lease_duration());
    request.mutable_wait_time()->set_seconds(0);
    const auto response = Call<v1::LeaseResponse>(host, "Lease", request);
    return {response.tasks().begin(), response.tasks().end()};
  }
  // "" = ok, else the reason.
  std::string Complete(Host& host, const std::string& queue, const std::string& token) {
    v1::CompleteRequest request;
    request.set_queue(queue);
    request.add_lease_tokens(token);
    return Call<v1::CompleteResponse>(host, "Complete", request).results(0).error().reason();
  }
  v1::QueueInfo Describe(Host& host, const std::string& queue) {
    v1::DescribeRequest request;
    request.set_queue(queue);
    return Call<v1::DescribeResponse>(host, "Describe", request).queue();
  }
  static std::string Name(std::size_t i) { return "q" + std::to_string(i); }

  exec::ManualExecutor executor_;
  NullLog log_;
  CountingMetrics metrics_;
  store::PostgresConfig postgres_;
  QueueConfig config_;
  std::unique_ptr<store::PostgresTaskStore> store_;
};

TEST_F(QueuePostgresTest, IdleQueuesSendNothingAndTheirProcessAsksOnceForAllOfThem) {
  constexpr std::size_t kQueues = 50;
  const Duration interval = config_.backlog.update_interval;
  const auto host = NewHost();
  for (std::size_t i = 0; i < kQueues; ++i) EnqueueOne(*host, Name(i));
  executor_.AdvanceBy(2 * interval);
  const std::uint64_t settled = metrics_.statements();
  executor_.AdvanceBy(10 * interval);
  EXPECT_EQ(metrics_.statements() - settled, 10u);
  // Unloaded, each with its last write; then nothing is left to ask for.
  executor_.AdvanceBy(2 * config_.idle_unload);
  EXPECT_EQ(host->service().loaded_queues(), 0u);
  const std::uint64_t unloaded = metrics_.statements();
  executor_.AdvanceBy(hours(24));
  EXPECT_EQ(metrics_.statements(), unloaded);
}

TEST_F(QueuePostgresTest, AnIdleQueueThatWasTakenIsGivenUpWithinAnInterval) {
  const auto first = NewHost();
  const auto second = NewHost();
  for (std::size_t i = 0; i < 3; ++i) EnqueueOne(*first, Name(i));
  EnqueueOne(*second, Name(1));
  EXPECT_EQ(first->service().loaded_queues(), 3u);
  executor_.AdvanceBy(config_.backlog.update_interval);
  EXPECT_EQ(first->service().loaded_queues(), 2u);
  EXPECT_EQ(second->service().loaded_queues(), 1u);
}

// ---- Clocks that differ
// --------------------------------------------------------------------------

// One node stamps, another one with a wrong calendar takes over. Theirs is the difference: what the
// second one's clock is ahead of the first one's, in hours.
class ClockDifferenceTest : public QueuePostgresTest, public ::testing::WithParamInterface<int> {
 protected:
  void ToSecondClock() { executor_.manual_clock().JumpWall(hours(GetParam())); }
  WallTime Now() { return executor_.clock().WallNow(); }
  const std::string queue_ = "q";
};
INSTANTIATE_TEST_SUITE_P(Hours, ClockDifferenceTest, ::testing::Values(-1, 1),
                         [](const auto& p) { return p.param < 0 ? "Behind" : "Ahead"; });

// The owner's calendar decides. A task without an expiry never meets it.
TEST_P(ClockDifferenceTest, ATaskExpiresByItsOwnersClock) {
  struct Step {
    Duration at;  // By the second one's clock, from its start on.
    std::size_t ahead;
    std::size_t behind;
  };
  const Step steps[] = {
      {minutes(0), 2, 3}, {minutes(75), 2, 2}, {minutes(150), 1, 2}, {hours(5), 1, 1}};
  const auto first = NewHost();
  for (std::size_t i = 0; i < std::size(steps); ++i) {
    EnqueueOne(*first, Name(i), minutes(10));
    EnqueueOne(*first, Name(i), hours(3));
    EnqueueOne(*first, Name(i));
  }
  ToSecondClock();
  const auto second = NewHost();
  const WallTime start = Now();
  for (std::size_t i = 0; i < std::size(steps); ++i) {
    SCOPED_TRACE(i);
    executor_.AdvanceBy(std::max(Duration::zero(), start + steps[i].at - Now()));
    const std::size_t alive = GetParam() > 0 ? steps[i].ahead : steps[i].behind;
    EXPECT_EQ(Lease(*second, Name(i), hours(1)).size(), alive);
    const v1::QueueCounts counts = Describe(*second, Name(i)).counts();
    EXPECT_EQ(counts.accepted(), 3);
    EXPECT_EQ(counts.leased(), static_cast<std::int64_t>(alive));
    EXPECT_EQ(counts.dropped(), static_cast<std::int64_t>(3 - alive));
  }
}

// A remembered lease is never longer than it was given: ahead it ends early, behind it may start
// again.
TEST_P(ClockDifferenceTest, ARememberedLeaseEndsWithinItsDuration) {
  const auto first = NewHost();
  EnqueueOne(*first, queue_);
  const auto leased = Lease(*first, queue_, seconds(60));
  ASSERT_EQ(leased.size(), 1u);
  executor_.AdvanceBy(seconds(5));
  ToSecondClock();
  const auto second = NewHost();
  const bool ahead = GetParam() > 0;
  EXPECT_EQ(Describe(*second, queue_).counts().accepted(), 1);
  auto again = Lease(*second, queue_, seconds(60));
  if (!ahead) {
    EXPECT_TRUE(again.empty());
    executor_.AdvanceBy(seconds(59));
    EXPECT_TRUE(Lease(*second, queue_, seconds(60)).empty());
    executor_.AdvanceBy(seconds(2));
    again = Lease(*second, queue_, seconds(60));
  } else if (again.empty()) {
    executor_.AdvanceBy(seconds(1));  // It is being written again.
    again = Lease(*second, queue_, seconds(60));
  }
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].attempt(), leased[0].attempt() + 1);
  EXPECT_NE(Complete(*second, queue_, leased[0].lease_token()), "");
  EXPECT_EQ(Complete(*second, queue_, again[0].lease_token()), "");
  EXPECT_EQ(Describe(*second, queue_).counts().done(), 1);
}

// Take-overs to and fro: the range id decides, never a time.
TEST_P(ClockDifferenceTest, AnUpdateTimeThatGoesBackDecidesNothing) {
  const auto first = NewHost();
  const auto second = NewHost();
  const store::PhysicalQueueKey key{std::string(kDefaultNamespace), queue_, 0};
  std::int64_t range_id = 0;
  for (int round = 0; round < 4; ++round) {
    for (Host* host : {first.get(), second.get()}) {
      EnqueueOne(*host, queue_);
      const auto metadata = store_->ReadMetadata(key);
      ASSERT_TRUE(metadata.ok());
      EXPECT_GT(metadata->range_id.value, range_id);
      range_id = metadata->range_id.value;
      EXPECT_LE(metadata->update_time, Now());
      EXPECT_GE(metadata->update_time + minutes(1), Now());
      const v1::QueueInfo info = Describe(*host, queue_);
      EXPECT_EQ(info.counts().accepted(), info.counts().waiting());
      EXPECT_GE(info.oldest_age().seconds(), 0);
      executor_.manual_clock().JumpWall(hours(host == first.get() ? GetParam() : -GetParam()));
    }
  }
  EnqueueOne(*first, queue_);
  EXPECT_EQ(Lease(*first, queue_, seconds(30)).size(), 9u);
}

}  // namespace
}  // namespace millrace::queue
