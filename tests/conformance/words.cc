#include "tests/conformance/words.h"

#include <charconv>
#include <sstream>

namespace millrace::conformance {

Words::Words(std::string_view line) {
  std::istringstream in{std::string(line)};
  for (std::string word; in >> word;) words_.push_back(word);
}

std::string Words::Text() {
  if (more()) return words_[next_++];
  good_ = false;
  return {};
}

std::int64_t Words::Number() {
  const std::string word = Text();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) good_ = false;
  return number;
}

std::string Words::Bytes() {
  const std::string word = Text();
  std::string bytes;
  if (word == "-") return bytes;
  for (std::size_t i = 0; i + 1 < word.size(); i += 2) {
    int byte = 0;
    const auto [end, error] = std::from_chars(word.data() + i, word.data() + i + 2, byte, 16);
    if (error != std::errc() || end != word.data() + i + 2) good_ = false;
    bytes.push_back(static_cast<char>(byte));
  }
  if (word.size() % 2 != 0) good_ = false;
  return bytes;
}

store::PhysicalQueueKey Words::Queue() {
  store::PhysicalQueueKey queue;
  queue.namespace_id = Text();
  queue.persistence_name = Bytes();
  queue.task_type = static_cast<std::uint8_t>(Number());
  return queue;
}

store::TaskKey Words::Key() {
  store::TaskKey key;
  key.subqueue = static_cast<store::Subqueue>(Number());
  key.level.pass = Number();
  key.level.id = TaskId{Number()};
  return key;
}

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return out.empty() ? "-" : out;
}

std::string KeyText(const store::TaskKey& key) {
  return std::to_string(key.subqueue) + " " + std::to_string(key.level.pass) + " " +
         std::to_string(key.level.id.value);
}

std::string Refused(const Status& status) {
  return "refused " + std::string(StatusCodeName(status.code())) + " " +
         std::string(status.message());
}

}  // namespace millrace::conformance
