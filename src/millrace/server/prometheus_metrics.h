#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/annotations.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"

namespace millrace::server {

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };

// Takes the values a collector has at the moment of a scrape.
class SampleSink {
 public:
  virtual ~SampleSink() = default;
  virtual void Counter(std::string_view name, std::string_view help, const MetricLabels& labels,
                       double value) = 0;
  virtual void Gauge(std::string_view name, std::string_view help, const MetricLabels& labels,
                     double value) = 0;
};

// Runs on the scraping thread: reads numbers that are in memory already; no store, no waiting for a
// strand.
using Collector = std::function<void(SampleSink&)>;

// The process's metrics and their text for Prometheus. Families and series come out in the order of
// their names, so that two scrapes of the same values are the same bytes. A series that a collector
// no longer gives is gone.
//
// Thread: any. Updates are single atomic operations; a lock is taken only to find a metric and to
// scrape. Bounds: as many series as are asked for; whoever labels by queue bounds the labels.
// Invariants: one name has one type; asking for it as another stops the process.
class PrometheusMetrics final : public Metrics {
 public:
  // Keeps a collector registered; after destruction it neither runs nor is running.
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration();

   private:
    friend class PrometheusMetrics;
    Registration(PrometheusMetrics* owner, std::uint64_t id) : owner_(owner), id_(id) {}
    PrometheusMetrics* owner_ = nullptr;
    std::uint64_t id_ = 0;
  };

  PrometheusMetrics();
  ~PrometheusMetrics() override;

  Counter& GetCounter(std::string_view name, std::string_view help,
                      const MetricLabels& labels) override;
  Gauge& GetGauge(std::string_view name, std::string_view help,
                  const MetricLabels& labels) override;
  Histogram& GetHistogram(std::string_view name, std::string_view help,
                          const std::vector<double>& upper_bounds,
                          const MetricLabels& labels) override;

  [[nodiscard]] Registration AddCollector(Collector collector);

  // Text exposition format 0.0.4.
  [[nodiscard]] std::string Scrape() const;

 private:
  class Instrument;
  class CounterImpl;
  class GaugeImpl;
  class HistogramImpl;
  struct Family {
    MetricType type;
    std::string help;
    std::map<std::string, std::unique_ptr<Instrument>> series;  // By label text.
  };

  Family& FamilyOf(std::string_view name, std::string_view help, MetricType type)
      MR_REQUIRES(mutex_);
  void Remove(std::uint64_t id);

  mutable Mutex mutex_;
  std::map<std::string, Family, std::less<>> families_ MR_GUARDED_BY(mutex_);
  // Held while collectors run, so that removal waits for them.
  mutable Mutex collectors_mutex_;
  std::map<std::uint64_t, Collector> collectors_ MR_GUARDED_BY(collectors_mutex_);
  std::uint64_t last_id_ MR_GUARDED_BY(collectors_mutex_) = 0;
};

}  // namespace millrace::server
