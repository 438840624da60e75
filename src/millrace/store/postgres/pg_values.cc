#include "millrace/store/postgres/pg_values.h"

#include <libpq-fe.h>

#include <cstdlib>

#include "millrace/base/check.h"

namespace millrace::store {
namespace {

constexpr std::size_t kArrayHeaderBytes = 20;

template <typename U>
void AppendBigEndian(U value, std::string& out) {
  char bytes[sizeof(U)];
  for (std::size_t i = 0; i < sizeof(U); ++i) {
    bytes[i] = static_cast<char>(value >> (8 * (sizeof(U) - 1 - i)));
  }
  out.append(bytes, sizeof(U));
}

}  // namespace

PgArray::PgArray(Of element) : element_(element), bytes_(kArrayHeaderBytes, '\0') {}

void PgArray::AddInt8(std::int64_t value) {
  AppendBigEndian(std::uint32_t{8}, bytes_);
  AppendBigEndian(static_cast<std::uint64_t>(value), bytes_);
  ++count_;
}

void PgArray::AddInt4(std::int32_t value) {
  AppendBigEndian(std::uint32_t{4}, bytes_);
  AppendBigEndian(static_cast<std::uint32_t>(value), bytes_);
  ++count_;
}

void PgArray::AddBytes(std::string_view value) { AddBytes(value, {}); }

void PgArray::AddBytes(std::string_view head, std::string_view tail) {
  AppendBigEndian(static_cast<std::uint32_t>(head.size() + tail.size()), bytes_);
  bytes_.append(head).append(tail);
  ++count_;
}

void PgArray::AddNull() {
  AppendBigEndian(~std::uint32_t{0}, bytes_);
  nulls_ = true;
  ++count_;
}

std::string PgArray::Take() {
  std::string header;
  AppendBigEndian(std::uint32_t{count_ == 0 ? 0u : 1u}, header);  // Dimensions.
  AppendBigEndian(std::uint32_t{nulls_ ? 1u : 0u}, header);
  AppendBigEndian(static_cast<std::uint32_t>(element_), header);
  if (count_ == 0) return header;
  AppendBigEndian(static_cast<std::uint32_t>(count_), header);
  AppendBigEndian(std::uint32_t{1}, header);  // Number of the first element.
  bytes_.replace(0, kArrayHeaderBytes, header);
  return std::move(bytes_);
}

PgParams& PgParams::Int8(std::int64_t value) {
  std::string& out = values_.emplace_back();
  AppendBigEndian(static_cast<std::uint64_t>(value), out);
  return *this;
}

PgParams& PgParams::Int4(std::int32_t value) {
  std::string& out = values_.emplace_back();
  AppendBigEndian(static_cast<std::uint32_t>(value), out);
  return *this;
}

PgParams& PgParams::Bytes(std::string_view value) {
  values_.emplace_back(value);
  return *this;
}

PgParams& PgParams::Array(PgArray array) {
  values_.push_back(array.Take());
  return *this;
}

std::vector<const char*> PgParams::values() const {
  std::vector<const char*> out;
  out.reserve(values_.size());
  for (const std::string& value : values_) out.push_back(value.data());
  return out;
}

std::vector<int> PgParams::lengths() const {
  std::vector<int> out;
  out.reserve(values_.size());
  for (const std::string& value : values_) out.push_back(static_cast<int>(value.size()));
  return out;
}

PgRows::PgRows(pg_result* result) : result_(result) {}

void PgRows::Clear::operator()(pg_result* result) const { PQclear(result); }

int PgRows::size() const { return PQntuples(result_.get()); }

bool PgRows::IsNull(int row, int column) const {
  return PQgetisnull(result_.get(), row, column) != 0;
}

std::int64_t PgRows::Int8(int row, int column) const {
  const std::string_view bytes = Bytes(row, column);
  MR_CHECK(bytes.size() == 8);  // Our own statement's column type.
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return static_cast<std::int64_t>(value);
}

std::string_view PgRows::Bytes(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

std::int64_t PgRows::touched() const { return std::atoll(PQcmdTuples(result_.get())); }

}  // namespace millrace::store
