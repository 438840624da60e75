#pragma once

#include <cstddef>
#include <functional>
#include <new>
#include <type_traits>
#include <utility>

#include "millrace/base/check.h"

namespace millrace {

template <typename Signature>
class UniqueFunction;

// A move-only callable of any move-constructible target. Targets of up to 48 bytes live inside it;
// larger ones on the heap. (std::move_only_function is C++23, and its inline room in libstdc++ is
// 16 bytes, which would put nearly every posted closure on the heap.)
template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)

  template <typename F>
    requires(!std::is_same_v<std::decay_t<F>, UniqueFunction> &&
             std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
  UniqueFunction(F&& f) {  // NOLINT(google-explicit-constructor)
    using Target = std::decay_t<F>;
    if constexpr (kFitsInline<Target>) {
      new (static_cast<void*>(storage_)) Target(std::forward<F>(f));
      ops_ = &kInlineOps<Target>;
    } else {
      *reinterpret_cast<Target**>(storage_) = new Target(std::forward<F>(f));
      ops_ = &kHeapOps<Target>;
    }
  }

  UniqueFunction(UniqueFunction&& other) noexcept { MoveFrom(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      Reset();
      MoveFrom(other);
    }
    return *this;
  }
  UniqueFunction(const UniqueFunction&) = delete;
  UniqueFunction& operator=(const UniqueFunction&) = delete;
  ~UniqueFunction() { Reset(); }

  explicit operator bool() const { return ops_ != nullptr; }

  R operator()(Args... args) {
    MR_CHECK(ops_ != nullptr);
    return ops_->invoke(storage_, std::forward<Args>(args)...);
  }

 private:
  static constexpr std::size_t kInlineBytes = 48;

  struct Ops {
    R (*invoke)(void*, Args&&...);
    void (*relocate)(void* from, void* to) noexcept;
    void (*destroy)(void*) noexcept;
  };

  template <typename T>
  static constexpr bool kFitsInline =
      sizeof(T) <= kInlineBytes && alignof(T) <= alignof(std::max_align_t) &&
      std::is_nothrow_move_constructible_v<T>;

  template <typename T>
  static constexpr Ops kInlineOps = {[](void* s, Args&&... args) -> R {
                                       return std::invoke(*static_cast<T*>(s),
                                                          std::forward<Args>(args)...);
                                     },
                                     [](void* from, void* to) noexcept {
                                       new (to) T(std::move(*static_cast<T*>(from)));
                                       static_cast<T*>(from)->~T();
                                     },
                                     [](void* s) noexcept { static_cast<T*>(s)->~T(); }};

  template <typename T>
  static constexpr Ops kHeapOps = {
      [](void* s, Args&&... args) -> R {
        return std::invoke(**static_cast<T**>(s), std::forward<Args>(args)...);
      },
      [](void* from, void* to) noexcept { *static_cast<T**>(to) = *static_cast<T**>(from); },
      [](void* s) noexcept { delete *static_cast<T**>(s); }};

  void MoveFrom(UniqueFunction& other) noexcept {
    ops_ = other.ops_;
    if (ops_ != nullptr) {
      ops_->relocate(other.storage_, storage_);
      other.ops_ = nullptr;
    }
  }
  void Reset() noexcept {
    if (ops_ != nullptr) {
      const Ops* ops = ops_;
      ops_ = nullptr;
      ops->destroy(storage_);
    }
  }

  const Ops* ops_ = nullptr;
  alignas(std::max_align_t) std::byte storage_[kInlineBytes];
};

using Closure = UniqueFunction<void()>;

}  // namespace millrace
