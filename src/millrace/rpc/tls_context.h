#pragma once

#include <memory>
#include <string>

#include "millrace/base/status.h"
#include "millrace/rpc/tls_options.h"

// OpenSSL's own type, so that its headers stay in a few sources.
struct ssl_ctx_st;

namespace millrace::rpc {

// Certificates, keys and rules that connections share. Thread: any; constant once made. A
// connection keeps the one it began with.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

// TLS 1.2 and 1.3 with forward secrecy and authenticated encryption only, ALPN "h2" a must, no
// renegotiation, no compression, no resumption: a connection lives long, and its successor proves
// itself again.
//
// Fails: kInvalidArgument, with the file's name and what is wrong about it.
Result<TlsContext> MakeServerTlsContext(const TlsServerOptions& options);
Result<TlsContext> MakeClientTlsContext(const TlsClientOptions& options);

// The words for what OpenSSL last failed at on this thread, whose list of errors is emptied.
std::string TakeTlsError();

}  // namespace millrace::rpc
