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
// Each failure writes "allocation fault" to standard error. A read or write through a null pointer
// then writes "null pointer in " and the name of the library whose code did it, such as
// libupb.so.29, before it ends the process as it would without this library.
#include <link.h>
#include <ucontext.h>
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

// The code of the program, or of a library.
struct Code {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  char name[64] = {};

  [[nodiscard]] bool Has(std::uintptr_t address) const { return address >= begin && address < end; }
};
// The first one is the program. The handler of a signal reads them, so they are found before.
constexpr std::size_t kMostCodes = 256;
Code codes[kMostCodes];
std::size_t code_count = 0;

int FindCode(dl_phdr_info* info, std::size_t /*size*/, void* /*data*/) {
  for (int i = 0; i < info->dlpi_phnum && code_count < kMostCodes; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    Code& code = codes[code_count++];
    code.begin = info->dlpi_addr + part.p_vaddr;
    code.end = code.begin + part.p_memsz;
    const char* const slash = std::strrchr(info->dlpi_name, '/');
    std::strncpy(code.name, slash == nullptr ? info->dlpi_name : slash + 1, sizeof(code.name) - 1);
  }
  return 0;
}

void Write(const char* text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); }

void Arm(int /*signal*/, siginfo_t* info, void* /*context*/) { left = info->si_value.sival_int; }

void NameLibrary(int signal, siginfo_t* info, void* context) {
  // A field of an object at address 0 is within the first page.
  constexpr std::uintptr_t kPage = 4096;
  if (reinterpret_cast<std::uintptr_t>(info->si_addr) < kPage) {
    const auto at = static_cast<std::uintptr_t>(
        static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
    for (std::size_t i = 0; i < code_count; ++i) {
      if (!codes[i].Has(at)) continue;
      Write("null pointer in ");
      Write(i == 0 ? "the program" : codes[i].name);
      Write("\n");
    }
  }
  // The instruction runs again, and ends the process.
  std::signal(signal, SIG_DFL);
}

bool Fails() {
  if (left.load(std::memory_order_relaxed) <= 0 || --left != 0) return false;
  Write("allocation fault\n");
  return true;
}

bool FailsForAll() {
  if (own || !Fails()) return false;
  errno = ENOMEM;
  return true;
}

void* New(std::size_t size, const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (own && codes[0].Has(address) && Fails()) throw std::bad_alloc();
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

__attribute__((constructor)) void Begin() {
  const char* const kind = std::getenv("CALIBD_ALLOCATION_FAULT");
  if (kind == nullptr) return;
  own = std::strcmp(kind, "own") == 0;
  dl_iterate_phdr(FindCode, nullptr);
  struct sigaction action {};
  action.sa_sigaction = Arm;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
  action.sa_sigaction = NameLibrary;
  sigaction(SIGSEGV, &action, nullptr);
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
