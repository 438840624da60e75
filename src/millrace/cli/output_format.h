#pragma once

namespace millrace::cli {

enum class OutputFormat { kTable, kJson, kJsonl };

}  // namespace millrace::cli
