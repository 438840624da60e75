#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/base/random.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/raw_peer_test_util.h"
#include "millrace/rpc/server.h"
#include "millrace/rpc/tls_test_util.h"

namespace millrace::rpc {
namespace {

using ::testing::HasSubstr;
using enum TlsServerOptions::ClientAuth;

constexpr const char* kEcho = "/test.Echo/Echo";
constexpr const char* kLocalNames = "DNS:localhost,IP:127.0.0.1,IP:::1";

// Keeps what is said, for a test that waits for it.
class HeardLog final : public Log {
 public:
  [[nodiscard]] bool Enabled(LogLevel) const override { return true; }
  void Write(LogLevel, std::string_view, std::string_view message,
             std::initializer_list<LogField> fields) override {
    std::string line(message);
    for (const LogField& field : fields) {
      if (const auto* text = std::get_if<std::string_view>(&field.value)) {
        line += " " + std::string(field.name) + "=" + std::string(*text);
      }
    }
    MutexLock lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.NotifyAll();
  }

  // Waits for the n-th line with this text; false when none came for a long time.
  bool Hears(const std::string& text, int times = 1) MR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (CountLocked(text) < times) {
      if (!changed_.WaitFor(mutex_, std::chrono::seconds(30))) return false;
    }
    return true;
  }
  int Count(const std::string& text) MR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return CountLocked(text);
  }

 private:
  int CountLocked(const std::string& text) MR_REQUIRES(mutex_) {
    int count = 0;
    for (const std::string& line : lines_) {
      if (line.find(text) != std::string::npos) ++count;
    }
    return count;
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_ MR_GUARDED_BY(mutex_);
};

class TlsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // The raw clients of these tests write to connections that are closed.
    std::signal(SIGPIPE, SIG_IGN);
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    // Whatever the test did to it, others are served.
    if (tls_.client_auth != kRequired && !plain_) {
      EXPECT_EQ(Call(TrustingClient()).response, "hello");
    }
    server_->Shutdown(Duration::zero());
  }

  void UseServerIdentity(const TestIdentity& identity) {
    tls_.key_file = folder_.Write("server.key", identity.key_pem);
    tls_.cert_file = folder_.Write("server.pem", identity.cert_pem);
  }
  void UseGoodIdentity() { UseServerIdentity(ca_.Issue("server", kLocalNames)); }

  Status TryStart(ServerOptions options = {}) {
    if (options.listen.empty()) options.listen = {"127.0.0.1:0"};
    if (!plain_) options.tls = tls_;
    ServiceTable services;
    services.unary[kEcho] = [](std::unique_ptr<ServerCall> call) {
      call->FinishOk(std::string(call->request()));
    };
    server_ = Server::Create({loop_.get()}, options, std::move(services), log_, NullMetrics());
    Status started = server_->Start();
    if (!started.ok()) server_ = nullptr;
    return started;
  }
  void StartServer(const ServerOptions& options = {}) {
    const Status started = TryStart(options);
    ASSERT_TRUE(started.ok()) << started;
    address_ = server_->addresses().front();
  }

  TlsClientOptions TrustingClient() {
    TlsClientOptions tls;
    tls.ca_file = folder_.Write("ca.pem", ca_.cert_pem());
    return tls;
  }
  TlsClientOptions ClientWith(const TestIdentity& identity) {
    TlsClientOptions tls = TrustingClient();
    tls.cert_file = folder_.Write("client.pem", identity.cert_pem);
    tls.key_file = folder_.Write("client.key", identity.key_pem);
    return tls;
  }

  std::unique_ptr<Channel> NewChannel(std::optional<TlsClientOptions> tls) {
    ChannelOptions options;
    options.target = address_;
    options.tls = std::move(tls);
    options.connect_timeout = std::chrono::seconds(20);
    return Channel::Create(*client_loop_, options);
  }
  CallResult CallOn(Channel& channel, std::string request = "hello") {
    CallOptions options;
    options.deadline = clock_.Now() + std::chrono::seconds(60);
    return CallAndWait(channel, kEcho, std::move(request), std::move(options));
  }
  CallResult Call(std::optional<TlsClientOptions> tls) {
    const auto channel = NewChannel(std::move(tls));
    return CallOn(*channel);
  }
  // What a call that cannot be made ends with.
  std::string Refusal(std::optional<TlsClientOptions> tls) {
    const CallResult result = Call(std::move(tls));
    EXPECT_EQ(result.status.code, Code::kUnavailable);
    EXPECT_TRUE(result.never_sent);
    return result.status.message;
  }

  SystemClock clock_;
  HeardLog log_;
  TestFolder folder_;
  TestCa ca_{"test CA"};
  TestCa other_ca_{"other CA"};
  TlsServerOptions tls_;
  bool plain_ = false;
  std::string address_;
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("server", clock_);
  std::unique_ptr<exec::EventLoop> client_loop_ = exec::EventLoop::Create("client", clock_);
  std::unique_ptr<Server> server_;
};

