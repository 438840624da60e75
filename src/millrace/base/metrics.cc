#include "millrace/base/metrics.h"

namespace millrace {
namespace {

class NullCounter final : public Counter {
 public:
  void Add(std::uint64_t) override {}
};

class NullGauge final : public Gauge {
 public:
  void Set(double) override {}
  void Add(double) override {}
};

class NullHistogram final : public Histogram {
 public:
  void Observe(double) override {}
};

class NullRegistry final : public Metrics {
 public:
  Counter& GetCounter(std::string_view, std::string_view, const MetricLabels&) override {
    return counter_;
  }
  Gauge& GetGauge(std::string_view, std::string_view, const MetricLabels&) override {
    return gauge_;
  }
  Histogram& GetHistogram(std::string_view, std::string_view, const std::vector<double>&,
                          const MetricLabels&) override {
    return histogram_;
  }

 private:
  NullCounter counter_;
  NullGauge gauge_;
  NullHistogram histogram_;
};

}  // namespace

Metrics& NullMetrics() {
  static NullRegistry registry;
  return registry;
}

}  // namespace millrace
