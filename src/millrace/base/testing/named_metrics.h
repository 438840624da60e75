#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/metrics.h"

namespace millrace {

// Remembers what was registered.
class NamedMetrics final : public Metrics {
 public:
  Counter& GetCounter(std::string_view name, std::string_view,
                      const MetricLabels& labels) override {
    Note("counter", name, labels);
    return NullMetrics().GetCounter(name, {});
  }
  Gauge& GetGauge(std::string_view name, std::string_view, const MetricLabels& labels) override {
    Note("gauge", name, labels);
    return NullMetrics().GetGauge(name, {});
  }
  Histogram& GetHistogram(std::string_view name, std::string_view,
                          const std::vector<double>& bounds, const MetricLabels& labels) override {
    Note("histogram", name, labels);
    return NullMetrics().GetHistogram(name, {}, bounds);
  }

  std::set<std::string> names;

 private:
  void Note(const char* kind, std::string_view name, const MetricLabels& labels) {
    std::string line = std::string(kind) + " " + std::string(name);
    for (const auto& [label, value] : labels) line += " " + label + "=" + value;
    names.insert(line);
  }
};

}  // namespace millrace