TEST_F(TlsTest, CallsOfEverySizePass) {
  UseGoodIdentity();
  ServerOptions options;
  options.receive_message_bytes_max = 16u << 20;
  StartServer(options);
  const auto channel = NewChannel(TrustingClient());
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{16'384},
                                 std::size_t{100'000}, std::size_t{8} << 20}) {
    const std::string request(size, 'x');
    const CallResult result = CallOn(*channel, request);
    EXPECT_TRUE(result.status.ok()) << result.status.message;
    EXPECT_EQ(result.response, request);
  }
}

TEST_F(TlsTest, ManyCallsShareAConnection) {
  UseGoodIdentity();
  StartServer();
  const auto channel = NewChannel(TrustingClient());
  Mutex mutex;
  CondVar changed;
  int good = 0;
  int ended = 0;
  constexpr int kCalls = 500;
  for (int i = 0; i < kCalls; ++i) {
    const std::string request(static_cast<std::size_t>(i) * 37, 'y');
    channel->Call(kEcho, request, {}, [&, request](CallResult result) {
      MutexLock lock(mutex);
      if (result.response == request) ++good;
      ++ended;
      changed.NotifyAll();
    });
  }
  MutexLock lock(mutex);
  while (ended < kCalls) changed.Wait(mutex);
  EXPECT_EQ(good, kCalls);
}

TEST_F(TlsTest, TheClientChecksWhomItSpeaksTo) {
  UseGoodIdentity();
  StartServer();
  TlsClientOptions tls;
  tls.ca_file = folder_.Write("other_ca.pem", other_ca_.cert_pem());
  EXPECT_THAT(Refusal(tls), HasSubstr("the peer's certificate is not accepted: unable to get"));
  EXPECT_TRUE(log_.Hears("reason=the peer does not know the CA of our certificate"));
  // The system's roots do not know a CA made for a test.
  EXPECT_THAT(Refusal(TlsClientOptions{}), HasSubstr("certificate is not accepted"));
  tls = TrustingClient();
  tls.server_name = "elsewhere.test";
  EXPECT_THAT(Refusal(tls), HasSubstr("certificate is not accepted: hostname mismatch"));
  tls.server_name = "localhost";
  EXPECT_EQ(Call(tls).response, "hello");
  tls.server_name = "127.0.0.2";
  EXPECT_THAT(Refusal(tls), HasSubstr("certificate is not accepted: IP address mismatch"));
}

TEST_F(TlsTest, AnExpiredCertificateIsRefused) {
  UseServerIdentity(ca_.Issue("server", kLocalNames, std::chrono::seconds(-60)));
  StartServer();
  EXPECT_THAT(Refusal(TrustingClient()), HasSubstr("certificate has expired"));
  UseGoodIdentity();
  server_->ReloadTls();
  EXPECT_TRUE(log_.Hears("certificates loaded"));
}

TEST_F(TlsTest, AClientMustShowAGoodCertificateWhereOneIsRequired) {
  UseGoodIdentity();
  tls_.client_auth = kRequired;
  tls_.client_ca_file = folder_.Write("clients.pem", ca_.cert_pem());
  StartServer();
  EXPECT_THAT(Refusal(TrustingClient()), HasSubstr("the server asks for a client certificate"));
  EXPECT_TRUE(log_.Hears("reason=the client shows no certificate"));
  EXPECT_THAT(Refusal(ClientWith(other_ca_.Issue("stranger", ""))),
              HasSubstr("the peer does not know the CA of our certificate"));
  EXPECT_THAT(Refusal(ClientWith(ca_.Issue("late", "", std::chrono::seconds(-60)))),
              HasSubstr("our certificate has expired"));
  EXPECT_EQ(Call(ClientWith(ca_.Issue("friend", ""))).response, "hello");
}

TEST_F(TlsTest, AnOptionalClientCertificateIsCheckedWhenShown) {
  UseGoodIdentity();
  tls_.client_auth = kOptional;
  tls_.client_ca_file = folder_.Write("clients.pem", ca_.cert_pem());
  StartServer();
  EXPECT_EQ(Call(TrustingClient()).response, "hello");
  EXPECT_EQ(Call(ClientWith(ca_.Issue("friend", ""))).response, "hello");
  EXPECT_THAT(Refusal(ClientWith(other_ca_.Issue("stranger", ""))), HasSubstr("does not know"));
}

TEST_F(TlsTest, AlpnAndAModernVersionAreAMust) {
  UseGoodIdentity();
  StartServer();
  for (const std::vector<std::string>& alpn :
       {std::vector<std::string>{}, std::vector<std::string>{"http/1.1"},
        std::vector<std::string>{"h2c", "spdy/3"}}) {
    const RawTlsClient client(address_, {.alpn = alpn});
    EXPECT_FALSE(client.connected());
    EXPECT_THAT(client.error(), HasSubstr("no application protocol"));
  }
  EXPECT_TRUE(log_.Hears("HTTP/2 (ALPN \"h2\") is a must", 3));
  EXPECT_TRUE(RawTlsClient(address_, {.alpn = {"http/1.1", "h2"}}).connected());
  const RawTlsClient old(address_, {.max_version = TLS1_1_VERSION});
  EXPECT_FALSE(old.connected());
  const RawTlsClient decent(address_, {.max_version = TLS1_2_VERSION});
  EXPECT_TRUE(decent.connected());
  EXPECT_THAT(decent.cipher(), HasSubstr("ECDHE"));
}

TEST_F(TlsTest, PlainTextAtATlsPortGetsAClearError) {
  UseGoodIdentity();
  StartServer();
  EXPECT_THAT(Refusal(std::nullopt), HasSubstr("the peer speaks TLS"));
  EXPECT_TRUE(log_.Hears("TLS handshake failed"));
  EXPECT_TRUE(log_.Hears("reason=the peer does not speak TLS"));
}

TEST_F(TlsTest, TlsAtAPlainTextPortGetsAClearError) {
  plain_ = true;
  StartServer();
  EXPECT_THAT(Refusal(TrustingClient()), HasSubstr("the peer does not speak TLS"));
  EXPECT_TRUE(log_.Hears("the peer speaks TLS where plain text is spoken"));
  EXPECT_EQ(Call(std::nullopt).response, "hello");
}

TEST_F(TlsTest, UnixSocketsStayPlain) {
  UseGoodIdentity();
  ServerOptions options;
  options.listen = {"127.0.0.1:0", "unix:" + folder_.PathOf("socket")};
  StartServer(options);
  const std::string tcp = address_;
  address_ = server_->addresses().back();
  EXPECT_EQ(Call(std::nullopt).response, "hello");
  address_ = tcp;
}

TEST_F(TlsTest, NewFilesAreUsedForNewConnectionsAndOldOnesLiveOn) {
  UseServerIdentity(ca_.Issue("first", kLocalNames));
  StartServer();
  const auto old = NewChannel(TrustingClient());
  EXPECT_EQ(CallOn(*old).response, "hello");
  EXPECT_EQ(RawTlsClient(address_, {}).server_name(), "first");

  UseServerIdentity(ca_.Issue("second", kLocalNames));
  server_->ReloadTls();
  ASSERT_TRUE(log_.Hears("certificates loaded"));
  EXPECT_EQ(RawTlsClient(address_, {}).server_name(), "second");
  EXPECT_EQ(CallOn(*old).response, "hello");

  // A key that belongs to another certificate: nothing changes, and it is said once.
  folder_.Write("server.key", ca_.Issue("third", kLocalNames).key_pem);
  server_->ReloadTls();
  ASSERT_TRUE(log_.Hears("new certificates cannot be used; the last ones stay"));
  EXPECT_EQ(RawTlsClient(address_, {}).server_name(), "second");
  folder_.Write("server.key", ca_.Issue("fourth", kLocalNames).key_pem);
  server_->ReloadTls();
  UseServerIdentity(ca_.Issue("fifth", kLocalNames));
  server_->ReloadTls();
  ASSERT_TRUE(log_.Hears("certificates loaded", 2));
  EXPECT_EQ(log_.Count("new certificates cannot be used"), 1);
  EXPECT_EQ(RawTlsClient(address_, {}).server_name(), "fifth");
}

TEST_F(TlsTest, FilesAreLookedAtWithoutBeingAsked) {
  UseServerIdentity(ca_.Issue("first", kLocalNames));
  tls_.reload_interval = std::chrono::milliseconds(5);
  StartServer();
  UseServerIdentity(ca_.Issue("second", kLocalNames));
  ASSERT_TRUE(log_.Hears("certificates loaded"));
  while (RawTlsClient(address_, {}).server_name() != "second") {
  }
}

TEST_F(TlsTest, AClientReadsItsFilesAgainWhenItConnects) {
  UseGoodIdentity();
  StartServer();
  TlsClientOptions tls;
  tls.ca_file = folder_.PathOf("later.pem");
  const auto channel = NewChannel(tls);
  const CallResult refused = CallOn(*channel);
  EXPECT_THAT(refused.status.message, HasSubstr("TLS: cannot use CA file"));
  EXPECT_THAT(refused.status.message, HasSubstr("later.pem"));
  folder_.Write("later.pem", ca_.cert_pem());
  CallOptions patient;
  patient.wait_for_ready = true;
  patient.deadline = clock_.Now() + std::chrono::seconds(60);
  EXPECT_EQ(CallAndWait(*channel, kEcho, "now", patient).response, "now");
}

TEST_F(TlsTest, FilesThatCannotBeUsedStopTheStart) {
  const TestIdentity good = ca_.Issue("server", kLocalNames);
  const std::string encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
  const auto why = [this](const std::string& cert, const std::string& key) {
    UseServerIdentity({cert, key});
    const Status started = TryStart();
    EXPECT_EQ(started.code(), StatusCode::kInvalidArgument);
    return std::string(started.message());
  };
  EXPECT_THAT(why("", good.key_pem), HasSubstr("cannot use certificate file"));
  EXPECT_THAT(why("garbage", good.key_pem), HasSubstr("server.pem"));
  EXPECT_THAT(why(good.cert_pem, "garbage"), HasSubstr("cannot use key file"));
  EXPECT_THAT(why(good.cert_pem, encrypted), HasSubstr("server.key"));
  EXPECT_THAT(why(good.cert_pem, ca_.Issue("other", "").key_pem), HasSubstr("server.key"));
  UseServerIdentity(good);
  tls_.cert_file = folder_.PathOf("missing");
  EXPECT_THAT(std::string(TryStart().message()), HasSubstr("No such file"));
  UseServerIdentity(good);
  tls_.client_auth = kRequired;
  EXPECT_EQ(TryStart().code(), StatusCode::kInvalidArgument);
  tls_.client_ca_file = folder_.Write("clients.pem", "garbage");
  EXPECT_THAT(std::string(TryStart().message()), HasSubstr("clients.pem"));
}

TEST_F(TlsTest, ASlowHandshakeIsCutOffAndStopsNobody) {
  UseGoodIdentity();
  ServerOptions options;
  options.handshake_timeout = std::chrono::milliseconds(200);
  StartServer(options);
  // The start of a hello of 512 bytes.
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 100; ++i) {
    peers.push_back(std::make_unique<RawPeer>(address_));
    if (i % 2 == 0) peers.back()->Send(hello);
  }
  EXPECT_EQ(Call(TrustingClient()).response, "hello");
  for (const auto& peer : peers) EXPECT_TRUE(peer->ReadUntilClosed().closed);
  EXPECT_TRUE(log_.Hears("its TLS handshake takes too long", 100));
  // The same goes for one that falls silent after its handshake.
  RawTlsClient silent(address_, {});
  ASSERT_TRUE(silent.connected());
  silent.ReadUntilClosed();
}

