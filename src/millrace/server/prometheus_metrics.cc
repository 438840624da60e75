#include "millrace/server/prometheus_metrics.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/server/metric_text.h"

namespace millrace::server {
namespace {

std::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      break;
  }
  return "histogram";
}

// Families as text while a scrape puts them together: stored metrics and collectors' samples share
// one order.
struct TextFamily {
  MetricType type;
  std::string help;
  std::map<std::string, std::string> series;  // Label text to whole lines.
};
using TextFamilies = std::map<std::string, TextFamily, std::less<>>;

class TextSink final : public SampleSink {
 public:
  explicit TextSink(TextFamilies& families) : families_(families) {}

  void Counter(std::string_view name, std::string_view help, const MetricLabels& labels,
               double value) override {
    Put(name, help, labels, value, MetricType::kCounter);
  }
  void Gauge(std::string_view name, std::string_view help, const MetricLabels& labels,
             double value) override {
    Put(name, help, labels, value, MetricType::kGauge);
  }

 private:
  void Put(std::string_view name, std::string_view help, const MetricLabels& labels, double value,
           MetricType type) {
    MR_CHECK(ValidMetricName(name));
    auto it = families_.find(name);
    if (it == families_.end())
      it = families_.emplace(std::string(name), TextFamily{type, std::string(help), {}}).first;
    MR_CHECK(it->second.type == type);
    std::string label_text = LabelText(labels);
    std::string line = SampleLine(name, label_text, value);
    it->second.series[std::move(label_text)] = std::move(line);
  }

  TextFamilies& families_;
};

}  // namespace

class PrometheusMetrics::Instrument {
 public:
  virtual ~Instrument() = default;
  // All lines of this series.
  [[nodiscard]] virtual std::string Text(const std::string& name,
                                         const std::string& labels) const = 0;
};

class PrometheusMetrics::CounterImpl final : public Instrument, public Counter {
 public:
  void Add(std::uint64_t n) override { value_.fetch_add(n, std::memory_order_relaxed); }
  [[nodiscard]] std::string Text(const std::string& name,
                                 const std::string& labels) const override {
    return SampleLine(name, labels, static_cast<double>(value_.load(std::memory_order_relaxed)));
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class PrometheusMetrics::GaugeImpl final : public Instrument, public Gauge {
 public:
  void Set(double value) override { value_.store(value, std::memory_order_relaxed); }
  void Add(double delta) override { value_.fetch_add(delta, std::memory_order_relaxed); }
  [[nodiscard]] std::string Text(const std::string& name,
                                 const std::string& labels) const override {
    return SampleLine(name, labels, value_.load(std::memory_order_relaxed));
  }

 private:
  std::atomic<double> value_{0};
};

class PrometheusMetrics::HistogramImpl final : public Instrument, public Histogram {
 public:
  explicit HistogramImpl(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {
    MR_CHECK(std::is_sorted(bounds_.begin(), bounds_.end()));
  }

  void Observe(double value) override {
    const auto it = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    counts_[static_cast<std::size_t>(it - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  // The count is the sum of the buckets, so that one scrape never contradicts itself.
  [[nodiscard]] std::string Text(const std::string& name,
                                 const std::string& labels) const override {
    std::string out;
    const std::string prefix = labels.empty() ? "" : labels + ",";
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      total += counts_[i].load(std::memory_order_relaxed);
      const std::string bound = i < bounds_.size() ? SampleText(bounds_[i]) : "+Inf";
      out +=
          SampleLine(name + "_bucket", prefix + "le=\"" + bound + "\"", static_cast<double>(total));
    }
    out += SampleLine(name + "_sum", labels, sum_.load(std::memory_order_relaxed));
    return out + SampleLine(name + "_count", labels, static_cast<double>(total));
  }

  [[nodiscard]] const std::vector<double>& bounds() const { return bounds_; }

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_{0};
};

PrometheusMetrics::PrometheusMetrics() = default;
PrometheusMetrics::~PrometheusMetrics() = default;

PrometheusMetrics::Family& PrometheusMetrics::FamilyOf(std::string_view name, std::string_view help,
                                                       MetricType type) {
  auto it = families_.find(name);
  if (it == families_.end()) {
    MR_CHECK(ValidMetricName(name));
    it = families_.emplace(std::string(name), Family{type, std::string(help), {}}).first;
  }
  MR_CHECK(it->second.type == type);
  return it->second;
}

Counter& PrometheusMetrics::GetCounter(std::string_view name, std::string_view help,
                                       const MetricLabels& labels) {
  MutexLock lock(mutex_);
  std::unique_ptr<Instrument>& slot =
      FamilyOf(name, help, MetricType::kCounter).series[LabelText(labels)];
  if (slot == nullptr) slot = std::make_unique<CounterImpl>();
  return static_cast<CounterImpl&>(*slot);
}

Gauge& PrometheusMetrics::GetGauge(std::string_view name, std::string_view help,
                                   const MetricLabels& labels) {
  MutexLock lock(mutex_);
  std::unique_ptr<Instrument>& slot =
      FamilyOf(name, help, MetricType::kGauge).series[LabelText(labels)];
  if (slot == nullptr) slot = std::make_unique<GaugeImpl>();
  return static_cast<GaugeImpl&>(*slot);
}

Histogram& PrometheusMetrics::GetHistogram(std::string_view name, std::string_view help,
                                           const std::vector<double>& upper_bounds,
                                           const MetricLabels& labels) {
  MutexLock lock(mutex_);
  std::unique_ptr<Instrument>& slot =
      FamilyOf(name, help, MetricType::kHistogram).series[LabelText(labels)];
  if (slot == nullptr) slot = std::make_unique<HistogramImpl>(upper_bounds);
  auto& histogram = static_cast<HistogramImpl&>(*slot);
  MR_CHECK(histogram.bounds() == upper_bounds);
  return histogram;
}

PrometheusMetrics::Registration PrometheusMetrics::AddCollector(Collector collector) {
  MutexLock lock(collectors_mutex_);
  collectors_.emplace(++last_id_, std::move(collector));
  return Registration(this, last_id_);
}

void PrometheusMetrics::Remove(std::uint64_t id) {
  MutexLock lock(collectors_mutex_);
  collectors_.erase(id);
}

std::string PrometheusMetrics::Scrape() const {
  TextFamilies families;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, family] : families_) {
      TextFamily& text =
          families.emplace(name, TextFamily{family.type, family.help, {}}).first->second;
      for (const auto& [labels, instrument] : family.series)
        text.series[labels] = instrument->Text(name, labels);
    }
  }
  {
    TextSink sink(families);
    MutexLock lock(collectors_mutex_);
    for (const auto& [id, collector] : collectors_) collector(sink);
  }
  std::string out;
  for (const auto& [name, family] : families) {
    out += FamilyHeader(name, family.help, TypeName(family.type));
    for (const auto& [labels, lines] : family.series) out += lines;
  }
  return out;
}

PrometheusMetrics::Registration::Registration(Registration&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), id_(other.id_) {}

PrometheusMetrics::Registration& PrometheusMetrics::Registration::operator=(
    Registration&& other) noexcept {
  if (this != &other) {
    if (owner_ != nullptr) owner_->Remove(id_);
    owner_ = std::exchange(other.owner_, nullptr);
    id_ = other.id_;
  }
  return *this;
}

PrometheusMetrics::Registration::~Registration() {
  if (owner_ != nullptr) owner_->Remove(id_);
}

}  // namespace millrace::server
