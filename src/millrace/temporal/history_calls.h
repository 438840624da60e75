#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/annotations.h"
#include "millrace/base/function.h"
#include "millrace/base/mutex.h"
#include "millrace/base/random.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/temporal/history_client.h"
#include "millrace/temporal/history_hosts.h"

namespace millrace::temporal {

// One call of a HistoryClient, through all its tries.
struct HistoryCall {
  std::string_view method;  // A constant.
  std::string request;
  std::int32_t shard = 1;
  std::string caller;  // Namespace name.
  Instant deadline;
  UniqueFunction<void(rpc::RpcStatus, std::string response)> done;

  // --- Where it is.
  std::size_t loop = 0;
  std::string host;
  int redirects = 0;
  int internal_tries = 0;
  Duration backoff{};
};

// Makes calls to history: routes them, follows shards that moved, tries again. See HistoryClient.
//
// Thread: any, Close excepted. Invariants: a call is asked, resting, or done.
class HistoryCalls final : public std::enable_shared_from_this<HistoryCalls> {
 public:
  HistoryCalls(HistoryClientConfig config, std::vector<exec::EventLoop*> loops);

  [[nodiscard]] std::int32_t ShardOf(std::string_view namespace_id,
                                     std::string_view workflow_id) const;
  // Sets the call's loop.
  void Start(std::unique_ptr<HistoryCall> call);
  // Runs `closure` soon where a call made now would end.
  void Post(Closure closure);
  // Ends every call, CANCELLED, those that are started meanwhile too, and waits for the last. Not
  // on a loop's thread.
  void Close();

 private:
  struct Resting {
    std::unique_ptr<HistoryCall> call;
    exec::TimerId timer = 0;
  };

  [[nodiscard]] std::size_t LoopHere() const;
  // Null: closed.
  std::shared_ptr<rpc::Channel> ChannelTo(const std::string& host, std::size_t loop);
  void Ask(std::unique_ptr<HistoryCall> call);
  void OnAnswer(std::unique_ptr<HistoryCall> call, rpc::CallResult result);
  // Ends the call with `why` instead when it has no time left for another try.
  void Rest(std::unique_ptr<HistoryCall> call, rpc::RpcStatus why);
  void Resume(std::uint64_t resting);
  void End(std::unique_ptr<HistoryCall> call, rpc::RpcStatus status, std::string response);

  const HistoryClientConfig config_;
  const std::vector<exec::EventLoop*> loops_;
  HistoryHosts hosts_;
  SystemRandom random_;

  Mutex mutex_;
  CondVar ended_;
  bool closed_ MR_GUARDED_BY(mutex_) = false;
  std::size_t calls_ MR_GUARDED_BY(mutex_) = 0;
  // By loop, then host.
  std::vector<std::map<std::string, std::shared_ptr<rpc::Channel>>> channels_ MR_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Resting> resting_ MR_GUARDED_BY(mutex_);
  std::uint64_t last_resting_ MR_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::temporal
