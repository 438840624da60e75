#include "millrace/exec/executor.h"

namespace millrace::exec {
namespace {

thread_local Executor* current_executor = nullptr;

}  // namespace

Executor* Executor::Current() { return current_executor; }

Executor::CurrentScope::CurrentScope(Executor* executor) : previous_(current_executor) {
  current_executor = executor;
}

Executor::CurrentScope::~CurrentScope() { current_executor = previous_; }

}  // namespace millrace::exec
