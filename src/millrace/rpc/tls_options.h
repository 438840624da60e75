#pragma once

#include <cstdint>
#include <string>

#include "millrace/base/time.h"

namespace millrace::rpc {

// How a server speaks TLS. All files are PEM.
struct TlsServerOptions {
  enum class ClientAuth : std::uint8_t {
    kNone,      // Clients are not asked for a certificate.
    kOptional,  // One that is shown must be good.
    kRequired,  // No connection without a good one.
  };

  std::string cert_file;  // The server's own certificate first, then its intermediates.
  std::string key_file;
  std::string client_ca_file;  // Who may sign clients' certificates; needed unless kNone.
  ClientAuth client_auth = ClientAuth::kNone;
  // How often the files are looked at. New connections use what they hold then, old ones live on.
  Duration reload_interval = std::chrono::seconds(5);
};

// How a client speaks TLS. All files are PEM, and read again for a new connection when they have
// changed.
struct TlsClientOptions {
  std::string ca_file;      // Who may sign the server's certificate; empty = the system's roots.
  std::string cert_file;    // The client's own certificate and its intermediates; empty = none.
  std::string key_file;     // Together with cert_file.
  std::string server_name;  // Name that the certificate must be for; empty = the target's host.
};

}  // namespace millrace::rpc
