#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/store/types.h"

namespace millrace::conformance {

// The tool's lines are words with blanks between them; bytes are in hex, none of them as "-".

// Words of a line, taken one after the other. A word that is missing or not what was asked for
// makes the line bad; what is returned for it means nothing.
class Words {
 public:
  explicit Words(std::string_view line);

  std::string Text();
  std::int64_t Number();
  std::string Bytes();
  // Namespace, name in hex, type.
  store::PhysicalQueueKey Queue();
  // Subqueue, pass, id.
  store::TaskKey Key();

  [[nodiscard]] bool more() const { return next_ < words_.size(); }
  [[nodiscard]] bool good() const { return good_; }

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
  bool good_ = true;
};

std::string Hex(std::string_view bytes);
std::string KeyText(const store::TaskKey& key);
// "refused CODE TEXT"
std::string Refused(const Status& status);

}  // namespace millrace::conformance
