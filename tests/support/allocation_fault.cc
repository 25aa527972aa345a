// A preloaded library that makes one allocation of a running process fail.
//
// The signal SIGUSR2 with the value K (sigqueue) makes the K-th allocation from then on fail,
// counted from 1 over all threads.
//
// CALIBD_ALLOCATION_FAULT=own: counts what the code of the program itself allocates with operator
// new, which then throws bad_alloc. Memory that libraries allocate for themselves does not count:
// gRPC ends the process without memory.
// CALIBD_ALLOCATION_FAULT=all: counts all calls of malloc, calloc and realloc.
//
// Each failure writes "allocation fault" to standard error.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" {
// The allocator of glibc, under names that this library does not replace.
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
}

namespace {

// Number of allocations until one fails; 0 or less: none does.
std::atomic<long> left = 0;
bool own = false;
std::uintptr_t code_begin = 0;
std::uintptr_t code_end = 0;

// The first object is the program.
int FindProgram(dl_phdr_info* info, std::size_t /*size*/, void* /*data*/) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    code_begin = info->dlpi_addr + part.p_vaddr;
    code_end = code_begin + part.p_memsz;
  }
  return 1;
}

void Arm(int /*signal*/, siginfo_t* info, void* /*context*/) { left = info->si_value.sival_int; }

bool Fails() {
  if (left.load(std::memory_order_relaxed) <= 0 || --left != 0) return false;
  constexpr char kText[] = "allocation fault\n";
  static_cast<void>(!write(STDERR_FILENO, kText, sizeof(kText) - 1));
  return true;
}

bool FailsForAll() {
  if (own || !Fails()) return false;
  errno = ENOMEM;
  return true;
}

void* New(std::size_t size, const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (own && address >= code_begin && address < code_end && Fails()) throw std::bad_alloc();
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

__attribute__((constructor)) void Begin() {
  const char* const kind = std::getenv("CALIBD_ALLOCATION_FAULT");
  if (kind == nullptr) return;
  own = std::strcmp(kind, "own") == 0;
  dl_iterate_phdr(FindProgram, nullptr);
  struct sigaction action {};
  action.sa_sigaction = Arm;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
}

}  // namespace

extern "C" {
void* malloc(std::size_t size) { return FailsForAll() ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) {
  return FailsForAll() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  return FailsForAll() ? nullptr : __libc_realloc(memory, size);
}
}  // extern "C"

void* operator new(std::size_t size) { return New(size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return New(size, __builtin_return_address(0)); }
