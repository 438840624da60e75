#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/metrics.h"
#include "millrace/sim_world/coverage.h"

namespace millrace::sim {

// A registry whose counters serve as coverage marks: the engine counts its rare branches for
// operators anyway. Thread: one at a time.
class SimMetrics final : public Metrics {
 public:
  Counter& GetCounter(std::string_view name, std::string_view help,
                      const MetricLabels& labels) override;
  Gauge& GetGauge(std::string_view name, std::string_view help,
                  const MetricLabels& labels) override;
  Histogram& GetHistogram(std::string_view name, std::string_view help,
                          const std::vector<double>& upper_bounds,
                          const MetricLabels& labels) override;

  // Adds every counter as the mark "metric <name>{<labels>}".
  void AddTo(Coverage& coverage) const;
  // Gauges that are not zero, as "name{labels}=value".
  [[nodiscard]] std::vector<std::string> NonZeroGauges() const;

 private:
  class SimCounter;
  class SimGauge;
  class SimHistogram;

  std::map<std::string, std::unique_ptr<SimCounter>> counters_;
  std::map<std::string, std::unique_ptr<SimGauge>> gauges_;
  std::unique_ptr<SimHistogram> histogram_;

 public:
  SimMetrics();
  ~SimMetrics() override;
};

}  // namespace millrace::sim
