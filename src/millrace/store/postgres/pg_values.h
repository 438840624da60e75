#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pg_result;

namespace millrace::store {

// A one-dimensional array in PostgreSQL's binary form, built element by element.
class PgArray {
 public:
  enum class Of : std::uint32_t { kBytes = 17, kInt8 = 20, kInt4 = 23 };

  explicit PgArray(Of element);

  void AddInt8(std::int64_t value);
  void AddInt4(std::int32_t value);
  void AddBytes(std::string_view value);
  // An element of two parts, so that a payload is copied once.
  void AddBytes(std::string_view head, std::string_view tail);
  void AddNull();
  [[nodiscard]] std::int32_t size() const { return count_; }

  // The bytes; nothing may be added afterwards.
  std::string Take();

 private:
  const Of element_;
  std::int32_t count_ = 0;
  bool nulls_ = false;
  std::string bytes_;
};

// Binary parameters of one statement, $1 first.
class PgParams {
 public:
  PgParams& Int8(std::int64_t value);
  PgParams& Int4(std::int32_t value);
  PgParams& Bytes(std::string_view value);  // bytea or text.
  PgParams& Array(PgArray array);

  [[nodiscard]] int size() const { return static_cast<int>(values_.size()); }
  [[nodiscard]] std::vector<const char*> values() const;
  [[nodiscard]] std::vector<int> lengths() const;

 private:
  std::deque<std::string> values_;
};

// Rows of a reply, in binary form. Columns are asked for by the type they have.
class PgRows {
 public:
  PgRows() = default;
  explicit PgRows(pg_result* result);

  [[nodiscard]] bool present() const { return result_ != nullptr; }
  [[nodiscard]] const pg_result* raw() const { return result_.get(); }
  [[nodiscard]] int size() const;
  [[nodiscard]] bool IsNull(int row, int column) const;
  [[nodiscard]] std::int64_t Int8(int row, int column) const;
  [[nodiscard]] std::string_view Bytes(int row, int column) const;
  // Rows that an INSERT, UPDATE or DELETE without RETURNING touched.
  [[nodiscard]] std::int64_t touched() const;

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

}  // namespace millrace::store
