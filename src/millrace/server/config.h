#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "millrace/base/log.h"
#include "millrace/base/time.h"
#include "millrace/queue/config.h"
#include "millrace/store/postgres/postgres_config.h"
#include "millrace/temporal/matching_config.h"

namespace millrace::server {

enum class StoreKind : std::uint8_t { kRocksDb, kMemory, kPostgres };
enum class SyncMode : std::uint8_t { kAlways, kRelaxed };
enum class LogFormat : std::uint8_t { kText, kJson };

struct StoreSettings {
  StoreKind kind = StoreKind::kRocksDb;
  SyncMode sync = SyncMode::kAlways;
  std::size_t block_cache_bytes = 64u << 20;
};

// What is asked of clients once there is a file of CAs to check them with.
enum class ClientAuth : std::uint8_t { kRequired, kOptional };

// Off without a certificate.
struct TlsSettings {
  std::string cert_file;
  std::string key_file;
  std::string client_ca_file;
  ClientAuth client_auth = ClientAuth::kRequired;
};

struct RpcSettings {
  std::size_t request_bytes_max = 16u << 20;
  std::size_t connections_max = 10'000;
  std::uint32_t concurrent_streams_max = 1'000;
  Duration idle_timeout = Duration::zero();
  Duration connection_age_max = Duration::zero();
  Duration connection_age_grace = std::chrono::minutes(2);
  Duration keepalive_time = std::chrono::minutes(1);
  Duration keepalive_timeout = std::chrono::seconds(20);
  Duration ping_interval_min = std::chrono::seconds(5);
  bool ping_only_with_calls = false;
  TlsSettings tls;
};

// One of several nodes on a database; of no effect with a store of one's own.
struct NodeSettings {
  std::string id;                 // Empty = the host's name and a random part.
  std::string advertise_address;  // Empty = the address of `listen`.
  Duration heartbeat = std::chrono::seconds(1);
  Duration expiry = std::chrono::seconds(5);
  // As clients of the other nodes, when those speak TLS. Empty certificate = the server's own.
  std::string tls_ca_file;
  std::string tls_cert_file;
  std::string tls_key_file;
  std::string tls_server_name;
};

struct LogSettings {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

// Being the matching service of a Temporal cluster.
struct TemporalSettings {
  bool enabled = false;
  std::string history_hosts;
  std::int32_t history_shards = 0;
  std::string advertise;
  temporal::MatchingConfig matching;
};

// Everything a server is told at its start. The member values are the defaults; the table in
// setting_table.cc gives each a name, a flag, an environment variable, bounds and a line of help.
struct ServerConfig {
  std::string listen = "127.0.0.1:7630";
  std::string admin_listen = "127.0.0.1:7631";
  std::string data_dir;
  std::string ready_file;
  bool dev = false;
  std::int32_t event_loops = 0;  // 0 = one per usable core, at most 4.
  Duration shutdown_grace = std::chrono::seconds(30);
  std::size_t metrics_queues_max = 1'000;
  LogSettings log;
  StoreSettings store;
  store::PostgresConfig postgres;
  RpcSettings rpc;
  NodeSettings node;
  queue::QueueConfig queue;
  TemporalSettings temporal;
};

}  // namespace millrace::server
