#include "millrace/rpc/ended_stream_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "millrace/rpc/raw_peer_test_util.h"

namespace millrace::rpc {
namespace {

const std::string kMagic(24, 'm');
const std::string kData = Frame(frame::kData, 0, 1, "data");
const std::string kLastData = Frame(frame::kData, frame::kEndStream, 1, "data");
const std::string kHeadersOfOne = Frame(frame::kHeaders, frame::kEndHeaders, 1, "headers");
const std::string kReset = Frame(frame::kReset, 0, 1, Number32(8));
const std::string kWindow = Frame(frame::kWindowUpdate, 0, 1, Number32(8));

// Cut at every place, the verdict is the same.
bool Accepts(const std::string& frames) {
  const std::string bytes = kMagic + frames;
  EndedStreamWatch whole;
  const bool accepts = whole.Feed(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    EndedStreamWatch watch;
    EXPECT_EQ(watch.Feed(std::string_view(bytes).substr(0, cut)) &&
                  watch.Feed(std::string_view(bytes).substr(cut)),
              accepts)
        << cut;
  }
  return accepts;
}

TEST(EndedStreamWatchTest, AcceptsWhatAStreamMaySend) {
  EXPECT_TRUE(Accepts(kHeadersOfOne + kData + kData + kLastData));
  EXPECT_TRUE(Accepts(kHeadersOfOne + kData + kReset));
  EXPECT_TRUE(Accepts(kHeadersOfOne + kLastData + kReset + kReset + kWindow));
  // Connection frames have flags of their own.
  EXPECT_TRUE(Accepts(Frame(frame::kSettings, frame::kAck, 0, "") +
                      Frame(frame::kPing, frame::kAck, 0, "12345678") + kHeadersOfOne + kLastData));
}

TEST(EndedStreamWatchTest, RefusesFramesBehindTheEnd) {
  for (const std::string& end : {kLastData, kReset}) {
    EXPECT_FALSE(Accepts(kHeadersOfOne + end + kData));
    EXPECT_FALSE(Accepts(kHeadersOfOne + end + kHeadersOfOne));
    EXPECT_FALSE(Accepts(kHeadersOfOne + end + kWindow + kLastData));
  }
}

TEST(EndedStreamWatchTest, OtherStreamsGoOnAndOldOnesAreForgotten) {
  std::string frames = kHeadersOfOne + kLastData;
  for (std::uint32_t stream = 3; stream < 17; stream += 2) {
    frames += Frame(frame::kHeaders, frame::kEndStream, stream, "headers");
  }
  EXPECT_FALSE(Accepts(frames + kData));
  EXPECT_TRUE(Accepts(frames + Frame(frame::kHeaders, frame::kEndStream, 17, "headers") + kData));
}

}  // namespace
}  // namespace millrace::rpc
