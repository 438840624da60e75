#pragma once

#include <functional>
#include <memory>
#include <string>

#include "millrace/base/status.h"

namespace millrace::server {

// What the admin pages show. Called from the admin threads; must not block.
struct AdminHooks {
  std::function<Status()> ready;         // /readyz: not ok = 503 with the message.
  std::function<std::string()> metrics;  // /metrics.
  std::function<std::string()> version;  // /version, JSON.
};

// The admin HTTP service: /livez, /readyz, /metrics, /version and a page at / that names them.
// Plain HTTP/1.1, GET only, one request a connection, so that a few threads serve everybody.
//
// Thread: Start and destruction from one thread; the hooks run on kThreads of its own.
// Bounds: kThreads requests at a time; others wait. A client gets a few seconds to say what it
// wants. Fails: Start with kInvalidArgument for a malformed address, kUnavailable when it cannot be
// bound.
class AdminHttp {
 public:
  static constexpr int kThreads = 4;

  static Result<std::unique_ptr<AdminHttp>> Start(const std::string& listen, AdminHooks hooks);
  ~AdminHttp();
  AdminHttp(const AdminHttp&) = delete;
  AdminHttp& operator=(const AdminHttp&) = delete;

  // "127.0.0.1:7631", with the port really bound.
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  struct Impl;
  AdminHttp(std::unique_ptr<Impl> impl, std::string address);

  std::unique_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace millrace::server
