/*
 * Starts the dynamic linker, as the kernel would do by PT_INTERP.
 *
 * The kernel knows the dynamic linker by an absolute path only. This program looks
 * for it in a directory beside the executable first, which has its libraries, too,
 * so that an executable runs where there is no glibc, wherever the two are installed.
 *
 * 1. The path is that of the executable, with the directory and the name of the
 *    dynamic linker in place of its last part. If there is no such file, it is the
 *    one that the executable named.
 * 2. Its segments are mapped.
 * 3. The auxiliary vector gets what it would have from the kernel: where the dynamic
 *    linker lies, where the executable starts, and program headers with PT_INTERP,
 *    which the file hides from the kernel as PT_NULL.
 *
 * The dynamic linker finds the libraries by DT_RPATH. DT_RUNPATH would be for the
 * executable's own imports only, and gives way to LD_LIBRARY_PATH of the caller, whose
 * libraries may be of another libc. The tag is written in memory, and only if the
 * directory is there: the dynamic linker makes 22 system calls to find that it is not.
 *
 * Source: Linux fs/binfmt_elf.c; glibc elf/rtld.c `rtld_setup_main_map`, which takes
 * the executable's address from AT_PHDR and PT_PHDR, and wants PT_INTERP; ld.so(8).
 */
#include "system.h"

/* The build appends these to the code (scripts/stubs/linker_stub.ts). */
extern const FACTS struct {
  /* From _start on: where the executable starts; the dynamic tag that can name the
   * path of the libraries; and what the texts of dynamic tags are counted from. */
  int64_t entry;
  int64_t tag;
  int64_t texts;
  /* The path of the dynamic linker, and what replaces the executable's name. */
  char linker[64];
  char beside[64];
  /* The path of the libraries. */
  char rpath[64];
  /* What to print if there is no dynamic linker. */
  char failure[];
} facts;

/* Source: linux/auxvec.h. */
enum {
  AT_PHDR = 3,
  AT_PHNUM = 5,
  AT_PAGESZ = 6,
  AT_BASE = 7,
  AT_ENTRY = 9,
  /* Set for a program with more rights than its caller. */
  AT_SECURE = 23,
  AT_COUNT = 24,
};

/* Source: elf(5). */
enum { PT_NULL = 0, PT_LOAD = 1, PT_INTERP = 3, PT_PHDR = 6 };
enum { PF_X = 1, PF_W = 2, PF_R = 4 };
enum { DT_RPATH = 15 };

