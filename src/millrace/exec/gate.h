#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/function.h"

namespace millrace::exec {

// Counts the operations in flight on an object, so that it is destroyed only after the last one
// ended.
//
// Thread: any.
// Invariants: after Close no new holder is given out; the closure given to Close runs exactly once,
// on the thread that released the last holder (or inside Close when there was none), so it should
// post, not do.
class Gate {
 private:
  struct State {
    // Twice the number of holders, plus one once closed.
    std::atomic<std::uint64_t> word{0};
    Closure on_drained;
  };

 public:
  class Holder {
   public:
    Holder() = default;
    Holder(Holder&& other) noexcept : state_(std::move(other.state_)) {}
    Holder& operator=(Holder&& other) noexcept {
      if (this != &other) {
        Release();
        state_ = std::move(other.state_);
      }
      return *this;
    }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    ~Holder() { Release(); }

    explicit operator bool() const { return state_ != nullptr; }
    void Release() {
      if (state_ == nullptr) return;
      std::shared_ptr<State> state = std::move(state_);
      if (state->word.fetch_sub(2, std::memory_order_acq_rel) == 3) {
        Closure run = std::move(state->on_drained);
        run();
      }
    }

   private:
    friend class Gate;
    explicit Holder(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  Gate() : state_(std::make_shared<State>()) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Empty when the gate is closed.
  [[nodiscard]] Holder TryEnter() {
    std::uint64_t word = state_->word.load(std::memory_order_relaxed);
    do {
      if ((word & 1) != 0) return {};
    } while (!state_->word.compare_exchange_weak(word, word + 2, std::memory_order_acq_rel));
    return Holder(state_);
  }

  // TryEnter where the caller knows that the gate is open.
  [[nodiscard]] Holder Enter() {
    Holder holder = TryEnter();
    MR_CHECK(static_cast<bool>(holder));
    return holder;
  }

  [[nodiscard]] bool closed() const {
    return (state_->word.load(std::memory_order_acquire) & 1) != 0;
  }

  // Once only.
  void Close(Closure on_drained) {
    MR_CHECK(!closed());
    state_->on_drained = std::move(on_drained);
    if (state_->word.fetch_or(1, std::memory_order_acq_rel) == 0) {
      Closure run = std::move(state_->on_drained);
      run();
    }
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace millrace::exec
