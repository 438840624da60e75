#pragma once

#include <string>
#include <string_view>

#include "millrace/base/metrics.h"

namespace millrace::server {

// Letters, digits, _ and : (names only), not starting with a digit.
bool ValidMetricName(std::string_view name);
bool ValidLabelName(std::string_view name);

// "a=\"x\",b=\"y\"" in the order of the names; empty for none.
std::string LabelText(const MetricLabels& labels);

// Shortest text that reads back as the same number; "+Inf", "-Inf", "NaN".
std::string SampleText(double value);

// A family's two comment lines. `type`: "counter", "gauge", "histogram".
std::string FamilyHeader(std::string_view name, std::string_view help, std::string_view type);

// One sample line. `labels` as LabelText gives them.
std::string SampleLine(std::string_view name, std::string_view labels, double value);

}  // namespace millrace::server
