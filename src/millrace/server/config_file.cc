#include "millrace/server/config_file.h"

#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

namespace millrace::server {
namespace {

// Walks the document's two levels and collects scalars. Stops at the first problem.
class Collector {
 public:
  explicit Collector(std::string path) : path_(std::move(path)) {}

  Status Section(const YAML::Node& map, const std::string& prefix) {
    for (const auto& pair : map) {
      if (!pair.first.IsScalar()) return Problem(pair.first, "a key must be plain text");
      MR_RETURN_IF_ERROR(Value(pair.first, pair.second, prefix));
    }
    return OkStatus();
  }

  Status Problem(const YAML::Node& node, const std::string& message) const {
    return Status(StatusCode::kInvalidArgument,
                  path_ + ":" + std::to_string(node.Mark().line + 1) + ": " + message);
  }

  std::vector<FileEntry> TakeEntries() { return std::move(entries_); }

 private:
  Status Value(const YAML::Node& key, const YAML::Node& value, const std::string& prefix) {
    const std::string name = prefix + key.Scalar();
    switch (value.Type()) {
      case YAML::NodeType::Scalar:
        return Scalar(key, value, name);
      case YAML::NodeType::Map:
        if (!prefix.empty()) return Problem(key, "\"" + name + "\" takes a value, not a section");
        return Section(value, name + ".");
      case YAML::NodeType::Sequence:
        return Problem(key, "\"" + name + "\" takes one value, not a list");
      default:
        // An empty section is what is left when all its lines are commented out.
        return prefix.empty() ? OkStatus() : Problem(key, "\"" + name + "\" has no value");
    }
  }

  Status Scalar(const YAML::Node& key, const YAML::Node& value, const std::string& name) {
    const int line = key.Mark().line + 1;
    const auto [it, added] = lines_.emplace(name, line);
    if (!added) {
      return Problem(
          key, "\"" + name + "\" is given twice, first on line " + std::to_string(it->second));
    }
    entries_.push_back({name, value.Scalar(), line});
    return OkStatus();
  }

  std::string path_;
  std::vector<FileEntry> entries_;
  std::map<std::string, int> lines_;
};

}  // namespace

Result<std::vector<FileEntry>> ParseConfigText(const std::string& text, const std::string& path) {
  // yaml-cpp reports everything by exception; none leaves this function.
  try {
    const YAML::Node root = YAML::Load(text);
    Collector collector(path);
    if (root.IsNull()) return std::vector<FileEntry>();
    if (!root.IsMap()) return collector.Problem(root, "expected lines of the form key: value");
    MR_RETURN_IF_ERROR(collector.Section(root, ""));
    return collector.TakeEntries();
  } catch (const YAML::Exception& e) {
    const std::string place =
        e.mark.is_null() ? path : path + ":" + std::to_string(e.mark.line + 1);
    return Status(StatusCode::kInvalidArgument, place + ": not valid YAML: " + e.msg);
  }
}

Result<std::vector<FileEntry>> ReadConfigFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return Status(StatusCode::kInvalidArgument,
                  path + ": cannot read the configuration file: it is a folder");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.is_open()) text << file.rdbuf();
  if (!file.is_open() || file.bad()) {
    const int error = errno;
    return Status(error == ENOENT ? StatusCode::kNotFound : StatusCode::kInvalidArgument,
                  path + ": cannot read the configuration file: " + std::strerror(error));
  }
  return ParseConfigText(text.str(), path);
}

}  // namespace millrace::server
