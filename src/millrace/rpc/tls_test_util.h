#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct evp_pkey_st;
struct x509_st;

// For tests: certificates made on the spot, and one end of a TLS connection that does what
// a test wants.
namespace millrace::rpc {

struct TestIdentity {
  std::string cert_pem;
  std::string key_pem;
};

// A certificate authority. Thread: one.
class TestCa {
 public:
  explicit TestCa(const std::string& name);
  ~TestCa();
  TestCa(const TestCa&) = delete;
  TestCa& operator=(const TestCa&) = delete;

  [[nodiscard]] const std::string& cert_pem() const { return cert_pem_; }
  // `alternative_names` as OpenSSL writes them: "DNS:a.test,IP:127.0.0.1". Valid until now +
  // `valid_for`, which may be negative, from two days before now.
  TestIdentity Issue(const std::string& name, const std::string& alternative_names,
                     std::chrono::seconds valid_for = std::chrono::hours(1));

 private:
  evp_pkey_st* key_;
  x509_st* cert_;
  std::string cert_pem_;
  long last_serial_ = 1;
};

// A folder that is removed with its files at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  [[nodiscard]] std::string PathOf(const std::string& name) const { return path_ + "/" + name; }
  // Replaces the file at once, as tools that renew certificates do. Returns its path.
  std::string Write(const std::string& name, const std::string& text);

 private:
  std::string path_;
};

// A blocking TLS client that checks nothing. Thread: one.
class RawTlsClient {
 public:
  struct Options {
    std::vector<std::string> alpn = {"h2"};
    int max_version = 0;  // As OpenSSL numbers them; 0 = the newest.
  };
  RawTlsClient(const std::string& address, const Options& options);
  ~RawTlsClient();
  RawTlsClient(const RawTlsClient&) = delete;
  RawTlsClient& operator=(const RawTlsClient&) = delete;

  // False when the handshake failed; error() says why.
  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] const std::string& error() const { return error_; }
  // The name in the certificate that the server showed.
  [[nodiscard]] std::string server_name() const;
  [[nodiscard]] std::string cipher() const;
  bool Send(const std::string& bytes);
  // Sends a wish for new keys.
  bool AskForNewKeys();
  // Reads until `text` has come or the connection is over; true if it came.
  bool ReadUntilText(const std::string& text);
  // Reads until the connection is over.
  void ReadUntilClosed();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  bool connected_ = false;
  std::string error_;
};

}  // namespace millrace::rpc
