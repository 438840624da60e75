#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "millrace/cli/output_format.h"

namespace millrace::cli {

using Json = nlohmann::ordered_json;

// One column of a table: its heading and how a row's JSON becomes a cell.
struct Column {
  std::string heading;
  std::string (*cell)(const Json& row);
  bool right = false;
};

// Rows as an aligned table with a heading, as one JSON array, or as one JSON object a line.
// `empty_note` stands in the place of a table without rows.
void PrintRows(std::ostream& out, OutputFormat format, const std::vector<Column>& columns,
               const std::vector<Json>& rows, std::string_view empty_note);

// One object as "name  value" lines or as JSON.
void PrintObject(std::ostream& out, OutputFormat format, const Json& object);

// JSON text; bytes that are no UTF-8 are replaced, never an error.
std::string JsonText(const Json& json, bool pretty);

// Sets object["payload"] to the bytes when they are UTF-8, else object["payload_base64url"].
void SetPayload(Json& object, std::string_view payload);

// Printable stand-in for any bytes in a table cell: one line, control characters escaped, at most
// `width_max` bytes.
std::string Excerpt(std::string_view bytes, std::size_t width_max);

}  // namespace millrace::cli
