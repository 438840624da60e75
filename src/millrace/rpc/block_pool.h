#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>

namespace millrace::rpc {

// Memory blocks that each thread keeps for its next use. A batch of calls frees and takes as many
// blocks at once as malloc's own caches do not hold; that was a sixth of a call's cost.
//
// Thread: any; a block may be given back on another thread than it was taken on.
// Bounds: blocks up to 1 KiB; a thread keeps at most 1 MiB. Under AddressSanitizer nothing is kept.
void* TakeBlock(std::size_t bytes);
void GiveBlock(void* block);

// Blocks taken and not given back, as counted by this thread and by those that have ended: exact
// once the others have. For tests that look for leaks.
std::int64_t BlocksInUse();

// Blocks for nghttp2.
nghttp2_mem* BlockPoolForNghttp2();

// Blocks for standard containers and shared pointers.
template <typename T>
struct BlockAllocator {
  using value_type = T;
  BlockAllocator() = default;
  template <typename U>
  BlockAllocator(const BlockAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t n) { return static_cast<T*>(TakeBlock(n * sizeof(T))); }
  void deallocate(T* block, std::size_t) { GiveBlock(block); }
  template <typename U>
  bool operator==(const BlockAllocator<U>&) const {
    return true;
  }
};

}  // namespace millrace::rpc
