#include "millrace/cli/store_traffic.h"

#include <httplib.h>

#include <cstdlib>

namespace millrace::cli {
namespace {

// The value of a sample without labels.
std::optional<double> Sample(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at > 0 && text[at - 1] != '\n') || end >= text.size() || text[end] != ' ') continue;
    return std::strtod(std::string(text.substr(end + 1, 32)).c_str(), nullptr);
  }
  return std::nullopt;
}

}  // namespace

std::optional<StoreTraffic> ParseStoreTraffic(std::string_view metrics) {
  const std::optional<double> statements = Sample(metrics, "millrace_postgres_statements_total");
  if (!statements) return std::nullopt;
  StoreTraffic traffic;
  traffic.statements = *statements;
  traffic.round_trips = Sample(metrics, "millrace_postgres_round_trips_total").value_or(0);
  traffic.commits = Sample(metrics, "millrace_postgres_commits_total").value_or(0);
  traffic.groups = Sample(metrics, "millrace_store_commit_seconds_count").value_or(0);
  return traffic;
}

std::optional<StoreTraffic> ReadStoreTraffic(const std::string& admin_address) {
  if (admin_address.empty()) return std::nullopt;
  httplib::Client client("http://" + admin_address);
  const httplib::Result reply = client.Get("/metrics");
  if (!reply || reply->status != 200) return std::nullopt;
  return ParseStoreTraffic(reply->body);
}

}  // namespace millrace::cli
