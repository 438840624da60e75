#include <concepts>
#include <regex>
#include <string>
#include <type_traits>

#include "millrace/server/setting.h"

namespace millrace::server {
namespace {

void Assign(std::string& to, const SettingValue& value) { to = std::get<std::string>(value); }
void Assign(bool& to, const SettingValue& value) { to = std::get<bool>(value); }
void Assign(Duration& to, const SettingValue& value) {
  to = Duration(std::get<std::int64_t>(value));
}
template <typename T>
  requires(std::integral<T> || std::is_enum_v<T>)
void Assign(T& to, const SettingValue& value) {
  to = static_cast<T>(std::get<std::int64_t>(value));
}

SettingValue Read(const std::string& from) { return from; }
SettingValue Read(bool from) { return from; }
SettingValue Read(Duration from) { return std::int64_t{from.count()}; }
template <typename T>
  requires(std::integral<T> || std::is_enum_v<T>)
SettingValue Read(T from) {
  return static_cast<std::int64_t>(from);
}

// The two accessors of a member of ServerConfig.
#define MR_FIELD(path)                                                  \
  .read = [](const ServerConfig& config) { return Read(config.path); }, \
  .write = [](ServerConfig& config, const SettingValue& value) { Assign(config.path, value); }

// The connection string as it may be shown: without what stands for a password in it.
std::string HidePassword(const std::string& url) {
  static const std::regex pair("(password\\s*=\\s*)('(\\\\.|[^'])*'|[^\\s&]*)");
  static const std::regex user("(://[^/:@?]*:)[^@/]*@");
  return std::regex_replace(std::regex_replace(url, user, "$1***@"), pair, "$1***");
}

constexpr std::int64_t kKiB = 1 << 10;
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;
constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1'000 * kMillisecond;
constexpr std::int64_t kHour = 3'600 * kSecond;
constexpr std::int64_t kDay = 24 * kHour;

using enum SettingType;

void AddTemporal(std::vector<Setting>& table) {
  table.push_back({.name = "temporal.enabled",
                   .type = kBool,
                   .help = "serve a Temporal cluster as its matching service, on the same address",
                   MR_FIELD(temporal.enabled)});
  table.push_back({.name = "temporal.history_hosts",
                   .type = kString,
                   .help = "gRPC addresses of the cluster's history hosts, host:port, comma "
                           "separated, in the order that the cluster's own list has",
                   MR_FIELD(temporal.history_hosts)});
  table.push_back({.name = "temporal.history_shards",
                   .type = kInt,
                   .help = "numHistoryShards of the cluster",
                   MR_FIELD(temporal.history_shards),
                   .max = 1'000'000});
  table.push_back({.name = "temporal.advertise",
                   .type = kString,
                   .help = "what this host is called when the cluster asks who has a task queue; "
                           "empty = the address it listens on",
                   MR_FIELD(temporal.advertise)});
  table.push_back({.name = "temporal.partitions",
                   .type = kInt,
                   .help = "partitions of a task queue, as matching.numTaskqueueReadPartitions of "
                           "the cluster",
                   MR_FIELD(temporal.matching.partitions),
                   .min = 1,
                   .max = 1'000});
  table.push_back({.name = "temporal.poll_wait_max",
                   .type = kDuration,
                   .help = "longest wait of a poll; then it is answered empty",
                   MR_FIELD(temporal.matching.poll_wait_max),
                   .min = kSecond,
                   .max = kHour});
  table.push_back({.name = "temporal.backlog_age_max",
                   .type = kDuration,
                   .help = "new tasks go straight to waiting polls unless a stored one is older",
                   MR_FIELD(temporal.matching.sync_match_backlog_age_max),
                   .max = kDay});
  table.push_back({.name = "temporal.sync_start_timeout",
                   .type = kDuration,
                   .help = "time limit of history's start of a task whose adder waits",
                   MR_FIELD(temporal.matching.sync_start_timeout),
                   .min = 10 * kMillisecond,
                   .max = kHour});
  table.push_back({.name = "temporal.backlog_start_timeout",
                   .type = kDuration,
                   .help = "time limit of history's start of a stored task",
                   MR_FIELD(temporal.matching.backlog_start_timeout),
                   .min = 10 * kMillisecond,
                   .max = kHour});
  table.push_back({.name = "temporal.sticky_unavailable_after",
                   .type = kDuration,
                   .help = "a sticky queue that nobody polled for so long takes no tasks",
                   MR_FIELD(temporal.matching.sticky_unavailable_after),
                   .min = 100 * kMillisecond,
                   .max = kHour});
  table.push_back({.name = "temporal.idle_unload",
                   .type = kDuration,
                   .help = "a task queue without polls and new tasks leaves memory after this",
                   MR_FIELD(temporal.matching.idle_unload),
                   .min = kSecond,
                   .max = kDay});
}

std::vector<Setting> MakeTable() {
  std::vector<Setting> table;
  table.push_back({.name = "listen",
                   .type = kString,
                   .help = "address of the gRPC service: host:port, [ipv6]:port or unix:/path; "
                           "port 0 takes a free one",
                   MR_FIELD(listen)});
  table.push_back(
      {.name = "data_dir",
       .type = kString,
       .help = "folder that holds all queues; made when missing; used by one server at a time",
       MR_FIELD(data_dir)});
  table.push_back(
      {.name = "dev",
       .type = kBool,
       .help = "for trying out: a temporary data folder, removed at exit, unless one is given",
       MR_FIELD(dev)});
  table.push_back({.name = "ready_file",
                   .type = kString,
                   .help = "file written once serving, as JSON with the real addresses and the "
                           "pid; removed at exit",
                   MR_FIELD(ready_file)});
  table.push_back(
      {.name = "event_loops",
       .type = kInt,
       .help = "threads that carry connections and queues; 0 = one per usable core, at most 4",
       MR_FIELD(event_loops),
       .max = 256});

  table.push_back(
      {.name = "admin.listen",
       .type = kString,
       .help = "address of the admin HTTP service: health, metrics, version; empty turns it off",
       MR_FIELD(admin_listen)});

  table.push_back({.name = "log.level",
                   .type = kEnum,
                   .help = "least severe level that is logged",
                   MR_FIELD(log.level),
                   .choices = {"debug", "info", "warn", "error"}});
  table.push_back({.name = "log.format",
                   .type = kEnum,
                   .help = "one line per event, for people or as JSON",
                   MR_FIELD(log.format),
                   .choices = {"text", "json"}});

  table.push_back(
      {.name = "shutdown.grace",
       .type = kDuration,
       .help = "how long a stopping server lets calls in flight end before it cancels them",
       MR_FIELD(shutdown_grace),
       .max = kHour});

  table.push_back({.name = "store.kind",
                   .type = kEnum,
                   .help = "rocksdb keeps tasks in data_dir, postgres in the database at "
                           "postgres.url; memory loses everything at exit",
                   MR_FIELD(store.kind),
                   .choices = {"rocksdb", "memory", "postgres"}});
  table.push_back(
      {.name = "store.sync",
       .type = kEnum,
       .help =
           "always: an acknowledged task survives power loss; relaxed: acknowledged once the "
           "system has it, so a power failure may lose the last seconds (a killed process loses "
           "nothing either way)",
       MR_FIELD(store.sync),
       .choices = {"always", "relaxed"}});
  table.push_back({.name = "store.block_cache",
                   .type = kSize,
                   .help = "memory for blocks read from disk",
                   MR_FIELD(store.block_cache_bytes),
                   .min = kMiB,
                   .max = 64 * 1024 * kMiB});
  table.push_back({.name = "store.relaxed_write_delay",
                   .type = kDuration,
                   .help = "how long a write that may be late (a remembered lease) waits for "
                           "another to ride along with",
                   MR_FIELD(queue.backlog.relaxed_write_delay),
                   .max = kSecond});

  table.push_back(
      {.name = "postgres.url",
       .type = kString,
       .help = "connection string of the database, a URI or key=value pairs; what it leaves out "
               "comes from PG* variables, service file and password file",
       .read = [](const ServerConfig& config) -> SettingValue {
         return HidePassword(config.postgres.url);
       },
       .write = [](ServerConfig& config,
                   const SettingValue& value) { Assign(config.postgres.url, value); }});
  table.push_back(
      {.name = "postgres.connections_max",
       .type = kInt,
       .help = "connections to the database: one writes, one deletes what is done, the others read",
       MR_FIELD(postgres.connections_max),
       .min = 2,
       .max = 1'000});
  table.push_back({.name = "postgres.connect_timeout",
                   .type = kDuration,
                   .help = "how long making a connection may take",
                   MR_FIELD(postgres.connect_timeout),
                   .min = 100 * kMillisecond,
                   .max = kHour});
  table.push_back({.name = "postgres.statement_timeout",
                   .type = kDuration,
                   .help = "how long the database may work on one statement",
                   MR_FIELD(postgres.statement_timeout),
                   .min = 100 * kMillisecond,
                   .max = kHour});
  table.push_back({.name = "postgres.lock_timeout",
                   .type = kDuration,
                   .help = "how long a write waits for a queue's row that another session locked",
                   MR_FIELD(postgres.lock_timeout),
                   .min = 10 * kMillisecond,
                   .max = kHour});

  table.push_back({.name = "rpc.connections_max",
                   .type = kInt,
                   .help = "open client connections",
                   MR_FIELD(rpc.connections_max),
                   .min = 1,
                   .max = 1'000'000});
  table.push_back({.name = "rpc.concurrent_streams_max",
                   .type = kInt,
                   .help = "calls in flight on one connection",
                   MR_FIELD(rpc.concurrent_streams_max),
                   .min = 1,
                   .max = 1'000'000});
  table.push_back({.name = "rpc.idle_timeout",
                   .type = kDuration,
                   .help = "closes a connection without calls after this; 0 = never",
                   MR_FIELD(rpc.idle_timeout),
                   .max = kDay});

  table.push_back({.name = "rpc.connection_age_max",
                   .type = kDuration,
                   .help = "a connection this old, +-10 %, is told to go, so that clients look for "
                           "other servers; 0 = never",
                   MR_FIELD(rpc.connection_age_max),
                   .max = 30 * kDay});
  table.push_back({.name = "rpc.connection_age_grace",
                   .type = kDuration,
                   .help = "how long the calls of a connection that was told to go may take to end",
                   MR_FIELD(rpc.connection_age_grace),
                   .max = kDay});
  table.push_back(
      {.name = "rpc.keepalive_time",
       .type = kDuration,
       .help = "a client that is silent for this long is asked for a sign of life; 0 = never",
       MR_FIELD(rpc.keepalive_time),
       .max = kDay});
  table.push_back({.name = "rpc.keepalive_timeout",
                   .type = kDuration,
                   .help = "how long it may take to answer before its connection is closed",
                   MR_FIELD(rpc.keepalive_timeout),
                   .min = kSecond,
                   .max = kHour});
  table.push_back({.name = "rpc.ping_interval_min",
                   .type = kDuration,
                   .help = "clients that ask for signs of life more often than this are sent away",
                   MR_FIELD(rpc.ping_interval_min),
                   .max = kDay});
  table.push_back({.name = "rpc.ping_only_with_calls",
                   .type = kBool,
                   .help =
                       "clients may ask for signs of life only while they have calls, as gRPC's "
                       "own servers have it",
                   MR_FIELD(rpc.ping_only_with_calls)});
  table.push_back({.name = "rpc.tls_cert_file",
                   .type = kString,
                   .help = "PEM file with the server's certificate and its intermediates: TCP "
                           "addresses then speak TLS only; read again when it changes",
                   MR_FIELD(rpc.tls.cert_file)});
  table.push_back({.name = "rpc.tls_key_file",
                   .type = kString,
                   .help = "PEM file with that certificate's key",
                   MR_FIELD(rpc.tls.key_file)});
  table.push_back({.name = "rpc.tls_client_ca_file",
                   .type = kString,
                   .help = "PEM file with the CAs of clients' certificates: clients are then asked "
                           "for one",
                   MR_FIELD(rpc.tls.client_ca_file)});
  table.push_back({.name = "rpc.tls_client_auth",
                   .type = kEnum,
                   .help = "required: no connection without a client certificate; optional: one "
                           "that is shown must be good",
                   MR_FIELD(rpc.tls.client_auth),
                   .choices = {"required", "optional"}});

  table.push_back({.name = "node.id",
                   .type = kString,
                   .help = "name of this node among those that share a database; unset = the "
                           "host's name and a random part",
                   MR_FIELD(node.id)});
  table.push_back({.name = "node.advertise_address",
                   .type = kString,
                   .help = "where the other nodes reach this one; unset = the address it listens "
                           "on, with the host's name for \"all addresses\"",
                   MR_FIELD(node.advertise_address)});
  table.push_back({.name = "node.heartbeat",
                   .type = kDuration,
                   .help = "how often a node tells the others that it is alive",
                   MR_FIELD(node.heartbeat),
                   .min = 50 * kMillisecond,
                   .max = kHour});
  table.push_back({.name = "node.expiry",
                   .type = kDuration,
                   .help = "a node that was not heard of for this long loses its queues to the "
                           "others; at least three heartbeats, and the same for all nodes",
                   MR_FIELD(node.expiry),
                   .min = 200 * kMillisecond,
                   .max = kDay});
  table.push_back({.name = "node.tls_ca_file",
                   .type = kString,
                   .help = "PEM file with the CA of the nodes' certificates, instead of the "
                           "system's roots; nodes with a certificate speak TLS with each other",
                   MR_FIELD(node.tls_ca_file)});
  table.push_back({.name = "node.tls_cert_file",
                   .type = kString,
                   .help = "PEM file with the certificate that this node shows to others; unset = "
                           "its own as a server",
                   MR_FIELD(node.tls_cert_file)});
  table.push_back({.name = "node.tls_key_file",
                   .type = kString,
                   .help = "PEM file with that certificate's key",
                   MR_FIELD(node.tls_key_file)});
  table.push_back({.name = "node.tls_server_name",
                   .type = kString,
                   .help = "whom the nodes' certificates must be for, instead of their address's "
                           "host",
                   MR_FIELD(node.tls_server_name)});

  table.push_back({.name = "limits.payload_bytes_max",
                   .type = kSize,
                   .help = "payload of one task",
                   MR_FIELD(queue.payload_bytes_max),
                   .min = kKiB,
                   .max = 16 * kMiB});
  table.push_back({.name = "limits.request_bytes_max",
                   .type = kSize,
                   .help = "one whole request, all its tasks together",
                   MR_FIELD(rpc.request_bytes_max),
                   .min = 64 * kKiB,
                   .max = 64 * kMiB});
  table.push_back({.name = "limits.tasks_per_request_max",
                   .type = kInt,
                   .help = "tasks of one Enqueue, Lease, Complete and so on",
                   MR_FIELD(queue.items_per_request_max),
                   .min = 1,
                   .max = 100'000});
  table.push_back({.name = "limits.lease_min",
                   .type = kDuration,
                   .help = "shortest lease a worker may ask for",
                   MR_FIELD(queue.lease_duration_min),
                   .min = kMillisecond,
                   .max = kDay});
  table.push_back({.name = "limits.lease_default",
                   .type = kDuration,
                   .help = "lease given when the worker does not say",
                   MR_FIELD(queue.lease_duration_default),
                   .min = kMillisecond,
                   .max = kDay});
  table.push_back({.name = "limits.lease_max",
                   .type = kDuration,
                   .help = "longest lease a worker may ask for",
                   MR_FIELD(queue.lease_duration_max),
                   .min = kMillisecond,
                   .max = 30 * kDay});
  table.push_back({.name = "limits.poll_wait_max",
                   .type = kDuration,
                   .help = "longest wait of a Lease call for a task",
                   MR_FIELD(queue.poll_wait_max),
                   .max = kHour});
  table.push_back(
      {.name = "limits.max_attempts_default",
       .type = kInt,
       .help = "attempts of a task, the first included, before it is dead; 0 = no limit",
       MR_FIELD(queue.max_attempts_default),
       .max = 1'000'000});

  table.push_back(
      {.name = "queue.idle_unload_after",
       .type = kDuration,
       .help = "a queue without calls for this long leaves memory; its tasks stay stored",
       MR_FIELD(queue.idle_unload),
       .min = kSecond,
       .max = 30 * kDay});
  table.push_back({.name = "queue.pollers_max",
                   .type = kInt,
                   .help = "Lease calls that wait on one queue; more are refused at once",
                   MR_FIELD(queue.pollers_max),
                   .min = 1,
                   .max = 1'000'000});
  table.push_back({.name = "queue.leases_max",
                   .type = kInt,
                   .help = "tasks of one queue that may be leased at a time; further calls wait",
                   MR_FIELD(queue.leases_max),
                   .min = 1,
                   .max = 10'000'000});
  table.push_back(
      {.name = "metrics.queues_max",
       .type = kInt,
       .help = "queues that get their own label in metrics; the rest are summed under _other",
       MR_FIELD(metrics_queues_max),
       .max = 100'000});

  table.push_back({.name = "backlog.range_size",
                   .type = kInt,
                   .help = "task ids of one block",
                   MR_FIELD(queue.backlog.range_size),
                   .min = 1'000,
                   .max = 100'000'000});
  table.push_back({.name = "backlog.outstanding_appends_max",
                   .type = kInt,
                   .help = "tasks of one queue waiting to be written; more are refused at once",
                   MR_FIELD(queue.backlog.outstanding_appends_max),
                   .min = 1,
                   .max = 1'000'000});
  table.push_back({.name = "backlog.write_batch_max",
                   .type = kInt,
                   .help = "tasks of one queue written together",
                   MR_FIELD(queue.backlog.write_batch_max),
                   .min = 1,
                   .max = 100'000});
  table.push_back({.name = "backlog.write_batch_bytes_max",
                   .type = kSize,
                   .help = "payload bytes of one queue written together",
                   MR_FIELD(queue.backlog.write_batch_bytes_max),
                   .min = kKiB,
                   .max = 64 * kMiB});
  table.push_back({.name = "backlog.page_size",
                   .type = kInt,
                   .help = "tasks of one queue held in memory for the next pollers",
                   MR_FIELD(queue.backlog.page_size),
                   .min = 1,
                   .max = 1'000'000});
  table.push_back({.name = "backlog.page_bytes_max",
                   .type = kSize,
                   .help = "payload bytes of one queue held in memory for the next pollers",
                   MR_FIELD(queue.backlog.page_bytes_max),
                   .min = 64 * kKiB,
                   .max = kGiB});
  table.push_back({.name = "backlog.update_interval",
                   .type = kDuration,
                   .help = "how often the position and count of a busy queue are saved",
                   MR_FIELD(queue.backlog.update_interval),
                   .min = kSecond,
                   .max = kDay});
  table.push_back({.name = "backlog.final_io_timeout",
                   .type = kDuration,
                   .help = "time limit of the last write of a queue that stops",
                   MR_FIELD(queue.backlog.final_io_timeout),
                   .min = 10 * kMillisecond,
                   .max = kHour});
  table.push_back({.name = "backlog.store_retry_min",
                   .type = kDuration,
                   .help = "first wait after a store error",
                   MR_FIELD(queue.backlog.store_retry_min),
                   .min = kMillisecond,
                   .max = kHour});
  table.push_back({.name = "backlog.store_retry_max",
                   .type = kDuration,
                   .help = "longest wait after repeated store errors",
                   MR_FIELD(queue.backlog.store_retry_max),
                   .min = kMillisecond,
                   .max = kHour});
  AddTemporal(table);
  return table;
}

}  // namespace

std::span<const Setting> ServerSettings() {
  static const std::vector<Setting> table = MakeTable();
  return table;
}

}  // namespace millrace::server
