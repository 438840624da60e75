#include "millrace/store/crc32c.h"

#include <string>

#include <gtest/gtest.h>

namespace millrace::store {
namespace {

// Vectors of RFC 3720, appendix B.4.
TEST(Crc32c, PublishedVectors) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<char>(i));
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

TEST(Crc32c, AppendsAtEverySplit) {
  const std::string data = "the quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    EXPECT_EQ(Crc32c(data.substr(cut), Crc32c(data.substr(0, cut))), Crc32c(data)) << cut;
  }
}

}  // namespace
}  // namespace millrace::store