TEST_F(TlsTest, GarbageAndCutsInTheHandshakeEndTheConnectionOnly) {
  UseGoodIdentity();
  StartServer();
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SeededRandom random(seed);
    std::string bytes(1 + random.Below(2000), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next());
    // Half of them look like a record of a handshake at first.
    if (seed % 2 == 0) bytes = std::string("\x16\x03\x01\x00\x40\x01", 6) + bytes;
    RawPeer peer(address_);
    peer.Send(bytes);
    peer.FinishSending();
    EXPECT_TRUE(peer.ReadUntilClosed().closed);
  }
}

TEST_F(TlsTest, ContentInTinyRecordsIsUnderstood) {
  UseGoodIdentity();
  StartServer();
  RawTlsClient client(address_, {});
  ASSERT_TRUE(client.connected());
  for (const char c : Preface() + Request(1, kEcho, "one by one")) {
    ASSERT_TRUE(client.Send(std::string(1, c)));
  }
  EXPECT_TRUE(client.ReadUntilText(GrpcMessage("one by one")));
}

TEST_F(TlsTest, NewKeysNowAndThenAreFineAFloodOfThemIsNot) {
  UseGoodIdentity();
  StartServer();
  {
    RawTlsClient client(address_, {});
    ASSERT_TRUE(client.connected());
    ASSERT_TRUE(client.Send(Preface()));
    for (std::uint32_t stream = 1; stream < 41; stream += 2) {
      ASSERT_TRUE(client.AskForNewKeys());
      const std::string text = "call " + std::to_string(stream);
      ASSERT_TRUE(client.Send(Request(stream, kEcho, text)));
      ASSERT_TRUE(client.ReadUntilText(GrpcMessage(text)));
    }
  }
  RawTlsClient flood(address_, {});
  ASSERT_TRUE(flood.connected());
  ASSERT_TRUE(flood.Send(Preface()));
  for (int i = 0; i < 100'000; ++i) {
    if (!flood.AskForNewKeys()) break;
  }
  flood.ReadUntilClosed();
  EXPECT_TRUE(log_.Hears("too many bytes without content"));
}

}  // namespace
}  // namespace millrace::rpc
