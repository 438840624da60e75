#include "millrace/server/admin_http.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "millrace/server/host_port.h"
#include "millrace/server/readiness.h"
#include "millrace/server/version.h"

namespace millrace::server {
namespace {

using ::testing::HasSubstr;

class AdminHttpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AdminHooks hooks;
    hooks.ready = [this] { return readiness_.Get(); };
    hooks.metrics = [] { return std::string("millrace_x 1\n"); };
    hooks.version = [] { return VersionJson(); };
    auto started = AdminHttp::Start("127.0.0.1:0", std::move(hooks));
    ASSERT_TRUE(started.ok()) << started.status();
    admin_ = std::move(started).value();
  }
  httplib::Result Get(const std::string& path) {
    httplib::Client client("http://" + admin_->address());
    return client.Get(path);
  }

  Readiness readiness_;
  std::unique_ptr<AdminHttp> admin_;
};

TEST_F(AdminHttpTest, PagesAnswer) {
  EXPECT_TRUE(admin_->address().starts_with("127.0.0.1:"));
  EXPECT_FALSE(admin_->address().ends_with(":0"));
  ASSERT_TRUE(Get("/livez"));
  EXPECT_EQ(Get("/livez")->status, 200);
  EXPECT_EQ(Get("/livez")->body, "ok\n");
  EXPECT_EQ(Get("/metrics")->body, "millrace_x 1\n");
  EXPECT_THAT(Get("/metrics")->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  EXPECT_EQ(Get("/version")->body, VersionJson() + "\n");
  EXPECT_EQ(Get("/version")->get_header_value("Content-Type"), "application/json");
  EXPECT_THAT(Get("/")->body, HasSubstr("href=\"/metrics\""));
}

TEST_F(AdminHttpTest, ReadyzFollowsPhaseAndStore) {
  EXPECT_EQ(Get("/readyz")->status, 503);
  EXPECT_EQ(Get("/readyz")->body, "starting\n");
  readiness_.SetPhase(Readiness::Phase::kServing);
  EXPECT_EQ(Get("/readyz")->status, 200);
  readiness_.SetStoreHealth(Status(StatusCode::kResourceExhausted, "no space left"));
  EXPECT_EQ(Get("/readyz")->status, 503);
  EXPECT_THAT(Get("/readyz")->body, HasSubstr("no space left"));
  EXPECT_EQ(Get("/livez")->status, 200);
  readiness_.SetStoreHealth(OkStatus());
  EXPECT_EQ(Get("/readyz")->status, 200);
  readiness_.SetPhase(Readiness::Phase::kDraining);
  EXPECT_EQ(Get("/readyz")->body, "draining\n");
}

TEST_F(AdminHttpTest, UnknownPagesAndMethodsAreRefused) {
  EXPECT_EQ(Get("/nonsense")->status, 404);
  EXPECT_THAT(Get("/nonsense")->body, HasSubstr("/readyz"));
  httplib::Client client("http://" + admin_->address());
  EXPECT_EQ(client.Post("/metrics", "x", "text/plain")->status, 404);
}

TEST_F(AdminHttpTest, PortInUseIsAnError) {
  const auto second = AdminHttp::Start(admin_->address(), {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("cannot listen on " + admin_->address()));
}

TEST_F(AdminHttpTest, ManyClientsAtOnce) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, &good] {
      for (int i = 0; i < 10; ++i) {
        const auto result = Get("/metrics");
        if (result && result->status == 200) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 80);
}

TEST_F(AdminHttpTest, AnswersBesideThousandsOfOpenDescriptors) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4'096);
  setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<int> held;
  for (int fd = 0; fd >= 0 && fd < 1'500;) {
    fd = open("/dev/null", O_RDONLY);
    if (fd >= 0) held.push_back(fd);
  }
  ASSERT_GT(held.back(), 1'024);
  // The client uses select() as well, so it talks over a plain socket here.
  const HostPort address = *ParseHostPort(admin_->address());
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(address.port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  constexpr char kRequest[] = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(write(fd, kRequest, sizeof(kRequest) - 1), static_cast<ssize_t>(sizeof(kRequest) - 1));
  std::string answer;
  char buffer[1'024];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;)
    answer.append(buffer, static_cast<std::size_t>(n));
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  close(fd);
  for (const int each : held) close(each);
}

TEST(AdminHttpStartTest, BadAddressesAreNamed) {
  for (const char* text :
       {"", "nonsense", "1.2.3.4", "host:port", "host:70000", ":80", "::1:80", "[::1]"}) {
    const auto started = AdminHttp::Start(text, {});
    ASSERT_FALSE(started.ok()) << text;
    EXPECT_EQ(started.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(started.status().message()), HasSubstr("admin.listen")) << text;
  }
}

TEST(AdminHttpStartTest, StopsAtOnceAfterStart) {
  for (int i = 0; i < 20; ++i) {
    const auto started = AdminHttp::Start("127.0.0.1:0", {});
    ASSERT_TRUE(started.ok());
  }
}

TEST(HostPortTest, ReadsAndPrints) {
  EXPECT_EQ(ParseHostPort("[::1]:80")->host, "::1");
  EXPECT_EQ(ParseHostPort("[::1]:80")->ToString(), "[::1]:80");
  EXPECT_EQ(ParseHostPort("localhost:0")->ToString(), "localhost:0");
}

}  // namespace
}  // namespace millrace::server
