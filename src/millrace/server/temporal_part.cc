#include "millrace/server/temporal_part.h"

#include <utility>

#include "millrace/server/value_text.h"

namespace millrace::server {

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
