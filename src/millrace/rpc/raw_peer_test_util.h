#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// For tests: one end of a TCP connection that speaks HTTP/2 frame by frame, well or badly.
namespace millrace::rpc {

namespace frame {
constexpr std::uint8_t kData = 0;
constexpr std::uint8_t kHeaders = 1;
constexpr std::uint8_t kPriority = 2;
constexpr std::uint8_t kReset = 3;
constexpr std::uint8_t kSettings = 4;
constexpr std::uint8_t kPing = 6;
constexpr std::uint8_t kGoAway = 7;
constexpr std::uint8_t kWindowUpdate = 8;
constexpr std::uint8_t kContinuation = 9;

constexpr std::uint8_t kAck = 1;
constexpr std::uint8_t kEndStream = 1;
constexpr std::uint8_t kEndHeaders = 4;
}  // namespace frame

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string Number32(std::uint32_t number);
std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload);
// An HPACK block of literals that touches no table.
std::string HeaderBlock(const Fields& fields);
// Client magic and empty SETTINGS.
std::string Preface();
// The fields of a valid call of `path`, with `more` behind them.
Fields RequestFields(const std::string& path, const Fields& more = {});
std::string GrpcMessage(std::string_view message, char flag = 0);
// HEADERS and DATA of one whole unary call.
std::string Request(std::uint32_t stream, const std::string& path, std::string_view message,
                    const Fields& more = {});

// What came over the connection, understood as far as tests ask.
struct Received {
  struct Stream {
    Fields fields;  // Headers and trailers in the order they came.
    std::string data;
    bool ended = false;
    bool reset = false;
    std::uint32_t reset_code = 0;
    [[nodiscard]] std::string Field(std::string_view name) const;
  };
  std::map<std::uint32_t, Stream> streams;
  bool go_away = false;
  std::uint32_t go_away_code = 0;
  std::uint32_t go_away_last_stream = 0;
  std::string go_away_text;
  int settings = 0;
  int ping_acks = 0;
  int pings = 0;
  std::string last_ping;  // What the other end wants back.
  bool closed = false;
};

// Blocking, with a generous limit on every wait. Thread: one.
class RawPeer {
 public:
  // Connects to "127.0.0.1:port".
  explicit RawPeer(const std::string& address);
  // Takes over a connected socket.
  explicit RawPeer(int fd);
  ~RawPeer();
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  // False when the other end does not take it any more.
  bool Send(std::string_view bytes);
  // Sends no more; what the other end says can still be read.
  void FinishSending();
  void Close();

  // Reads until the stream is over, the connection closed, or nothing came for a long time (a
  // failure).
  const Received& ReadUntilStreamEnds(std::uint32_t stream);
  const Received& ReadUntilClosed();
  // Reads until `done` says so or the connection is closed.
  template <typename Done>
  const Received& ReadUntil(Done done) {
    while (!received_.closed && !done(received_)) ReadSome();
    return received_;
  }
  [[nodiscard]] const Received& received() const { return received_; }

 private:
  void ReadSome();
  void ParseFrames();
  void OnFrame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
               std::string_view payload);

  int fd_;
  std::string buffer_;
  bool skip_magic_ = false;
  void* inflater_ = nullptr;  // nghttp2_hd_inflater
  Received received_;
};

// A socket that listens on the loopback address.
class RawListener {
 public:
  RawListener();
  ~RawListener();
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;
  [[nodiscard]] const std::string& address() const { return address_; }
  int Accept();

 private:
  int fd_;
  std::string address_;
};

}  // namespace millrace::rpc
