#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/random.h"
#include "millrace/rpc/gzip.h"
#include "millrace/rpc/message_reader.h"
#include "millrace/rpc/socket_address.h"

namespace millrace::rpc {
namespace {

using Outcome = MessageReader::Outcome;

std::string Framed(std::string_view message, char flag = 0) {
  char prefix[kMessagePrefixBytes];
  WriteMessagePrefix(message.size(), prefix);
  prefix[0] = flag;
  return std::string(prefix, kMessagePrefixBytes) + std::string(message);
}

TEST(MessageReaderTest, ReadsMessagesCutAtEveryPlace) {
  const std::string stream = Framed("hello", 1) + Framed("") + Framed(std::string(300, 'x'));
  for (std::size_t first = 0; first <= stream.size(); ++first) {
    for (std::size_t second = first; second <= stream.size(); second += 7) {
      MessageReader reader(1000);
      std::vector<std::string> messages;
      std::vector<bool> compressed;
      for (std::string_view part : {std::string_view(stream).substr(0, first),
                                    std::string_view(stream).substr(first, second - first),
                                    std::string_view(stream).substr(second)}) {
        while (reader.Feed(&part) == Outcome::kMessage) {
          compressed.push_back(reader.compressed());
          messages.push_back(reader.TakeMessage());
        }
        ASSERT_TRUE(part.empty());
      }
      ASSERT_TRUE(reader.at_boundary());
      ASSERT_EQ(messages, (std::vector<std::string>{"hello", "", std::string(300, 'x')}));
      ASSERT_EQ(compressed, (std::vector<bool>{true, false, false}));
    }
  }
}

TEST(MessageReaderTest, RefusesTooLargeByThePrefixAlone) {
  MessageReader reader(10);
  const std::string ten = Framed("0123456789");
  std::string_view data = ten;
  EXPECT_EQ(reader.Feed(&data), Outcome::kMessage);
  EXPECT_EQ(reader.TakeMessage(), "0123456789");
  data = std::string_view("\0\0\0\0\x0b", 5);
  EXPECT_EQ(reader.Feed(&data), Outcome::kTooLarge);
  EXPECT_EQ(reader.announced_bytes(), 11u);
  MessageReader other(10);
  data = std::string_view("\0\xff\xff\xff\xff", 5);
  EXPECT_EQ(other.Feed(&data), Outcome::kTooLarge);
}

TEST(MessageReaderTest, RefusesEveryFlagButTwo) {
  for (int flag = 0; flag < 256; ++flag) {
    MessageReader reader(10);
    const std::string framed = Framed("x", static_cast<char>(flag));
    std::string_view data = framed;
    EXPECT_EQ(reader.Feed(&data), flag <= 1 ? Outcome::kMessage : Outcome::kBadFlag) << flag;
  }
}

TEST(MessageReaderTest, AnUnfinishedMessageIsNoBoundary) {
  MessageReader reader(10);
  for (const char c : std::string_view("\0\0\0\0\x02"
                                       "a",
                                       6)) {
    std::string_view data(&c, 1);
    EXPECT_EQ(reader.Feed(&data), Outcome::kNeedMore);
    EXPECT_FALSE(reader.at_boundary());
  }
}

TEST(GzipTest, RoundTrips) {
  SeededRandom random(3);
  for (const std::size_t size : {0u, 1u, 100u, 16'384u, 100'000u, 1'000'000u}) {
    std::string noise(size, '\0');
    for (char& c : noise) c = static_cast<char>(random.Next());
    for (const std::string& bytes : {noise, std::string(size, 'a')}) {
      const Result<std::string> unpacked = Gunzip(Gzip(bytes), size);
      ASSERT_TRUE(unpacked.ok()) << unpacked.status();
      EXPECT_TRUE(unpacked.value() == bytes);
    }
  }
}

TEST(GzipTest, StopsAtTheLimit) {
  const std::string bomb = Gzip(std::string(10'000'000, '\0'));
  EXPECT_LT(bomb.size(), 20'000u);
  EXPECT_EQ(Gunzip(bomb, 9'999'999).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Gunzip(bomb, 1000).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Gunzip(bomb, 10'000'000).ok());
}

TEST(GzipTest, RefusesDamage) {
  const std::string good = Gzip("some text, long enough to be worth packing, packing, packing");
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Gunzip(good.substr(0, size), 1000).code(), StatusCode::kInvalidArgument) << size;
  }
  EXPECT_EQ(Gunzip(good + "x", 1000).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Gunzip("no gzip at all", 1000).code(), StatusCode::kInvalidArgument);
}

TEST(SocketAddressTest, ReadsAndWritesLiterals) {
  for (const char* text : {"127.0.0.1:80", "[::1]:7630", "unix:/run/x"}) {
    const auto resolved = Resolve(text);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_EQ(resolved.value().front().ToString(), text);
    EXPECT_TRUE(IsLiteralAddress(text));
  }
  EXPECT_EQ(Resolve("127.0.0.1:80").value().front().ToPeerName(), "ipv4:127.0.0.1:80");
  EXPECT_EQ(Resolve("[::1]:80").value().front().ToPeerName(), "ipv6:[::1]:80");
  EXPECT_FALSE(IsLiteralAddress("localhost:80"));
}

TEST(SocketAddressTest, RefusesWhatIsNoAddress) {
  for (const std::string& bad : std::vector<std::string>{
           "", "localhost", ":80", "host:", "host:port", "host:70000", "host:-1", "::1:80",
           "unix:", "host:123456", "unix:/" + std::string(200, 'x')}) {
    EXPECT_EQ(Resolve(bad).code(), StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace millrace::rpc
