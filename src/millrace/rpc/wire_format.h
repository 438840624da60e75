#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/base/time.h"
#include "millrace/rpc/service.h"
#include "millrace/rpc/status.h"

// The spellings of gRPC over HTTP/2 in header fields. Pure functions.
namespace millrace::rpc {

// grpc-timeout: one to eight digits and a unit (H M S m u n). Empty when malformed; cut to 100
// years when longer.
std::optional<Duration> ParseTimeout(std::string_view text);
// The finest unit that eight digits can hold, rounded up so that the receiver never gives up first.
// At least "1n".
std::string FormatTimeout(Duration timeout);

// grpc-message: every byte outside printable ASCII, and the percent sign, as %XX.
std::string PercentEncode(std::string_view text);
// Takes what is not a valid escape as it stands, as the specification asks.
std::string PercentDecode(std::string_view text);

// Values of "-bin" headers: standard alphabet, written without padding, read with or without.
std::string Base64Encode(std::string_view bytes);
std::optional<std::string> Base64Decode(std::string_view text);

// grpc-status of a peer. Numbers outside the list, and what is no number, become kUnknown.
Code ParseStatusCode(std::string_view text);
// What a reply without grpc-status means, by its HTTP status.
Code CodeOfHttpStatus(int http_status);

[[nodiscard]] bool IsBinaryHeader(std::string_view name);
// True for a name and value that may travel as metadata: legal characters, and no name that HTTP/2
// or gRPC reserves.
[[nodiscard]] bool IsSendableMetadata(std::string_view name, std::string_view value);
// Adds what a peer sent under `name`; a binary value is decoded, and split when it is a
// comma-separated list. False for malformed base64; nothing is added then.
[[nodiscard]] bool AppendReceivedMetadata(std::string_view name, std::string_view value,
                                          Metadata* out);

// True when `token` is in a comma-separated list like that of grpc-accept-encoding.
[[nodiscard]] bool ListsToken(std::string_view list, std::string_view token);

// True for "application/grpc", "application/grpc+proto" and either with parameters.
[[nodiscard]] bool IsGrpcContentType(std::string_view value);

}  // namespace millrace::rpc
