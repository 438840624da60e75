#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/status.h"

namespace millrace::server {

// One scalar of a YAML file: "section.key", its text, and where it stands.
struct FileEntry {
  std::string name;
  std::string text;
  int line = 0;  // From 1.
};

// Reads a file of sections and keys. Names are not checked here. Fails: kNotFound no such file;
// kInvalidArgument not YAML, a list, a section too deep, a key without a value or given twice; the
// message starts with "FILE:LINE: ".
Result<std::vector<FileEntry>> ReadConfigFile(const std::string& path);

// The same for text that stands in memory; `path` is used in messages only.
Result<std::vector<FileEntry>> ParseConfigText(const std::string& text, const std::string& path);

}  // namespace millrace::server
