#include "millrace/cli/output.h"

#include <algorithm>
#include <cstddef>

#include "millrace/cli/base64url.h"
#include "millrace/cli/utf8.h"

namespace millrace::cli {
namespace {

// Columns that a terminal shows: continuation bytes take none.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

void PrintTable(std::ostream& out, const std::vector<Column>& columns,
                const std::vector<Json>& rows) {
  std::vector<std::vector<std::string>> lines;
  lines.emplace_back();
  for (const Column& column : columns) lines.back().push_back(column.heading);
  for (const Json& row : rows) {
    lines.emplace_back();
    for (const Column& column : columns) lines.back().push_back(column.cell(row));
  }
  std::vector<std::size_t> widths(columns.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (i > 0) text += "  ";
      const std::string padding(widths[i] - Width(line[i]), ' ');
      text += columns[i].right ? padding + line[i] : line[i] + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << "\n";
  }
}

void PrintPairs(std::ostream& out, const Json& object, const std::string& prefix) {
  std::size_t width = 0;
  for (const auto& [name, value] : object.items()) width = std::max(width, name.size());
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      out << prefix << name << "\n";
      PrintPairs(out, value, prefix + "  ");
      continue;
    }
    out << prefix << name << std::string(width - name.size() + 2, ' ')
        << (value.is_string() ? value.get<std::string>() : JsonText(value, false)) << "\n";
  }
}

}  // namespace

std::string JsonText(const Json& json, bool pretty) {
  return json.dump(pretty ? 2 : -1, ' ', false, Json::error_handler_t::replace);
}

void PrintRows(std::ostream& out, OutputFormat format, const std::vector<Column>& columns,
               const std::vector<Json>& rows, std::string_view empty_note) {
  switch (format) {
    case OutputFormat::kTable:
      if (rows.empty()) {
        out << empty_note << "\n";
      } else {
        PrintTable(out, columns, rows);
      }
      break;
    case OutputFormat::kJson: {
      Json array = Json::array();
      for (const Json& row : rows) array.push_back(row);
      out << JsonText(array, true) << "\n";
      break;
    }
    case OutputFormat::kJsonl:
      for (const Json& row : rows) out << JsonText(row, false) << "\n";
      break;
  }
}

void PrintObject(std::ostream& out, OutputFormat format, const Json& object) {
  if (format == OutputFormat::kTable) {
    PrintPairs(out, object, "");
  } else {
    out << JsonText(object, format == OutputFormat::kJson) << "\n";
  }
}

void SetPayload(Json& object, std::string_view payload) {
  if (IsUtf8(payload)) {
    object["payload"] = std::string(payload);
  } else {
    object["payload_base64url"] = Base64UrlEncode(payload);
  }
}

std::string Excerpt(std::string_view bytes, std::size_t width_max) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const bool text = IsUtf8(bytes);
  std::string shown;
  std::size_t cut =
      0;  // Longest prefix of `shown` that leaves room for the dots and splits no character.
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const auto c = static_cast<unsigned char>(bytes[at]);
    const bool continues = text && (c & 0xC0u) == 0x80u;
    if (!continues && shown.size() + 3 <= width_max) cut = shown.size();
    if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else if (c == '\r') {
      shown += "\\r";
    } else if (c < 0x20 || c == 0x7F || (c >= 0x80 && !text)) {
      shown.append({'\\', 'x', kHex[c >> 4], kHex[c & 15]});
    } else {
      shown += bytes[at];
    }
    if (shown.size() > width_max) return shown.substr(0, cut) + "...";
  }
  return shown;
}

}  // namespace millrace::cli
