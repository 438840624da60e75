// A disk that fails when told to: preloaded (LD_PRELOAD) into a real server by the system tests, never part of the
// product. Calls of the C library on files below one folder are counted, and fail, lie or wait as a control block says
// that the test shares through a file.
//
//   DISK_FAULTS_ROOT     the folder; others are left alone
//   DISK_FAULTS_CONTROL  file of sizeof(struct Control) bytes, mapped shared
//
// Thread: any. What a test changes counts from the next call on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

// The same layout is in tests/system/disk_faults.py. Errors are errno values, 0 = none.
struct Control {
  _Atomic uint32_t write_error;    // Writes, truncations, reserving room.
  _Atomic uint32_t sync_error;
  _Atomic uint32_t create_error;   // Opening for writing, rename, unlink, mkdir, link.
  _Atomic uint32_t read_error;
  _Atomic uint32_t log_only;       // Writes and syncs fail for *.log files only.
  _Atomic uint32_t torn;           // A write that fails puts half of its bytes there first.
  _Atomic uint32_t short_writes;   // Writes succeed, but with so many bytes at a time at most; 0 = all.
  _Atomic uint32_t lose_unsynced;  // A sync that fails turns what was never synced into zeros, as lost pages do.
  _Atomic uint32_t delay_us;       // Before each write and sync.
  _Atomic uint32_t skip;           // So many calls that would fail go well first.
  _Atomic uint32_t most;           // So many fail, then all is well; 0 = without end.
  _Atomic uint32_t faults;         // How often something failed.
  _Atomic uint32_t writes;         // Calls seen.
  _Atomic uint32_t syncs;
};

enum { kFdsMax = 8192 };
enum FdKind { kOther = 0, kFile = 1, kLog = 2 };

static struct Control* control;
static char root[1024];
static size_t root_size;
static _Atomic unsigned char fd_kind[kFdsMax];
static _Atomic int64_t fd_synced[kFdsMax];  // Bytes known to be on the disk.

