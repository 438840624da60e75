#include "millrace/rpc/header_fields.h"

#include <array>
#include <utility>

#include "millrace/rpc/wire_format.h"

namespace millrace::rpc {
namespace {

constexpr std::size_t kMessageBytesMax = 2u << 10;
constexpr std::size_t kDetailsBytesMax = 6u << 10;

constexpr std::array<std::string_view, 17> kCodeNumbers = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"};

}  // namespace

void HeaderFields::Append(std::string_view name, std::string_view value) {
  nghttp2_nv field;
  // nghttp2's fields are not const, but it only reads them.
  field.name = reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data()));
  field.value = reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data()));
  field.namelen = name.size();
  field.valuelen = value.size();
  field.flags = NGHTTP2_NV_FLAG_NONE;
  fields_.push_back(field);
}

void HeaderFields::AddStatic(std::string_view name, std::string_view value) { Append(name, value); }

void HeaderFields::Add(std::string_view static_name, std::string value) {
  owned_.push_back(std::move(value));
  Append(static_name, owned_.back());
}

void HeaderFields::AddMetadata(const Metadata& metadata) {
  for (const auto& [name, value] : metadata) {
    if (!IsSendableMetadata(name, value)) continue;
    if (IsBinaryHeader(name)) {
      Add(name, Base64Encode(value));
    } else {
      Append(name, value);
    }
  }
}

void HeaderFields::AddStatus(const RpcStatus& status) {
  Append("grpc-status", kCodeNumbers[static_cast<std::size_t>(status.code)]);
  if (!status.message.empty()) {
    Add("grpc-message",
        PercentEncode(std::string_view(status.message).substr(0, kMessageBytesMax)));
  }
  if (!status.details.empty() && status.details.size() <= kDetailsBytesMax) {
    Add("grpc-status-details-bin", Base64Encode(status.details));
  }
}

}  // namespace millrace::rpc
