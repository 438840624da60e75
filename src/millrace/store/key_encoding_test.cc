#include "millrace/store/key_encoding.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::store {
namespace {

constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();

TEST(KeyEncoding, TaskKeysOrderAsTheirBytes) {
  std::vector<TaskKey> keys;
  for (Subqueue subqueue : {std::numeric_limits<Subqueue>::min(), -1, 0, 1, 255, 256}) {
    for (std::int64_t pass : {kMin64, std::int64_t{-1}, std::int64_t{0}, kMax64}) {
      for (std::int64_t id : {kMin64, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1},
                              std::int64_t{255}, std::int64_t{256}, kMax64}) {
        keys.push_back({subqueue, {pass, TaskId{id}}});
      }
    }
  }
  std::string previous;
  for (const TaskKey& key : keys) {
    std::string bytes;
    AppendTaskKey(key, bytes);
    EXPECT_LT(previous, bytes);
    previous = bytes;
    std::string_view in = bytes;
    TaskKey decoded;
    ASSERT_TRUE(TakeTaskKey(in, decoded));
    EXPECT_TRUE(in.empty());
    EXPECT_EQ(decoded, key);
  }
}

// Every pair of short names over a small alphabet: no encoded queue is a prefix of another one.
TEST(KeyEncoding, NoQueueIsAPrefixOfAnother) {
  std::vector<std::string> names = {""};
  for (std::size_t i = 0; i < names.size() && names[i].size() < 2; ++i) {
    for (const char c : {'\0', '\1', 'a', '\xff'}) names.push_back(names[i] + c);
  }
  std::vector<std::string> encoded;
  for (const std::string& ns : names) {
    for (const std::string& name : names) {
      if (name.empty()) continue;
      for (const std::uint8_t type : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{255}}) {
        encoded.push_back(EncodeQueueKey({ns, name, type}));
        std::string_view in = encoded.back();
        PhysicalQueueKey decoded;
        ASSERT_TRUE(TakeQueueKey(in, decoded));
        EXPECT_EQ(decoded, (PhysicalQueueKey{ns, name, type}));
      }
    }
  }
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    for (std::size_t j = 0; j < encoded.size(); ++j) {
      if (i != j) {
        ASSERT_FALSE(encoded[i].starts_with(encoded[j]));
      }
    }
  }
}

TEST(KeyEncoding, ShortOrWrongBytesAreRefused) {
  const std::string good = EncodeQueueKey({"ns", "name", 3});
  for (std::size_t size = 0; size < good.size(); ++size) {
    std::string_view in(good.data(), size);
    PhysicalQueueKey queue;
    EXPECT_FALSE(TakeQueueKey(in, queue)) << size;
  }
  std::string_view empty_name("\0\0\0\0", 4);
  PhysicalQueueKey queue;
  EXPECT_FALSE(TakeQueueKey(empty_name, queue));
}

TEST(KeyEncoding, PageTokensRoundTrip) {
  const std::string key = EncodeQueueKey({std::string("\0\xff", 2), "name", 255});
  const std::string token = EncodePageToken(key);
  EXPECT_EQ(*DecodePageToken(token), key);
  EXPECT_EQ(*DecodePageToken(""), "");
  for (std::size_t size = 1; size < token.size(); ++size) {
    EXPECT_EQ(DecodePageToken(token.substr(0, size)).code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace millrace::store
