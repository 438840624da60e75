#include "millrace/queue/queue_name.h"

namespace millrace::queue {

std::string CheckQueueName(std::string_view name) {
  if (name.empty()) return "a queue name is needed";
  if (name.size() > kQueueNameBytesMax)
    return "longer than " + std::to_string(kQueueNameBytesMax) + " characters";
  if (name.front() == '/') return "may not start with '/'";
  for (const char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-' || c == '/';
    if (!good) return "only A-Z a-z 0-9 . _ - / are allowed";
  }
  return {};
}

store::PhysicalQueueKey QueueKey(std::string_view name) {
  return {.namespace_id = kDefaultNamespace, .persistence_name = std::string(name), .task_type = 0};
}

}  // namespace millrace::queue
