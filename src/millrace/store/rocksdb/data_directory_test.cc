// What Open makes of the directory it is given.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/store/rocksdb/store_testing.h"
#include "millrace/store/rocksdb/temp_directory.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class DataDirectoryTest : public ::testing::Test {
 protected:
  DataDirectoryTest() { config_.path = directory_.path() / "data"; }

  Status Open() {
    store_.reset();
    Result<std::unique_ptr<RocksTaskStore>> opened = RocksTaskStore::Open(config_, log_);
    if (opened.ok()) store_ = std::move(*opened);
    return opened.status();
  }
  void MakeWithTask() {
    ASSERT_TRUE(Open().ok());
    ASSERT_TRUE(CommitOne(*store_, TestLease("q")).ok());
    ASSERT_TRUE(CommitOne(*store_, TestCreate("q", 1)).ok());
    store_.reset();
  }
  [[nodiscard]] fs::path Data() const { return config_.path; }
  static void WriteFile(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  void ExpectRefused(StatusCode code, const std::string& message) {
    const Status status = Open();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), HasSubstr(config_.path));
  }

  RecordingLog log_;
  TempDirectory directory_;
  RocksTaskStoreConfig config_;
  std::unique_ptr<RocksTaskStore> store_;
};

TEST_F(DataDirectoryTest, MakesOneAndOpensItAgain) {
  MakeWithTask();
  std::ifstream format(Data() / "FORMAT");
  std::string line;
  std::getline(format, line);
  EXPECT_EQ(line, "millrace-format 1");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(TaskIds(*store_, "q").size(), 1u);
  EXPECT_TRUE(log_.Find("cut off").empty());
}

TEST_F(DataDirectoryTest, EmptyOnesAndMountPointsAreFine) {
  fs::create_directories(Data() / "lost+found");
  EXPECT_TRUE(Open().ok());
}

TEST_F(DataDirectoryTest, TrailingSlash) {
  config_.path += "/";
  EXPECT_TRUE(Open().ok());
}

TEST_F(DataDirectoryTest, ParentIsMissing) {
  config_.path = directory_.path() / "no" / "data";
  EXPECT_FALSE(Open().ok());
  config_.path = "";
  EXPECT_EQ(Open().code(), StatusCode::kInvalidArgument);
}

TEST_F(DataDirectoryTest, PathIsAFile) {
  WriteFile(Data(), "x");
  EXPECT_FALSE(Open().ok());
}

TEST_F(DataDirectoryTest, SomebodyElsesDirectory) {
  fs::create_directory(Data());
  WriteFile(Data() / "thesis.tex", "x");
  ExpectRefused(StatusCode::kFailedPrecondition, "thesis.tex");
  EXPECT_EQ(std::distance(fs::directory_iterator(Data()), fs::directory_iterator()), 1);
}

TEST_F(DataDirectoryTest, OtherFormatVersion) {
  MakeWithTask();
  WriteFile(Data() / "FORMAT", "millrace-format 2\n");
  ExpectRefused(StatusCode::kFailedPrecondition, "format 2");
}

TEST_F(DataDirectoryTest, DamagedFormatFile) {
  MakeWithTask();
  for (const char* text : {"", "millrace-format", "millrace-format \n", "millrace-format 1x\n", "x",
                           "millrace-format 99999999999999\n"}) {
    WriteFile(Data() / "FORMAT", text);
    ExpectRefused(StatusCode::kCorruption, "FORMAT");
  }
}

TEST_F(DataDirectoryTest, InUseByThisProcess) {
  MakeWithTask();
  ASSERT_TRUE(Open().ok());
  Result<std::unique_ptr<RocksTaskStore>> second = RocksTaskStore::Open(config_, log_);
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
  EXPECT_TRUE(CommitOne(*store_, TestCreate("q", 2)).ok());
}

TEST_F(DataDirectoryTest, InUseByAnotherProcess) {
  MakeWithTask();
  int ready[2];
  int finish[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(finish), 0);
  const std::string lock_path = Data() / "LOCK";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // The holder: locks the file as any Millrace process does, until the pipe closes.
    close(finish[1]);
    struct flock lock{};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    const int fd = open(lock_path.c_str(), O_RDWR);
    char byte = fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0 ? 'y' : 'n';
    (void)!write(ready[1], &byte, 1);
    (void)!read(finish[0], &byte, 1);
    _exit(0);
  }
  close(finish[0]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  ExpectRefused(StatusCode::kFailedPrecondition, "in use by another Millrace process");
  close(finish[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(Open().ok());
}

// A crash while the directory was made leaves nothing that anybody was promised.
TEST_F(DataDirectoryTest, HalfMade) {
  fs::create_directories(Data() / "db");
  WriteFile(Data() / "FORMAT.new", "millrace-for");
  WriteFile(Data() / "LOCK", "");
  EXPECT_TRUE(Open().ok());
  store_.reset();
  EXPECT_FALSE(fs::exists(Data() / "FORMAT.new"));
  EXPECT_TRUE(Open().ok());
}

// The one thing that must never happen: starting empty over what was there.
TEST_F(DataDirectoryTest, MissingDatabaseIsDamage) {
  MakeWithTask();
  fs::remove(Data() / "db" / "CURRENT");
  ExpectRefused(StatusCode::kCorruption, "damaged");
  fs::remove_all(Data() / "db");
  ExpectRefused(StatusCode::kCorruption, "damaged");
}

TEST_F(DataDirectoryTest, MissingTableOrManifestIsDamage) {
  for (const std::string kind : {".sst", "MANIFEST"}) {
    fs::remove_all(Data());
    MakeWithTask();
    ASSERT_TRUE(Open().ok());  // What was in the log is a table now.
    store_.reset();
    int removed = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(Data() / "db")) {
      if (entry.path().filename().string().find(kind) == std::string::npos) continue;
      fs::remove(entry.path());
      ++removed;
    }
    ASSERT_GT(removed, 0);
    ExpectRefused(StatusCode::kCorruption, "damaged");
  }
}

}  // namespace
}  // namespace millrace::store
