#include "millrace/server/temporal_part.h"

#include <algorithm>
#include <utility>

namespace millrace::server {
namespace {

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> out;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    std::string part = text.substr(start, comma - start);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    if (!part.empty()) out.push_back(std::move(part));
    start = comma + 1;
  }
  return out;
}

std::vector<exec::Executor*> Executors(const std::vector<exec::EventLoop*>& loops) {
  return {loops.begin(), loops.end()};
}

}  // namespace

Result<temporal::HistoryClientConfig> HistoryConfigFrom(const TemporalSettings& settings) {
  if (settings.history_shards <= 0) {
    return Status(StatusCode::kInvalidArgument,
                  "temporal.history_shards is not set: it is numHistoryShards of the cluster");
  }
  temporal::HistoryClientConfig config;
  config.hosts = SplitList(settings.history_hosts);
  config.shards = settings.history_shards;
  const Status valid = temporal::CheckHistoryClientConfig(config);
  if (valid.ok()) return config;
  return Status(StatusCode::kInvalidArgument,
                "temporal.history_hosts: " + std::string(valid.message()));
}

TemporalPart::TemporalPart(const ApplicationEnvironment& environment)
    : history_(HistoryConfigFrom(environment.config.temporal).value(), environment.loops),
      service_(environment.config.temporal.matching,
               environment.config.temporal.advertise.empty()
                   ? environment.config.listen
                   : environment.config.temporal.advertise,
               Executors(environment.loops), environment.store, history_, environment.random,
               environment.log, environment.metrics) {
  loaded_queues_ = environment.metrics.AddCollector([this](SampleSink& sink) {
    sink.Gauge("millrace_temporal_loaded_task_queues", "Temporal task queues held in memory.", {},
               static_cast<double>(service_.loaded_queues()));
  });
}

}  // namespace millrace::server
