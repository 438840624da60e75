#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// A number that only grows. Thread: any.
class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(std::uint64_t n) = 0;
  void Increment() { Add(1); }
};

// A number that goes up and down. Thread: any.
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual void Add(double delta) = 0;
};

// A distribution; units are in the metric's name. Thread: any.
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// Registry of metrics. Asking again for the same name and labels returns the same object, which
// lives as long as the registry; ask once at construction, not per event. Names: prefix millrace_,
// base units, _total for counters. Thread: any.
class Metrics {
 public:
  virtual ~Metrics() = default;
  virtual Counter& GetCounter(std::string_view name, std::string_view help,
                              const MetricLabels& labels = {}) = 0;
  virtual Gauge& GetGauge(std::string_view name, std::string_view help,
                          const MetricLabels& labels = {}) = 0;
  // upper_bounds: ascending bucket limits; +Inf is added.
  virtual Histogram& GetHistogram(std::string_view name, std::string_view help,
                                  const std::vector<double>& upper_bounds,
                                  const MetricLabels& labels = {}) = 0;
};

// A registry that keeps nothing, for tests and tools. It has no state, so sharing it is harmless.
Metrics& NullMetrics();

}  // namespace millrace
