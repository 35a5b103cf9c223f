/*
 * For libFuzzer: runs call.c from its first step to its last, with a kernel that is
 * made of random bytes. They decide what the environment and the configuration are,
 * what the daemon says, and how each system call ends: in parts, with EINTR, EAGAIN or
 * another error, or after its time.
 *
 * What must hold, beside what the sanitizers see: a call is either answered or left to
 * the engine; the engine gets the stack as it was, and all of stdin.
 */
#define SIMULATED
#include "../call.c"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

const struct facts facts = {.engine = 0, .build = "0123456789abcdef"};

enum { ENOENT = 2, EIO = 5, EPERM = 1 };
enum {
  SOCKET = 7,
  FILE_IN_MEMORY = 8,
  PIPE_OUT = 9,
  PIPE_IN = 10,
  PROCESS_FILE = 11,
};

/* The random bytes that are left. Without any, everything goes well. */
static const unsigned char *random_at, *random_end;

static unsigned next_random(void) {
  return random_at < random_end ? *random_at++ : 255;
}

/* A part of the random bytes, such as the configuration. */
struct input {
  const char *at;
  size_t left;
};

static struct input take_input(size_t limit) {
  size_t length = next_random() << 8;
  length = (length | next_random()) % limit;
  size_t left = (size_t)(random_end - random_at);
  if (length > left) length = left;
  struct input input = {(const char *)random_at, length};
  random_at += length;
  return input;
}

/* What happens in a run. */
static struct {
  struct input configuration, daemon;
  /* stdin as the program has read it, and as it is put back. */
  char read[1 << 17], back[1 << 17];
  size_t read_length, back_length;
  bool has_read, is_stdin_replaced, is_answered, has_failed_to_read;
  unsigned polls;
} simulated;

static jmp_buf at_exit;

/* The mapping of the program: one for all runs. */
static char *mapping;

static void require(bool condition) {
  if (!condition) abort();
}

/* An error, or how many of some bytes are done. */
static long part_of(size_t length) {
  switch (next_random()) {
    case 0: return -EINTR;
    case 1: return -EAGAIN;
    case 2: return -EIO;
    case 3: return length > 0 ? 1 : 0;
    case 4: return (long)((length + 1) / 2);
    default: return (long)length;
  }
}

static long read_from(struct input *input, char *to, size_t room) {
  size_t length = input->left < room ? input->left : room;
  long count = part_of(length);
  if (count <= 0) return count;
  memcpy(to, input->at, (size_t)count);
  input->at += count;
  input->left -= (size_t)count;
  return count;
}

/* What a file of the daemon's process has: random bytes, some of them meant. */
static long read_process(char *to, size_t room) {
  static const char MEANT[] = ") D(";
  size_t length = next_random() % (room + 1);
  for (size_t at = 0; at < length; at++) {
    unsigned byte = next_random();
    to[at] = byte < 128 ? MEANT[byte % (sizeof MEANT - 1)] : (char)byte;
  }
  return part_of(length);
}

static long read_stream(int fd, char *to, size_t room) {
  if (fd == PROCESS_FILE) return read_process(to, room);
  if (fd != STDIN) return read_from(&simulated.daemon, to, room);
  simulated.has_read = true;
  long count = read_from(&simulated.configuration, to, room);
  if (count > 0) {
    memcpy(simulated.read + simulated.read_length, to, (size_t)count);
    simulated.read_length += (size_t)count;
  }
  if (count == -EIO) simulated.has_failed_to_read = true;
  return count;
}

static long write_stream(int fd, const char *from, size_t length) {
  long count = part_of(length);
  if (fd == STDOUT) simulated.is_answered = true;
  if (count > 0 && (fd == FILE_IN_MEMORY || fd == PIPE_IN)) {
    memcpy(simulated.back + simulated.back_length, from, (size_t)count);
    simulated.back_length += (size_t)count;
  }
  return count;
}

static long or_error(long result, long error) {
  return next_random() < 16 ? -error : result;
}

