/*
 * What the programs of this directory stand on: the entry point, and the system
 * calls of the processors. This file has all of the assembly.
 *
 * The programs are freestanding. Each is linked to one piece of code at the
 * address 0 that runs at any page, with facts about its executable behind it.
 *
 * Source: System V ABI, "Process Initialization"; syscall(2); Linux
 * arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
 */
#ifndef LAUNCHER_SYSTEM_H
#define LAUNCHER_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Facts of the executable, which the build appends to the code. */
#define FACTS __attribute__((visibility("hidden"), aligned(8)))

/* Where to go on, and with which stack: that of a new process. */
struct start {
  const void *entry;
  long *stack;
};

/*
 * The program. `stack` is as the kernel has made it: argc, argv, NULL, the
 * environment, NULL, the auxiliary vector. It may return a stack that begins
 * up to STACK_ROOM bytes lower.
 */
struct start run(long *stack);

/* 64 pointers (MAX_ARGUMENTS of scripts/mkdenort/mod.ts); keeps the stack aligned. */
#define STACK_ROOM 512
_Static_assert(STACK_ROOM % 16 == 0, "the stack is aligned to 16 bytes");

#ifndef HOSTED

/* The first instruction. Not const: libc.c and denort.c reach data of the executable
 * from it, and libc.c writes some. */
extern char _start[] __attribute__((visibility("hidden")));

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

/*
 * The stack pointer is a multiple of 16. The dynamic linker leaves a function to be
 * called at exit in a register, for the entry point that follows: rdx and x0. A
 * register that run() preserves keeps it: rbx and x19. The first instruction allows
 * an indirect branch where the processor checks these (CET, BTI).
 */
#if defined __x86_64__
__asm__(
    ".section .text.entry, \"ax\", @progbits\n"
    ".globl _start\n"
    ".hidden _start\n"
    "_start:\n"
    "  endbr64\n"
    "  mov %rdx, %rbx\n"
    "  mov %rsp, %rdi\n"
    "  sub $" TEXT(STACK_ROOM) ", %rsp\n"
    "  call run\n"
    "  mov %rdx, %rsp\n"
    "  mov %rbx, %rdx\n"
    "  jmp *%rax\n"
    ".text\n");
#elif defined __aarch64__
__asm__(
    ".section .text.entry, \"ax\", @progbits\n"
    ".globl _start\n"
    ".hidden _start\n"
    "_start:\n"
    "  hint #34\n"
    "  mov x19, x0\n"
    "  mov x0, sp\n"
    "  sub sp, sp, #" TEXT(STACK_ROOM) "\n"
    "  bl run\n"
    "  mov sp, x1\n"
    "  mov x16, x0\n"
    "  mov x0, x19\n"
    "  br x16\n"
    ".text\n");
#endif

/* The compiler calls it to clear a large value. */
__attribute__((visibility("hidden"), no_builtin("memset"))) void *memset(
    void *to, int byte, size_t count) {
  for (char *at = to; count > 0; count--) *at++ = (char)byte;
  return to;
}

#else

/* An ordinary program, for tests. */
static const char hosted_start[1];
#define _start hosted_start

#endif

#if defined __x86_64__

enum {
  SYS_READ = 0,
  SYS_WRITE = 1,
  SYS_CLOSE = 3,
  SYS_LSEEK = 8,
  SYS_MMAP = 9,
  SYS_MUNMAP = 11,
  SYS_RT_SIGACTION = 13,
  SYS_MADVISE = 28,
  SYS_SOCKET = 41,
  SYS_CONNECT = 42,
  SYS_SENDTO = 44,
  SYS_SHUTDOWN = 48,
  SYS_GETSOCKOPT = 55,
  SYS_FCNTL = 72,
  SYS_GETEUID = 107,
  SYS_CLOCK_GETTIME = 228,
  SYS_EXIT_GROUP = 231,
  SYS_OPENAT = 257,
  SYS_NEWFSTATAT = 262,
  SYS_READLINKAT = 267,
  SYS_FACCESSAT = 269,
  SYS_PPOLL = 271,
  SYS_DUP3 = 292,
  SYS_PIPE2 = 293,
  SYS_MEMFD_CREATE = 319,
};

#elif defined __aarch64__

enum {
  SYS_DUP3 = 24,
  SYS_FCNTL = 25,
  SYS_FACCESSAT = 48,
  SYS_OPENAT = 56,
  SYS_CLOSE = 57,
  SYS_PIPE2 = 59,
  SYS_LSEEK = 62,
  SYS_READ = 63,
  SYS_WRITE = 64,
  SYS_PPOLL = 73,
  SYS_READLINKAT = 78,
  SYS_NEWFSTATAT = 79,
  SYS_EXIT_GROUP = 94,
  SYS_CLOCK_GETTIME = 113,
  SYS_RT_SIGACTION = 134,
  SYS_GETEUID = 175,
  SYS_SOCKET = 198,
  SYS_CONNECT = 203,
  SYS_SENDTO = 206,
  SYS_GETSOCKOPT = 209,
  SYS_SHUTDOWN = 210,
  SYS_MUNMAP = 215,
  SYS_MMAP = 222,
  SYS_MADVISE = 233,
  SYS_MEMFD_CREATE = 279,
};

#endif

/* Everything else is a function of its own: to read its machine code, and to stop in it. */
#define ALWAYS_INLINE __attribute__((always_inline)) static inline

/* A system call with up to six arguments; the result, or -errno. */
#ifdef SIMULATED
long system_call(long number, long a, long b, long c, long d, long e, long f);
#elif defined __x86_64__
ALWAYS_INLINE long system_call(long number, long a, long b, long c, long d,
                               long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
                     "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined __aarch64__
ALWAYS_INLINE long system_call(long number, long a, long b, long c, long d,
                               long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
}
#endif

/* Arguments that a system call does not have are 0. */
#define CALL_(number, a, b, c, d, e, f, ...)                             \
  system_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), \
              (long)(f))
#define CALL(...) CALL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* Source: Linux asm-generic/errno-base.h. */
enum { EINTR = 4, EAGAIN = 11 };

/* Source: Linux asm-generic/fcntl.h, fcntl.h. */
enum { AT_FDCWD = -100, F_OK = 0, O_CLOEXEC = 02000000 };

/* Source: Linux asm-generic/mman-common.h. */
enum {
  PROT_READ = 1,
  PROT_WRITE = 2,
  PROT_EXEC = 4,
  MAP_PRIVATE = 2,
  MAP_FIXED = 0x10,
  MAP_ANONYMOUS = 0x20,
  MAP_NORESERVE = 0x4000,
  MADV_NOHUGEPAGE = 15,
};

enum { STDIN = 0, STDOUT = 1, STDERR = 2 };

ALWAYS_INLINE long sys_read(int fd, void *to, size_t room) {
  return CALL(SYS_READ, fd, to, room);
}

ALWAYS_INLINE long sys_write(int fd, const void *from, size_t length) {
  return CALL(SYS_WRITE, fd, from, length);
}

ALWAYS_INLINE long sys_close(int fd) { return CALL(SYS_CLOSE, fd); }

_Noreturn ALWAYS_INLINE void sys_exit(int status) {
  for (;;) CALL(SYS_EXIT_GROUP, status);
}

/* The number of bytes before a text's NUL. */
static inline size_t length_of(const char *text) {
  size_t length = 0;
  while (text[length] != 0) length++;
  return length;
}

static inline bool is_same(const char *one, const char *other) {
  while (*one == *other && *one != 0) one++, other++;
  return *one == *other;
}

#endif
