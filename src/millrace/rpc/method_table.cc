#include "millrace/rpc/method_table.h"

#include <tuple>
#include <utility>

namespace millrace::rpc {

Method::Method(std::string path, UnaryHandler unary_handler, StreamHandler stream_handler,
               Metrics& metrics)
    : unary(std::move(unary_handler)),
      streaming(std::move(stream_handler)),
      path_(std::move(path)),
      metrics_(metrics) {}

void Method::CountEnd(Code code) {
  std::atomic<Counter*>& slot = ended_[static_cast<std::size_t>(code)];
  Counter* counter = slot.load(std::memory_order_acquire);
  if (counter == nullptr) {
    counter = &metrics_.GetCounter("millrace_rpc_server_calls_total",
                                   "Calls ended, by method and status.",
                                   {{"method", path_}, {"code", std::string(CodeName(code))}});
    slot.store(counter, std::memory_order_release);
  }
  counter->Increment();
}

MethodTable::MethodTable(ServiceTable services, Metrics& metrics) {
  for (auto& [path, handler] : services.unary) {
    methods_.emplace(std::piecewise_construct, std::forward_as_tuple(path),
                     std::forward_as_tuple(path, std::move(handler), StreamHandler(), metrics));
  }
  for (auto& [path, handler] : services.streaming) {
    methods_.emplace(std::piecewise_construct, std::forward_as_tuple(path),
                     std::forward_as_tuple(path, UnaryHandler(), std::move(handler), metrics));
  }
}

Method* MethodTable::Find(std::string_view path) {
  const auto it = methods_.find(path);
  return it == methods_.end() ? nullptr : &it->second;
}

std::string MethodTable::ExplainUnknown(std::string_view path) const {
  const std::size_t slash = path.rfind('/');
  if (!path.starts_with('/') || slash == 0) return "malformed method name";
  const std::string_view prefix = path.substr(0, slash + 1);
  const auto it = methods_.lower_bound(prefix);
  if (it != methods_.end() && it->first.starts_with(prefix)) {
    return "unknown method " + std::string(path.substr(slash + 1)) + " for service " +
           std::string(path.substr(1, slash - 1));
  }
  return "unknown service " + std::string(path.substr(1, slash - 1));
}

}  // namespace millrace::rpc
