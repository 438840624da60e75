#include "millrace/server/prometheus_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <set>
#include <sstream>
#include <thread>

#include "millrace/server/metric_text.h"
#include "millrace/server/process_collector.h"

namespace millrace::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PrometheusMetricsTest, TextIsGolden) {
  PrometheusMetrics metrics;
  metrics.GetCounter("millrace_z_total", "Last by name.", {{"queue", "b\"\\\n"}, {"kind", "x"}})
      .Add(3);
  metrics.GetCounter("millrace_z_total", "Last by name.", {{"queue", "a"}, {"kind", "x"}})
      .Increment();
  Gauge& gauge = metrics.GetGauge("millrace_a", "First\nby name.", {});
  gauge.Set(2.5);
  gauge.Add(-1);
  Histogram& histogram =
      metrics.GetHistogram("millrace_h_seconds", "A distribution.", {0.1, 1}, {{"op", "w"}});
  for (const double value : {0.05, 0.1, 0.5, 7.0}) histogram.Observe(value);
  const std::string expected =
      "# HELP millrace_a First\\nby name.\n"
      "# TYPE millrace_a gauge\n"
      "millrace_a 1.5\n"
      "# HELP millrace_h_seconds A distribution.\n"
      "# TYPE millrace_h_seconds histogram\n"
      "millrace_h_seconds_bucket{op=\"w\",le=\"0.1\"} 2\n"
      "millrace_h_seconds_bucket{op=\"w\",le=\"1\"} 3\n"
      "millrace_h_seconds_bucket{op=\"w\",le=\"+Inf\"} 4\n"
      "millrace_h_seconds_sum{op=\"w\"} 7.65\n"
      "millrace_h_seconds_count{op=\"w\"} 4\n"
      "# HELP millrace_z_total Last by name.\n"
      "# TYPE millrace_z_total counter\n"
      "millrace_z_total{kind=\"x\",queue=\"a\"} 1\n"
      "millrace_z_total{kind=\"x\",queue=\"b\\\"\\\\\\n\"} 3\n";
  EXPECT_EQ(metrics.Scrape(), expected);
  EXPECT_EQ(metrics.Scrape(), expected);
}

TEST(PrometheusMetricsTest, SameNameAndLabelsIsTheSameObjectWhateverTheOrder) {
  PrometheusMetrics metrics;
  Counter& one = metrics.GetCounter("millrace_x_total", "X.", {{"a", "1"}, {"b", "2"}});
  Counter& two = metrics.GetCounter("millrace_x_total", "X.", {{"b", "2"}, {"a", "1"}});
  EXPECT_EQ(&one, &two);
  EXPECT_NE(&one, &metrics.GetCounter("millrace_x_total", "X.", {}));
}

TEST(PrometheusMetricsDeathTest, OneNameHasOneTypeAndLegalLetters) {
  PrometheusMetrics metrics;
  metrics.GetCounter("millrace_x", "X.", {});
  EXPECT_DEATH(metrics.GetGauge("millrace_x", "X.", {}), "type");
  EXPECT_DEATH(metrics.GetCounter("bad name", "X.", {}), "ValidMetricName");
}

TEST(PrometheusMetricsTest, CollectorsMixInAndVanish) {
  PrometheusMetrics metrics;
  metrics.GetGauge("millrace_m", "M.", {}).Set(1);
  double depth = 4;
  auto registration = metrics.AddCollector([&depth](SampleSink& sink) {
    if (depth > 0) sink.Gauge("millrace_backlog", "Tasks.", {{"queue", "q"}}, depth);
    sink.Counter("millrace_n_total", "N.", {}, 9);
  });
  EXPECT_EQ(metrics.Scrape(),
            "# HELP millrace_backlog Tasks.\n# TYPE millrace_backlog "
            "gauge\nmillrace_backlog{queue=\"q\"} 4\n"
            "# HELP millrace_m M.\n# TYPE millrace_m gauge\nmillrace_m 1\n"
            "# HELP millrace_n_total N.\n# TYPE millrace_n_total counter\nmillrace_n_total 9\n");
  depth = 0;
  EXPECT_THAT(metrics.Scrape(), Not(HasSubstr("millrace_backlog")));
  registration = {};
  EXPECT_THAT(metrics.Scrape(), Not(HasSubstr("millrace_n_total")));
}

TEST(PrometheusMetricsTest, CountsOfManyThreadsAddUpAndScrapesDoNotContradictThemselves) {
  PrometheusMetrics metrics;
  Counter& counter = metrics.GetCounter("millrace_x_total", "X.", {});
  Gauge& gauge = metrics.GetGauge("millrace_g", "G.", {});
  Histogram& histogram = metrics.GetHistogram("millrace_h", "H.", {1, 2}, {});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2'000; ++i) {
        counter.Increment();
        gauge.Add(1);
        histogram.Observe(t);
        metrics.GetCounter("millrace_y_total", "Y.", {{"t", std::to_string(t)}}).Increment();
      }
    });
  }
  for (int i = 0; i < 50; ++i) EXPECT_THAT(metrics.Scrape(), HasSubstr("millrace_h_count"));
  for (std::thread& thread : threads) thread.join();
  const std::string text = metrics.Scrape();
  EXPECT_THAT(text, HasSubstr("millrace_x_total 8000\n"));
  EXPECT_THAT(text, HasSubstr("millrace_g 8000\n"));
  EXPECT_THAT(text, HasSubstr("millrace_h_bucket{le=\"1\"} 4000\n"));
  EXPECT_THAT(text, HasSubstr("millrace_h_sum 12000\n"));
  EXPECT_THAT(text, HasSubstr("millrace_y_total{t=\"3\"} 2000\n"));
}

TEST(ProcessCollectorTest, GoldenListOfNames) {
  PrometheusMetrics metrics;
  const auto registration =
      metrics.AddCollector(ProcessCollector(WallTime{1'700'000'000'500'000'000}));
  const std::string text = metrics.Scrape();
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) names.push_back(line.substr(7));
  }
  EXPECT_THAT(names, ElementsAre("millrace_build_info gauge", "process_cpu_seconds_total counter",
                                 "process_max_fds gauge", "process_open_fds gauge",
                                 "process_resident_memory_bytes gauge",
                                 "process_start_time_seconds gauge", "process_threads gauge"));
  EXPECT_THAT(text, HasSubstr("process_start_time_seconds 1700000000.5\n"));
  EXPECT_THAT(text, HasSubstr("version=\"0."));
}

TEST(MetricTextTest, NumbersAndNames) {
  EXPECT_EQ(SampleText(0), "0");
  EXPECT_EQ(SampleText(-3), "-3");
  EXPECT_EQ(SampleText(1e15), "1000000000000000");
  EXPECT_EQ(SampleText(0.001), "0.001");
  EXPECT_EQ(SampleText(std::numeric_limits<double>::infinity()), "+Inf");
  EXPECT_EQ(SampleText(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_TRUE(ValidMetricName("millrace_a:b9"));
  EXPECT_FALSE(ValidMetricName("9a"));
  EXPECT_FALSE(ValidMetricName(""));
  EXPECT_FALSE(ValidLabelName("a:b"));
  EXPECT_EQ(LabelText({{"b", "2"}, {"a", "1"}}), "a=\"1\",b=\"2\"");
}

}  // namespace
}  // namespace millrace::server
