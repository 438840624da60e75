// The small decoders of the gRPC layer: timeouts, percent and base64 escapes, metadata, gzip and
// the cutting of a byte stream into messages.

#include "fuzz_input.h"
#include "millrace/rpc/gzip.h"
#include "millrace/rpc/message_reader.h"
#include "millrace/rpc/wire_format.h"

namespace millrace::rpc {
namespace {

using fuzz::FuzzInput;

void CheckText(std::string_view text) {
  const std::optional<Duration> timeout = ParseTimeout(text);
  if (timeout) {
    FUZZ_CHECK(timeout->count() >= 0);
    const std::optional<Duration> again = ParseTimeout(FormatTimeout(*timeout));
    // Never shorter, and by no more than the unit that eight digits force.
    FUZZ_CHECK(again && *again >= *timeout &&
               (timeout->count() == 0 || again->count() / 2 <= timeout->count()));
  }
  FUZZ_CHECK(PercentDecode(PercentEncode(text)) == text);
  (void)PercentDecode(text);
  FUZZ_CHECK(Base64Decode(Base64Encode(text)) == text);
  const std::optional<std::string> bytes = Base64Decode(text);
  if (bytes) FUZZ_CHECK(Base64Decode(Base64Encode(*bytes)) == bytes);
  const Code code = ParseStatusCode(text);
  FUZZ_CHECK(static_cast<int>(code) <= 16);
  (void)IsGrpcContentType(text);
}

void CheckMetadata(FuzzInput& in) {
  const std::string_view name = in.Bytes();
  const std::string_view value = in.Bytes();
  (void)IsSendableMetadata(name, value);
  Metadata metadata;
  const bool taken = AppendReceivedMetadata(name, value, &metadata);
  FUZZ_CHECK(taken == !metadata.empty());
}

void CheckGzip(FuzzInput& in) {
  const std::size_t most = in.Byte() * std::size_t{16};
  const std::string_view bytes = in.Rest();
  const Result<std::string> unpacked = Gunzip(bytes, most);
  if (unpacked.ok()) FUZZ_CHECK(unpacked->size() <= most);
  const std::string packed = Gzip(bytes);
  const Result<std::string> back = Gunzip(packed, bytes.size());
  FUZZ_CHECK(back.ok() && *back == bytes);
  if (!bytes.empty()) {
    FUZZ_CHECK(Gunzip(packed, bytes.size() - 1).code() == StatusCode::kResourceExhausted);
  }
  // Cut anywhere, it is no whole member.
  const std::size_t cut = bytes.size() % packed.size();
  FUZZ_CHECK(!Gunzip(std::string_view(packed).substr(0, cut), bytes.size()).ok());
}

// The same stream in other pieces gives the same messages.
std::vector<std::string> Messages(std::string_view stream, std::size_t piece, bool& ended) {
  MessageReader reader(64);
  std::vector<std::string> messages;
  while (!stream.empty()) {
    std::string_view part = stream.substr(0, piece);
    stream.remove_prefix(part.size());
    while (true) {
      const MessageReader::Outcome outcome = reader.Feed(&part);
      if (outcome == MessageReader::Outcome::kMessage) {
        messages.push_back((reader.compressed() ? "c" : "p") + reader.TakeMessage());
        FUZZ_CHECK(messages.back().size() <= 65 && reader.at_boundary());
        continue;
      }
      if (outcome != MessageReader::Outcome::kNeedMore) {
        ended = true;
        return messages;
      }
      FUZZ_CHECK(part.empty());
      break;
    }
  }
  return messages;
}

void CheckMessages(FuzzInput& in) {
  const std::size_t piece = 1 + in.Byte();
  const std::string_view stream = in.Rest();
  bool broken = false;
  bool broken_whole = false;
  const std::vector<std::string> pieces = Messages(stream, piece, broken);
  FUZZ_CHECK(pieces == Messages(stream, stream.size() + 1, broken_whole) && broken == broken_whole);
}

}  // namespace
}  // namespace millrace::rpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace::rpc;
  millrace::fuzz::FuzzInput in(data, size);
  switch (in.Below(4)) {
    case 0:
      CheckText(in.Rest());
      break;
    case 1:
      CheckMetadata(in);
      break;
    case 2:
      CheckGzip(in);
      break;
    default:
      CheckMessages(in);
      break;
  }
  return 0;
}
