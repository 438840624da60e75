#pragma once

#include <array>
#include <atomic>
#include <map>
#include <string>
#include <string_view>

#include "millrace/base/metrics.h"
#include "millrace/rpc/service.h"

namespace millrace::rpc {

// One method with its handler (one of the two is set) and its counters by status code.
class Method {
 public:
  Method(std::string path, UnaryHandler unary_handler, StreamHandler stream_handler,
         Metrics& metrics);

  void CountEnd(Code code);

  UnaryHandler unary;
  StreamHandler streaming;

 private:
  const std::string path_;
  Metrics& metrics_;
  // Asked of the registry at first use, so that only codes that occur are exported.
  std::array<std::atomic<Counter*>, 17> ended_{};
};

// The methods a server knows. Thread: any, once built.
class MethodTable {
 public:
  MethodTable(ServiceTable services, Metrics& metrics);

  [[nodiscard]] Method* Find(std::string_view path);
  // Why Find answered null, for the client.
  [[nodiscard]] std::string ExplainUnknown(std::string_view path) const;

 private:
  std::map<std::string, Method, std::less<>> methods_;
};

}  // namespace millrace::rpc