// The function that this one stands before.
#define REAL(name)                        \
  static __typeof__(&name) real_##name;   \
  if (real_##name == NULL) real_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void Setup(void) {
  const char* folder = getenv("DISK_FAULTS_ROOT");
  const char* path = getenv("DISK_FAULTS_CONTROL");
  if (folder == NULL || path == NULL || strlen(folder) >= sizeof(root)) return;
  REAL(open);
  const int fd = real_open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* mapped = mmap(NULL, sizeof(struct Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return;
  strcpy(root, folder);
  root_size = strlen(root);
  control = mapped;
}

static int IsOurs(const char* path) {
  return control != NULL && path != NULL && strncmp(path, root, root_size) == 0 &&
         (path[root_size] == '/' || path[root_size] == '\0');
}

static enum FdKind KindOf(int fd) {
  return control != NULL && fd >= 0 && fd < kFdsMax ? (enum FdKind)fd_kind[fd] : kOther;
}

// The error to fail with now, or 0.
static int Fault(const _Atomic uint32_t* error) {
  if (*error == 0) return 0;
  uint32_t skip = control->skip;
  while (skip > 0) {
    if (atomic_compare_exchange_weak(&control->skip, &skip, skip - 1)) return 0;
  }
  const uint32_t most = control->most;
  if (most != 0 && control->faults >= most) return 0;
  ++control->faults;
  return (int)*error;
}

static int FaultOf(const _Atomic uint32_t* error, enum FdKind kind) {
  if (kind == kOther || (control->log_only != 0 && kind != kLog)) return 0;
  return Fault(error);
}

static void Delay(void) {
  if (control->delay_us != 0) usleep(control->delay_us);
}

static int Opened(int fd, const char* path, int flags) {
  if (fd < 0 || fd >= kFdsMax || !IsOurs(path)) return fd;
  const size_t size = strlen(path);
  fd_kind[fd] = size > 4 && strcmp(path + size - 4, ".log") == 0 ? kLog : kFile;
  struct stat info;
  fd_synced[fd] = (flags & O_TRUNC) == 0 && fstat(fd, &info) == 0 ? info.st_size : 0;
  return fd;
}

static int RefusesOpen(const char* path, int flags) {
  if (!IsOurs(path) || (flags & (O_WRONLY | O_RDWR | O_CREAT)) == 0) return 0;
  const int error = Fault(&control->create_error);
  errno = error;
  return error;
}

#define OPEN_BODY(name, ...)                                      \
  mode_t mode = 0;                                                \
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {                     \
    va_list rest;                                                 \
    va_start(rest, flags);                                        \
    mode = (mode_t)va_arg(rest, int);                             \
    va_end(rest);                                                 \
  }                                                               \
  REAL(name);                                                     \
  if (RefusesOpen(path, flags)) return -1;                        \
  return Opened(real_##name(__VA_ARGS__), path, flags)

int open(const char* path, int flags, ...) { OPEN_BODY(open, path, flags, mode); }
int open64(const char* path, int flags, ...) { OPEN_BODY(open64, path, flags, mode); }
int openat(int at, const char* path, int flags, ...) { OPEN_BODY(openat, at, path, flags, mode); }
int openat64(int at, const char* path, int flags, ...) {
  OPEN_BODY(openat64, at, path, flags, mode);
}
// What calls become that are compiled with _FORTIFY_SOURCE.
int __open_2(const char* path, int flags) { return open(path, flags); }
int __open64_2(const char* path, int flags) { return open64(path, flags); }

int close(int fd) {
  REAL(close);
  if (KindOf(fd) != kOther) fd_kind[fd] = kOther;
  return real_close(fd);
}

// How many bytes of a write go through: `count`, or fewer, or -1 with errno set.
static ssize_t Allowed(int fd, size_t count, enum FdKind kind) {
  ++control->writes;
  Delay();
  const int error = FaultOf(&control->write_error, kind);
  if (error != 0) {
    if (control->torn != 0 && count > 1) return (ssize_t)(count / 2);
    errno = error;
    return -1;
  }
  (void)fd;
  const size_t most = control->short_writes;
  return (ssize_t)(most != 0 && count > most ? most : count);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  REAL(write);
  const enum FdKind kind = KindOf(fd);
  if (kind == kOther) return real_write(fd, bytes, count);
  const ssize_t allowed = Allowed(fd, count, kind);
  return allowed < 0 ? -1 : real_write(fd, bytes, (size_t)allowed);
}

#define PWRITE_BODY(name)                                                 \
  REAL(name);                                                             \
  const enum FdKind kind = KindOf(fd);                                    \
  if (kind == kOther) return real_##name(fd, bytes, count, offset);       \
  const ssize_t allowed = Allowed(fd, count, kind);                       \
  return allowed < 0 ? -1 : real_##name(fd, bytes, (size_t)allowed, offset)

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) { PWRITE_BODY(pwrite); }
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t offset) { PWRITE_BODY(pwrite64); }

static void LoseUnsynced(int fd) {
  struct stat info;
  if (control->lose_unsynced == 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  static const char kZeros[4096];
  REAL(pwrite);
  for (int64_t at = fd_synced[fd]; at < info.st_size;) {
    const int64_t left = info.st_size - at;
    const ssize_t done = real_pwrite(fd, kZeros, left < 4096 ? (size_t)left : 4096, at);
    if (done <= 0) return;
    at += done;
  }
}

// 0, or -1 with errno set.
static int Sync(int fd, enum FdKind kind) {
  ++control->syncs;
  Delay();
  const int error = FaultOf(&control->sync_error, kind);
  if (error == 0) return 0;
  LoseUnsynced(fd);
  errno = error;
  return -1;
}

static int Synced(int fd, int outcome) {
  struct stat info;
  if (outcome == 0 && fstat(fd, &info) == 0) fd_synced[fd] = info.st_size;
  return outcome;
}

int fsync(int fd) {
  REAL(fsync);
  const enum FdKind kind = KindOf(fd);
  if (kind == kOther) return real_fsync(fd);
  return Sync(fd, kind) != 0 ? -1 : Synced(fd, real_fsync(fd));
}

int fdatasync(int fd) {
  REAL(fdatasync);
  const enum FdKind kind = KindOf(fd);
  if (kind == kOther) return real_fdatasync(fd);
  return Sync(fd, kind) != 0 ? -1 : Synced(fd, real_fdatasync(fd));
}

#define SIZE_BODY(name, ...)                                                                \
  REAL(name);                                                                               \
  const enum FdKind kind = KindOf(fd);                                                      \
  const int error = kind == kOther ? 0 : FaultOf(&control->write_error, kind);              \
  if (error != 0) {                                                                         \
    errno = error;                                                                          \
    return -1;                                                                              \
  }                                                                                         \
  return real_##name(__VA_ARGS__)

int ftruncate(int fd, off_t size) { SIZE_BODY(ftruncate, fd, size); }
int ftruncate64(int fd, off64_t size) { SIZE_BODY(ftruncate64, fd, size); }
int fallocate(int fd, int mode, off_t from, off_t size) { SIZE_BODY(fallocate, fd, mode, from, size); }
int fallocate64(int fd, int mode, off64_t from, off64_t size) {
  SIZE_BODY(fallocate64, fd, mode, from, size);
}

#define READ_BODY(name, ...)                                                        \
  REAL(name);                                                                       \
  const int error = KindOf(fd) == kOther ? 0 : Fault(&control->read_error);         \
  if (error != 0) {                                                                 \
    errno = error;                                                                  \
    return -1;                                                                      \
  }                                                                                 \
  return real_##name(__VA_ARGS__)

ssize_t read(int fd, void* bytes, size_t count) { READ_BODY(read, fd, bytes, count); }
ssize_t pread(int fd, void* bytes, size_t count, off_t at) { READ_BODY(pread, fd, bytes, count, at); }
ssize_t pread64(int fd, void* bytes, size_t count, off64_t at) {
  READ_BODY(pread64, fd, bytes, count, at);
}

#define NAME_BODY(name, path, ...)                                            \
  REAL(name);                                                                 \
  const int error = IsOurs(path) ? Fault(&control->create_error) : 0;         \
  if (error != 0) {                                                           \
    errno = error;                                                            \
    return -1;                                                                \
  }                                                                           \
  return real_##name(__VA_ARGS__)

int rename(const char* from, const char* to) { NAME_BODY(rename, to, from, to); }
int link(const char* from, const char* to) { NAME_BODY(link, to, from, to); }
int unlink(const char* path) { NAME_BODY(unlink, path, path); }
int mkdir(const char* path, mode_t mode) { NAME_BODY(mkdir, path, path, mode); }
