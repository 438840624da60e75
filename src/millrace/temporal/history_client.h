#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/exec/event_loop.h"
#include "millrace/temporal/history.h"

namespace millrace::temporal {

struct HistoryClientConfig {
  std::vector<std::string> hosts;  // "host:port", in the order that the whole cluster has them.
  std::int32_t shards = 4;         // As the cluster was set up; it never changes.
  // Wait before the same host, or the right one once known, is asked again; doubles.
  Duration backoff_min = std::chrono::milliseconds(50);
  Duration backoff_max = std::chrono::seconds(1);
  // How often one call follows a host that points to another one, without waiting.
  int redirects_max = 4;
  // How often a call that fails with INTERNAL is made before that is believed.
  int internal_tries_max = 3;
  std::size_t reply_bytes_max = 128u << 20;  // Histories are long.
};

// kInvalidArgument: no host, one that is no address, or no shard.
Status CheckHistoryClientConfig(const HistoryClientConfig& config);

class HistoryCalls;

// Calls the history service over gRPC: finds the host of a workflow's shard, follows it when it
// moves, and tries again, with the same request id, while that may help and the call has time left.
//
//   call:  asked -> (answered) done
//          asked -> (the shard is elsewhere) asked there, at most `redirects_max` times
//          asked -> (unavailable, shard of nobody, INTERNAL) resting -> asked
//
// Each event loop has channels of its own, so that a call leaves on the thread that makes it.
//
// Thread: any. `done` runs on the loop that the call was made on, or on the first one.
// Bounds: see History; hosts learned and their channels: HistoryHosts.
// Fails: with the last answer when the time is up, CANCELLED at destruction.
// Invariants: destruction, on a thread that is not a loop's, ends all calls before it returns.
class HistoryClient final : public History {
 public:
  HistoryClient(HistoryClientConfig config, std::vector<exec::EventLoop*> loops);
  ~HistoryClient() override;

  void StartTask(StartRequest request, UniqueFunction<void(StartResult)> done) override;
  void IsTaskValid(TaskType type, std::string task, Instant deadline,
                   UniqueFunction<void(ValidResult)> done) override;
  void StartQuery(QueryStart query, UniqueFunction<void(QueryStartResult)> done) override;

 private:
  const std::shared_ptr<HistoryCalls> calls_;
};

}  // namespace millrace::temporal
