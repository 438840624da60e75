#pragma once

// Clang thread-safety attributes; they vanish under other compilers. The `clang` preset turns a
// wrong access into a compile error.

#if defined(__clang__)
#define MR_ATTRIBUTE(x) __attribute__((x))
#else
#define MR_ATTRIBUTE(x)
#endif

#define MR_CAPABILITY(name) MR_ATTRIBUTE(capability(name))
#define MR_SCOPED_CAPABILITY MR_ATTRIBUTE(scoped_lockable)
#define MR_GUARDED_BY(x) MR_ATTRIBUTE(guarded_by(x))
#define MR_PT_GUARDED_BY(x) MR_ATTRIBUTE(pt_guarded_by(x))
#define MR_REQUIRES(...) MR_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define MR_EXCLUDES(...) MR_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define MR_ACQUIRE(...) MR_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define MR_RELEASE(...) MR_ATTRIBUTE(release_capability(__VA_ARGS__))
#define MR_ASSERT_CAPABILITY(x) MR_ATTRIBUTE(assert_capability(x))
#define MR_NO_THREAD_SAFETY_ANALYSIS MR_ATTRIBUTE(no_thread_safety_analysis)
