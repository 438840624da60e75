#include "millrace/server/admin_http.h"

#include <httplib.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "millrace/server/host_port.h"

namespace millrace::server {
namespace {

constexpr int kRequestTimeoutSeconds = 2;
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kPage[] =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Millrace</title></head>"
    "<body><h1>Millrace</h1><ul>"
    "<li><a href=\"/livez\">/livez</a> the process runs</li>"
    "<li><a href=\"/readyz\">/readyz</a> it takes work now, or why not</li>"
    "<li><a href=\"/metrics\">/metrics</a> numbers for Prometheus</li>"
    "<li><a href=\"/version\">/version</a> which build this is</li>"
    "</ul></body></html>\n";

// The library's default would let a second server share the port and take half of the requests.
void SocketOptions(int socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

}  // namespace

struct AdminHttp::Impl {
  explicit Impl(AdminHooks h) : hooks(std::move(h)) {}

  void Routes() {
    server.Get("/livez", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ok\n", kText);
    });
    server.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      const Status ready = hooks.ready();
      response.status = ready.ok() ? 200 : 503;
      response.set_content(ready.ok() ? "ok\n" : std::string(ready.message()) + "\n", kText);
    });
    server.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(hooks.metrics(), "text/plain; version=0.0.4; charset=utf-8");
    });
    server.Get("/version", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(hooks.version() + "\n", "application/json");
    });
    server.Get("/", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(kPage, "text/html; charset=utf-8");
    });
    server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) {
        response.set_content("there is /livez /readyz /metrics /version and /\n", kText);
      }
    });
  }

  void Limits() {
    server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server.set_keep_alive_max_count(1);
    server.set_keep_alive_timeout(kRequestTimeoutSeconds);
    server.set_read_timeout(kRequestTimeoutSeconds);
    server.set_write_timeout(kRequestTimeoutSeconds);
    server.set_payload_max_length(4'096);
    server.set_socket_options(SocketOptions);
    server.set_default_headers(
        {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
  }

  AdminHooks hooks;
  httplib::Server server;
  std::thread acceptor;
};

AdminHttp::AdminHttp(std::unique_ptr<Impl> impl, std::string address)
    : impl_(std::move(impl)), address_(std::move(address)) {}

Result<std::unique_ptr<AdminHttp>> AdminHttp::Start(const std::string& listen, AdminHooks hooks) {
  Result<HostPort> parsed = ParseHostPort(listen);
  if (!parsed.ok())
    return Status(parsed.code(), "admin.listen: " + std::string(parsed.status().message()));
  auto impl = std::make_unique<Impl>(std::move(hooks));
  impl->Routes();
  impl->Limits();
  errno = 0;
  if (parsed->port == 0) {
    parsed->port = impl->server.bind_to_any_port(parsed->host);
  } else if (!impl->server.bind_to_port(parsed->host, parsed->port)) {
    parsed->port = -1;
  }
  if (parsed->port < 0) {
    const std::string words = errno != 0 ? std::strerror(errno) : "the name does not resolve";
    return Status(StatusCode::kUnavailable,
                  "admin.listen: cannot listen on " + listen + ": " + words);
  }
  impl->acceptor = std::thread([server = &impl->server] { server->listen_after_bind(); });
  // A stop before the acceptor runs would be missed by the library.
  while (!impl->server.is_running()) std::this_thread::yield();
  return std::unique_ptr<AdminHttp>(new AdminHttp(std::move(impl), parsed->ToString()));
}

AdminHttp::~AdminHttp() {
  impl_->server.stop();
  impl_->acceptor.join();
}

}  // namespace millrace::server
