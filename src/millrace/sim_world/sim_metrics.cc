#include "millrace/sim_world/sim_metrics.h"

namespace millrace::sim {
namespace {

std::string Key(std::string_view name, const MetricLabels& labels) {
  std::string key(name);
  if (labels.empty()) return key;
  key += '{';
  for (const auto& [label, value] : labels) key += label + "=" + value + ",";
  key.back() = '}';
  return key;
}

}  // namespace

class SimMetrics::SimCounter final : public Counter {
 public:
  void Add(std::uint64_t n) override { value += n; }
  std::uint64_t value = 0;
};

class SimMetrics::SimGauge final : public Gauge {
 public:
  void Set(double v) override { value = v; }
  void Add(double delta) override { value += delta; }
  double value = 0;
};

class SimMetrics::SimHistogram final : public Histogram {
 public:
  void Observe(double) override {}
};

SimMetrics::SimMetrics() : histogram_(std::make_unique<SimHistogram>()) {}
SimMetrics::~SimMetrics() = default;

Counter& SimMetrics::GetCounter(std::string_view name, std::string_view,
                                const MetricLabels& labels) {
  auto& counter = counters_[Key(name, labels)];
  if (counter == nullptr) counter = std::make_unique<SimCounter>();
  return *counter;
}

Gauge& SimMetrics::GetGauge(std::string_view name, std::string_view, const MetricLabels& labels) {
  auto& gauge = gauges_[Key(name, labels)];
  if (gauge == nullptr) gauge = std::make_unique<SimGauge>();
  return *gauge;
}

Histogram& SimMetrics::GetHistogram(std::string_view, std::string_view, const std::vector<double>&,
                                    const MetricLabels&) {
  return *histogram_;
}

void SimMetrics::AddTo(Coverage& coverage) const {
  for (const auto& [key, counter] : counters_) {
    coverage.Declare("metric " + key);
    coverage.Reach("metric " + key, counter->value);
  }
}

std::vector<std::string> SimMetrics::NonZeroGauges() const {
  std::vector<std::string> result;
  for (const auto& [key, gauge] : gauges_) {
    if (gauge->value != 0) result.push_back(key + "=" + std::to_string(gauge->value));
  }
  return result;
}

}  // namespace millrace::sim
