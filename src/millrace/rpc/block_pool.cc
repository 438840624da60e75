#include "millrace/rpc/block_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "millrace/base/check.h"

namespace millrace::rpc {
namespace {

constexpr std::size_t kStep = 32;
constexpr std::size_t kClasses = 33;  // Blocks of up to 1 KiB and their header.
constexpr std::size_t kKeptBytesMax = 1u << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeep = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kKeep = false;
#else
constexpr bool kKeep = true;
#endif
#else
constexpr bool kKeep = true;
#endif

// Before each block; as large as malloc's alignment.
struct alignas(std::max_align_t) Header {
  std::size_t size_class;  // kClasses = too large to keep.
  Header* next;
};

// What threads that have ended have taken and not given back.
std::atomic<std::int64_t> in_use_elsewhere = 0;

// A thread's blocks. After its destruction, late in the thread's end, blocks go back to malloc.
struct Kept {
  std::array<Header*, kClasses> first{};
  std::size_t bytes = 0;
  std::int64_t in_use = 0;  // Negative when it gives back what others took.
  bool gone = false;

  void CountInUse(std::int64_t change) {
    if (gone) {
      in_use_elsewhere += change;
    } else {
      in_use += change;
    }
  }

  ~Kept() {
    gone = true;
    in_use_elsewhere += in_use;
    for (Header*& list : first) {
      while (list != nullptr) {
        Header* next = list->next;
        std::free(list);
        list = next;
      }
    }
  }
};

thread_local Kept kept;

void* TakeOrNull(std::size_t bytes) {
  const std::size_t size_class = std::min((bytes + sizeof(Header) - 1) / kStep, kClasses);
  if (size_class < kClasses && kept.first[size_class] != nullptr) {
    Header* header = kept.first[size_class];
    kept.first[size_class] = header->next;
    kept.bytes -= (size_class + 1) * kStep;
    kept.CountInUse(1);
    return header + 1;
  }
  const std::size_t total =
      size_class < kClasses ? (size_class + 1) * kStep : bytes + sizeof(Header);
  auto* header = static_cast<Header*>(std::malloc(total));
  if (header == nullptr) return nullptr;
  header->size_class = size_class;
  kept.CountInUse(1);
  return header + 1;
}

void* Nghttp2Malloc(std::size_t size, void*) { return TakeOrNull(size); }
void Nghttp2Free(void* block, void*) { GiveBlock(block); }
void* Nghttp2Calloc(std::size_t count, std::size_t size, void*) {
  if (size != 0 && count > SIZE_MAX / 2 / size) return nullptr;
  void* block = TakeOrNull(count * size);
  if (block != nullptr) std::memset(block, 0, count * size);
  return block;
}
void* Nghttp2Realloc(void* block, std::size_t size, void*) {
  if (block == nullptr) return TakeOrNull(size);
  Header* header = static_cast<Header*>(block) - 1;
  if (header->size_class == kClasses) {
    if (size + sizeof(Header) > kClasses * kStep) {
      auto* grown = static_cast<Header*>(std::realloc(header, size + sizeof(Header)));
      return grown == nullptr ? nullptr : grown + 1;
    }
  } else if (size + sizeof(Header) <= (header->size_class + 1) * kStep) {
    return block;
  }
  void* moved = TakeOrNull(size);
  if (moved == nullptr) return nullptr;
  const std::size_t had =
      header->size_class == kClasses ? size : (header->size_class + 1) * kStep - sizeof(Header);
  std::memcpy(moved, block, std::min(had, size));
  GiveBlock(block);
  return moved;
}

}  // namespace

void* TakeBlock(std::size_t bytes) {
  void* block = TakeOrNull(bytes);
  MR_CHECK(block != nullptr);
  return block;
}

void GiveBlock(void* block) {
  if (block == nullptr) return;
  kept.CountInUse(-1);
  Header* header = static_cast<Header*>(block) - 1;
  const std::size_t bytes = (header->size_class + 1) * kStep;
  if (!kKeep || header->size_class == kClasses || kept.gone || kept.bytes + bytes > kKeptBytesMax) {
    std::free(header);
    return;
  }
  header->next = kept.first[header->size_class];
  kept.first[header->size_class] = header;
  kept.bytes += bytes;
}

std::int64_t BlocksInUse() { return in_use_elsewhere + kept.in_use; }

nghttp2_mem* BlockPoolForNghttp2() {
  static nghttp2_mem memory = {nullptr, Nghttp2Malloc, Nghttp2Free, Nghttp2Calloc, Nghttp2Realloc};
  return &memory;
}

}  // namespace millrace::rpc