struct header {
  unsigned char identity[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, segments_at, sections_at;
  uint32_t flags;
  uint16_t size, segment_size, segment_count;
  uint16_t section_size, section_count, names;
};

struct segment {
  uint32_t type, flags;
  uint64_t file_offset, address, physical_address, file_size, memory_size;
  uint64_t alignment;
};

struct tag {
  int64_t tag;
  uint64_t value;
};

enum {
  /* What is read of the dynamic linker: its header and program headers. */
  HEAD_BYTES = 1024,
  MAX_SEGMENTS = (HEAD_BYTES - sizeof(struct header)) / sizeof(struct segment),
  /* Room for the executable's own program headers. */
  COPY_BYTES = 4096,
  /* A longer path counts as missing. */
  PATH_BYTES = 2048,
};

/* The values of the auxiliary vector, by type. */
typedef long *auxiliary[AT_COUNT];

/* The dynamic linker. */
struct linker {
  int fd;
  /* Where it is mapped, and how many bytes it has there. */
  char *base;
  size_t span;
  union {
    struct header header;
    char bytes[HEAD_BYTES];
  } head;
};

_Noreturn static void fail(void) {
  sys_write(STDOUT, facts.failure, length_of(facts.failure));
  sys_exit(1);
}

/* Finds the values of the auxiliary vector: behind argc, the arguments and the environment. */
static void find_auxiliary(long *stack, auxiliary values) {
  long *at = stack + 1;
  while (*at++ != 0) continue;
  while (*at++ != 0) continue;
  for (; at[0] != 0; at += 2) {
    if (at[0] < AT_COUNT) values[at[0]] = &at[1];
  }
}

/* Has the dynamic linker look for libraries beside the executable, in place of a
 * flag that another tag has, too. */
static void set_rpath(void) {
  struct tag *tag = (struct tag *)(_start + facts.tag);
  tag->tag = DT_RPATH;
  tag->value = (uint64_t)(facts.rpath - (_start + facts.texts));
}

/*
 * Opens the dynamic linker beside the executable; returns a negative number if there
 * is none. Whoever calls a program with more rights may choose what is beside it.
 */
static long open_beside(bool is_secure) {
  if (is_secure) return -1;
  char path[PATH_BYTES + sizeof facts.beside];
  long length = CALL(SYS_READLINKAT, 0, "/proc/self/exe", path, PATH_BYTES);
  if (length < 0 || length == PATH_BYTES) return -1; /* cut off */
  char *end = path + length;
  do end--;
  while (*end != '/'); /* it is absolute, so there is one */
  for (const char *from = facts.beside; (*end++ = *from++) != 0;) continue;
  long fd = CALL(SYS_OPENAT, AT_FDCWD, path, O_CLOEXEC);
  if (fd >= 0) set_rpath();
  return fd;
}

/* Opens the dynamic linker, and reads its headers. */
static void open_linker(struct linker *linker, bool is_secure) {
  long fd = open_beside(is_secure);
  if (fd < 0) fd = CALL(SYS_OPENAT, AT_FDCWD, facts.linker, O_CLOEXEC);
  if (fd < 0) fail();
  linker->fd = (int)fd;
  if (sys_read(linker->fd, &linker->head, HEAD_BYTES) != HEAD_BYTES) fail();
  const struct header *header = &linker->head.header;
  if (header->segments_at != sizeof(struct header)) fail();
  if (header->segment_count > MAX_SEGMENTS) fail();
}

static const struct segment *segments_of(const struct linker *linker) {
  return (const struct segment *)(&linker->head.header + 1);
}

/* Maps memory for the dynamic linker, and for program headers behind it. */
static void reserve(struct linker *linker, size_t page_size) {
  size_t end = 0; /* segments are in order of address */
  for (int index = 0; index < linker->head.header.segment_count; index++) {
    const struct segment *segment = segments_of(linker) + index;
    if (segment->type == PT_LOAD) end = segment->address + segment->memory_size;
  }
  linker->span = (end + page_size - 1) & -page_size;
  long base = CALL(SYS_MMAP, 0, linker->span + COPY_BYTES,
                   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base < 0) fail();
  linker->base = (char *)base;
}

/* Maps a segment from its file. */
static void map_segment(const struct linker *linker,
                        const struct segment *segment, size_t page_size) {
  int protection = 0;
  if (segment->flags & PF_R) protection |= PROT_READ;
  if (segment->flags & PF_W) protection |= PROT_WRITE;
  if (segment->flags & PF_X) protection |= PROT_EXEC;
  size_t before = segment->address & (page_size - 1); /* from the page's start */
  char *address = linker->base + segment->address;
  long mapped = CALL(SYS_MMAP, address - before, before + segment->file_size,
                     protection, MAP_PRIVATE | MAP_FIXED, linker->fd,
                     segment->file_offset & -page_size);
  if (mapped < 0) fail();
  /* The page behind what is in the file is filled with zeros; later ones are new. */
  if (segment->file_size == segment->memory_size) return;
  volatile char *at = address + segment->file_size;
  while (((uintptr_t)at & (page_size - 1)) != 0) *at++ = 0;
}

/*
 * Has the dynamic linker read a copy of the program headers, with PT_INTERP for
 * PT_NULL, and PT_PHDR as far from its place as the copy is.
 */
static void show_headers(const struct linker *linker, auxiliary values) {
  const struct segment *from = (const struct segment *)*values[AT_PHDR];
  struct segment *to = (struct segment *)(linker->base + linker->span);
  uint64_t distance = (uint64_t)to - (uint64_t)from;
  for (long left = *values[AT_PHNUM]; left > 0; left--, from++, to++) {
    *to = *from;
    if (from->type == PT_NULL) to->type = PT_INTERP;
    if (from->type == PT_PHDR) to->address += distance;
  }
  *values[AT_PHDR] = (long)(linker->base + linker->span);
}

struct start run(long *stack) {
  auxiliary values = {NULL};
  find_auxiliary(stack, values);
  size_t page_size = (size_t)*values[AT_PAGESZ];
  struct linker linker;
  open_linker(&linker, values[AT_SECURE] != NULL && *values[AT_SECURE] != 0);
  reserve(&linker, page_size);
  for (int index = 0; index < linker.head.header.segment_count; index++) {
    const struct segment *segment = segments_of(&linker) + index;
    if (segment->type == PT_LOAD) map_segment(&linker, segment, page_size);
  }
  sys_close(linker.fd);
  show_headers(&linker, values);
  *values[AT_ENTRY] = (long)(_start + facts.entry);
  *values[AT_BASE] = (long)linker.base;
  return (struct start){linker.base + linker.head.header.entry, stack};
}