long system_call(long number, long a, long b, long c, long d, long e, long f) {
  (void)d, (void)f;
  switch (number) {
    case SYS_MMAP:
      require((size_t)b == MEMORY_BYTES);
      return or_error((long)mapping, ENOENT);
    case SYS_READ: return read_stream((int)a, (char *)b, (size_t)c);
    case SYS_WRITE: return write_stream((int)a, (const char *)b, (size_t)c);
    case SYS_SENDTO:
      require(a == SOCKET);
      return part_of((size_t)c);
    case SYS_SOCKET: return or_error(next_random() < 8 ? 1 : SOCKET, EPERM);
    case SYS_CONNECT:
      require(((const char *)b)[2] == '/' && c <= 2 + MAX_PATH + 1);
      return or_error(0, ENOENT);
    case SYS_GETSOCKOPT:
      ((int *)d)[0] = (int)(next_random() << 24 | next_random());
      ((unsigned *)d)[1] = next_random() < 64 ? 1000 : 0;
      require(*(int *)e == 12);
      return or_error(0, EIO);
    case SYS_OPENAT:
      require(strncmp((const char *)b, "/proc/", 6) == 0);
      return or_error(PROCESS_FILE, ENOENT);
    case SYS_FACCESSAT:
      require(strlen((const char *)b) < PATH_ROOM);
      return next_random() < 16 ? 0 : -ENOENT;
    case SYS_NEWFSTATAT: return next_random() < 64 ? 0 : -ENOENT;
    case SYS_MEMFD_CREATE: return or_error(FILE_IN_MEMORY, EPERM);
    case SYS_PIPE2:
      ((int *)a)[0] = PIPE_OUT;
      ((int *)a)[1] = PIPE_IN;
      return or_error(0, EIO);
    case SYS_FCNTL: return or_error(0, EPERM);
    case SYS_DUP3:
      require(b == STDIN && (a == FILE_IN_MEMORY || a == PIPE_OUT));
      simulated.is_stdin_replaced = true;
      return or_error(0, EIO);
    case SYS_PPOLL:
      require(++simulated.polls < 1 << 20);
      if (next_random() < 8) return -EPERM;
      return next_random() < 128 ? 0 : 1;
    case SYS_EXIT_GROUP: longjmp(at_exit, 1);
    case SYS_CLOSE: require(a > STDERR || a == 1); return 0;
    default: return 0;
  }
}

enum { MAX_VARIABLES = 32, MAX_INPUT = 1 << 16 };

/* Texts for the environment, each in memory of its own, so that its end is watched. */
static char *take_text(const char *name) {
  struct input value = take_input(200);
  size_t length = strlen(name);
  char *text = malloc(length + value.left + 1);
  require(text != NULL);
  memcpy(text, name, length);
  for (size_t at = 0; at < value.left; at++) {
    char byte = value.at[at];
    text[length + at] = byte == 0 ? '=' : byte;
  }
  text[length + value.left] = 0;
  return text;
}

static const char *const USUAL[] = {
    "CNI_COMMAND=ADD",        "CNI_COMMAND=DEL", "CNI_COMMAND=STATUS",
    "CNI_CONTAINERID=c1",     "CNI_NETNS=/n",    "CNI_IFNAME=eth0",
    "CNI_PATH=/opt/cni/bin",  "CNI_PATH=",       "CNI_NO_DAEMON=",
    "CNI_TRACE=",             "KUBERNETES_X=",   "",
};

/* Returns the stack of a new process. */
static long *make_stack(long *stack, char **texts, size_t *count) {
  static const char *const NAMES[] = {"/opt/cni/bin/ptp", "multus", "", "a/"};
  *count = 0;
  stack[0] = next_random() < 8 ? 2 : 1;
  stack[1] = (long)(texts[(*count)++] = take_text(NAMES[next_random() % 4]));
  stack[2] = 0;
  size_t variables = next_random() % MAX_VARIABLES, at = 3;
  for (; variables > 0; variables--) {
    size_t kind = next_random() % (sizeof USUAL / sizeof *USUAL);
    stack[at++] = (long)(texts[(*count)++] = take_text(USUAL[kind]));
  }
  stack[at++] = 0;
  return stack;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (mapping == NULL) mapping = malloc(MEMORY_BYTES);
  require(mapping != NULL);
  random_at = data;
  random_end = data + size;
  memset(&simulated, 0, offsetof(__typeof__(simulated), read));
  simulated.read_length = simulated.back_length = simulated.polls = 0;
  simulated.has_read = simulated.is_stdin_replaced = false;
  simulated.is_answered = simulated.has_failed_to_read = false;
  static long stack[MAX_VARIABLES + 4], before[MAX_VARIABLES + 4];
  static char *texts[MAX_VARIABLES + 1];
  static size_t count;
  make_stack(stack, texts, &count);
  memcpy(before, stack, sizeof stack);
  simulated.configuration = take_input(MAX_INPUT);
  simulated.daemon = take_input(MAX_INPUT);
  if (setjmp(at_exit) == 0) {
    const struct start start = run(stack);
    require(start.stack == stack && memcmp(stack, before, sizeof stack) == 0);
    require(!simulated.is_answered);
    require(simulated.is_stdin_replaced || !simulated.has_read ||
            simulated.has_failed_to_read);
    if (simulated.is_stdin_replaced) {
      require(simulated.back_length == simulated.read_length);
      require(memcmp(simulated.back, simulated.read, simulated.read_length) == 0);
    }
  }
  while (count > 0) free(texts[--count]);
  return 0;
}
