#include "millrace/rpc/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/base/random.h"

namespace millrace::rpc {
namespace {

// Random takes, grows and gives of all sizes; every block keeps what was written into it.
TEST(BlockPoolTest, BlocksNeverOverlap) {
  nghttp2_mem* memory = BlockPoolForNghttp2();
  SeededRandom random(7);
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  const auto fill = [](unsigned char* block, std::size_t size) {
    std::memset(block, static_cast<int>(size % 251), size);
  };
  const auto check = [](const unsigned char* block, std::size_t size, std::size_t mark) {
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(block[i], mark % 251);
  };
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t size = 1 + random.Below(random.Chance(1, 10) ? 5000 : 1100);
    if (blocks.size() < 200 && random.Chance(3, 5)) {
      auto* block = static_cast<unsigned char*>(
          random.Chance(1, 2) ? TakeBlock(size) : memory->calloc(1, size, nullptr));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignof(std::max_align_t), 0u);
      fill(block, size);
      blocks.emplace_back(block, size);
    } else if (!blocks.empty()) {
      const std::size_t at = random.Below(blocks.size());
      auto& [block, old_size] = blocks[at];
      check(block, old_size, old_size);
      if (random.Chance(1, 2)) {
        block = static_cast<unsigned char*>(memory->realloc(block, size, nullptr));
        check(block, std::min(size, old_size), old_size);
        old_size = size;
        fill(block, size);
      } else {
        GiveBlock(block);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
  for (const auto& [block, size] : blocks) {
    check(block, size, size);
    GiveBlock(block);
  }
}

TEST(BlockPoolTest, CallocClearsBlocksUsedBefore) {
  nghttp2_mem* memory = BlockPoolForNghttp2();
  for (int i = 0; i < 10; ++i) {
    auto* block = static_cast<unsigned char*>(memory->calloc(10, 30, nullptr));
    for (int j = 0; j < 300; ++j) ASSERT_EQ(block[j], 0);
    std::memset(block, 0xff, 300);
    memory->free(block, nullptr);
  }
  EXPECT_EQ(memory->calloc(SIZE_MAX / 2, 4, nullptr), nullptr);
}

TEST(BlockPoolTest, BlocksMayEndOnAnotherThread) {
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(TakeBlock(500));
  std::thread([&blocks] {
    for (void* block : blocks) GiveBlock(block);
    GiveBlock(TakeBlock(500));
  }).join();
}

}  // namespace
}  // namespace millrace::rpc
