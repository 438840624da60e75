#pragma once

#include <functional>
#include <istream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/time.h"
#include "millrace/cli/exit_code.h"
#include "millrace/cli/output_format.h"
#include "millrace/rpc/tls_options.h"

namespace millrace::cli {

inline constexpr char kDefaultAddress[] = "127.0.0.1:7630";

// What every command shares: the global options, where to read and write, and the action that
// parsing chose.
struct Context {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  std::vector<std::string> environment{};  // "NAME=value".

  OutputFormat output = OutputFormat::kTable;
  std::string address = kDefaultAddress;
  bool address_given = false;  // By flag or environment.
  Duration timeout = std::chrono::seconds(10);
  bool tls_given = false;  // By --tls or its variable; naming a file or a name does as well.
  rpc::TlsClientOptions tls{};

  // Set by the subcommand that the arguments name; runs after parsing is done.
  std::function<ExitCode()> action{};

  [[nodiscard]] bool UsesTls() const {
    return tls_given || !tls.ca_file.empty() || !tls.cert_file.empty() || !tls.key_file.empty() ||
           !tls.server_name.empty();
  }

  // "error: message" and, when there is one, the hint below it.
  ExitCode Fail(ExitCode code, const std::string& message, const std::string& hint = "") const {
    err << "error: " << message << "\n";
    if (!hint.empty()) err << "  hint: " << hint << "\n";
    return code;
  }
};

}  // namespace millrace::cli
