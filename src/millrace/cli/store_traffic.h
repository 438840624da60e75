#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace::cli {

// What a server has asked of its database so far.
struct StoreTraffic {
  double statements = 0;
  double round_trips = 0;
  double commits = 0;
  double groups = 0;  // Batches of waiting writes.
};

// From the text of /metrics; nothing when the server uses no database.
std::optional<StoreTraffic> ParseStoreTraffic(std::string_view metrics);

// Asks the admin service at host:port. Nothing when it does not answer or uses no database.
std::optional<StoreTraffic> ReadStoreTraffic(const std::string& admin_address);

}  // namespace millrace::cli
