/*
 * Hands a call of a plugin to the node daemon, before the engine (deno) starts:
 * the engine takes some 15 ms to start, and a call that the daemon runs does not
 * need it.
 *
 * It does what daemon/caller/hand_over.ts does, for the usual case:
 *
 * 1. The program has no arguments, the variables that the command needs are set,
 *    CNI_TRACE is not set, and CNI_NO_DAEMON is unset or empty.
 * 2. stdin is read. It names the daemon's socket, or else the default is used.
 * 3. The daemon is there, is root's or this user's, and takes the call.
 *
 * In any other case the engine starts as if this program had not run, except that
 * argv[0] is ASCII. What was read from stdin is then put back, as a file in memory,
 * whose name tells the engine how far the call came (`stdin_name`, and
 * daemon/wire/stdin_name.ts).
 *
 * It makes one mapping and uses system calls only. The functions are in the order
 * in which they run; run() is at the end.
 */
#include "call_format.h"
#include "system.h"

/* The build appends these to the code. */
extern const FACTS struct facts {
  /* Where the engine starts, from _start on. */
  int64_t engine;
  /* Identifies the code of this executable, as `buildIdentity` does. */
  char build[];
} facts;

/*
 * Parts of the mapping. Linux limits the environment and argv[0] together to 6 MiB
 * (fs/exec.c `bprm_stack_limits`). A plugin takes 16 MiB of stdin; whoever sends more
 * gets an error, for which the engine need not see the rest.
 */
enum {
  MAX_PREFIX = 8 << 20,
  MAX_STDIN = (16 << 20) + 4096,
  /* Behind the END of a request, at a multiple of 8. */
  MESSAGE_AT = MAX_PREFIX + MAX_STDIN + 8,
  MEMORY_BYTES = MESSAGE_AT + MAX_MESSAGE,
};

/*
 * The path of a socket has 108 bytes, with its NUL (linux/un.h `struct
 * sockaddr_un`). The room behind it is for the names of files beside the socket.
 */
enum { MAX_PATH = 107, PATH_ROOM = 128 };

_Static_assert(sizeof MAGIC - 1 == 8, "the header begins with a word");
_Static_assert(sizeof END - 1 < 8, "the end of a request has room");
_Static_assert(MAX_PATH + sizeof OFF_SUFFIX <= PATH_ROOM, "room for the path");
_Static_assert(MAX_PATH + sizeof TIMEOUTS_SUFFIX <= PATH_ROOM, "room for the path");
_Static_assert(TAKE_MS % TICK_MS == 0 && SHORT_TAKE_MS % TICK_MS == 0 &&
                   SILENCE_MS % TICK_MS == 0,
               "a time limit has whole parts");

/* Part of the configuration. The length is 0 for "", and `at` NULL for an absent key. */
struct value {
  const char *at;
  size_t length;
};

struct call {
  /* The first value of each variable; NULL if it is not set. */
  const char *variables[VARIABLE_COUNT];
  /* The environment, with NULL at its end. */
  char *const *environment;
  /* argv[0], with and without directories. */
  const char *name;
  const char *base_name;
  /* The mapping, which begins with the request. */
  char *memory;
  /* The end of what has been written of the request. */
  char *end;
  /* Where stdin is in the request. */
  char *input;
  size_t input_length;
  struct value values[KEY_COUNT];
  struct {
    uint16_t family;
    char path[PATH_ROOM];
  } address;
  size_t path_length;
  int socket;
  /* The process that listens. */
  int daemon;
  /*
   * The state that stdin's name tells the engine. It begins with STDIN_NOT_ASKED:
   * STDIN_OFF, if the daemon is turned off; STDIN_NO_DAEMON, once there is a socket;
   * STDIN_LOCAL, once the listener is trusted; STDIN_LOST, once the daemon has taken
   * the call. The end of a wait makes it `on_timeout` or STDIN_SILENT. `on_timeout` is
   * STDIN_TIMEOUT or STDIN_SHORT_TIMEOUT.
   */
  enum stdin_name stdin_name;
  enum stdin_name on_timeout;
  /* The time left: whole ticks, and the rest of the current tick. */
  unsigned ticks;
  /* How often it may begin again. */
  unsigned renewals;
  struct {
    int64_t seconds;
    int64_t nanoseconds;
  } timeout;
};

/*
 * Replaces the bytes of argv[0] that are not ASCII, because the engine aborts if argv[0]
 * is not UTF-8. The names of plugins are ASCII. Kernels before 5.18 allow argc to be 0.
 */
static void make_ascii(char *argv0) {
  for (char *at = argv0; at != NULL && *at != 0; at++) {
    if (*at & 0x80) *at = '?';
  }
}

/* ---- The environment ---- */

/* Finds argv[0]. There must be no other argument. */
static bool read_arguments(struct call *call, long *stack) {
  if (stack[0] != 1) return false;
  call->name = call->base_name = (const char *)stack[1];
  for (const char *at = call->name; *at != 0; at++) {
    if (*at == '/') call->base_name = at + 1;
  }
  /* Behind argc, argv[0] and the NULL of argv. */
  call->environment = (char *const *)&stack[3];
  return true;
}

/*
 * Finds which of a list of names a text begins with. Each name has a NUL at its
 * end, and the list one more. Returns -1 for none.
 */
static int find_name(const char *text, const char *names, const char **rest) {
  for (int index = 0; *names != 0; index++) {
    const char *at = text;
    while (*names != 0 && *names == *at) names++, at++;
    if (*names == 0) {
      *rest = at;
      return index;
    }
    while (*names != 0) names++;
    names++;
  }
  return -1;
}

/* Finds the variables that decide, the first of each name. */
static void read_variables(struct call *call) {
  for (int index = 0; index < VARIABLE_COUNT; index++) {
    call->variables[index] = NULL;
  }
  const char *value;
  for (char *const *variable = call->environment; *variable; variable++) {
    int index = find_name(*variable, VARIABLE_NAMES, &value);
    if (index >= 0 && call->variables[index] == NULL) {
      call->variables[index] = value;
    }
  }
}

static bool is_set(const char *value) { return value != NULL && *value != 0; }

/* Reports whether a daemon may run the call: it is not turned off, and every needed
 * variable is set. */
static bool is_for_daemon(const struct call *call) {
  const char *const *variables = call->variables;
  if (variables[TRACE] != NULL || is_set(variables[NO_DAEMON])) return false;
  if (variables[COMMAND] == NULL) return false;
  for (int index = 0; index < COMMAND_COUNT; index++) {
    if (!is_same(variables[COMMAND], COMMANDS[index].name)) continue;
    for (int needed = 0; needed < VARIABLE_COUNT; needed++) {
      bool is_needed = COMMANDS[index].needs >> needed & 1;
      if (is_needed && !is_set(variables[needed])) return false;
    }
    return true;
  }
  return false;
}

/* ---- The request ---- */

/* Maps memory for the request and for messages. It costs only the pages that are
 * used of it, which must be small for that. */
static bool map_memory(struct call *call) {
  long memory =
      CALL(SYS_MMAP, 0, MEMORY_BYTES, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory < 0) return false;
  call->memory = (char *)memory;
  CALL(SYS_MADVISE, memory, MEMORY_BYTES, MADV_NOHUGEPAGE);
  return true;
}

/* Appends a text to the request, without its NUL. */
static void append(struct call *call, const char *text) {
  while (*text != 0) *call->end++ = *text++;
}

/* Writes a number of the request's header. */
static void set_number(struct call *call, size_t at, uint64_t number) {
  __builtin_memcpy(call->memory + at, &number, sizeof number);
}

/* copy_SOURCE() appends one part of FOR_EACH_PART; it returns false if there is no room. */

static bool copy_identity(struct call *call) {
  append(call, facts.build);
  return true;
}

static bool copy_argv0(struct call *call) {
  append(call, call->name);
  return true;
}

static bool copy_environment(struct call *call) {
  const char *rest;
  for (char *const *variable = call->environment; *variable; variable++) {
    if (find_name(*variable, SENT_VARIABLES, &rest) < 0) continue;
    size_t room = (size_t)(call->memory + MAX_PREFIX - call->end);
    if (length_of(*variable) >= room) return false;
    append(call, *variable);
    *call->end++ = 0;
  }
  return true;
}

/* read_stdin() later reads stdin straight to this place. */
static bool copy_stdin(struct call *call) {
  call->input = call->end;
  return true;
}

/* Writes the header, and the parts up to stdin, which is the last one. */
static bool begin_request(struct call *call) {
  __builtin_memcpy(call->memory, MAGIC, sizeof MAGIC - 1);
  call->end = call->memory + HEADER_BYTES;
#define WRITE_PART(length_at, source)                              \
  {                                                                \
    const char *begin = call->end;                                 \
    if (!copy_##source(call)) return false;                        \
    set_number(call, length_at, (uint64_t)(call->end - begin));    \
  }
  FOR_EACH_PART(WRITE_PART)
#undef WRITE_PART
  return true;
}

/* Writes the length of stdin and the end of the request. */
static void end_request(struct call *call) {
  set_number(call, STDIN_LENGTH_AT, call->input_length);
  call->end = call->input + call->input_length;
  append(call, END);
}

/* ---- Waiting ---- */

static void begin_timeout(struct call *call) {
  call->timeout.seconds = 0;
  call->timeout.nanoseconds = TICK_MS * 1000000;
}

/*
 * Begins a time limit. It is counted in parts, so that a process that was stopped
 * loses one part at most, and reads what has arrived before it gives up.
 */
static void set_limit(struct call *call, unsigned ms) {
  call->ticks = ms / TICK_MS;
  call->renewals = 0;
  begin_timeout(call);
}

/*
 * Reports whether the daemon waits in the kernel (uninterruptible sleep). The name of
 * the program, which may have parentheses, ends with the last one.
 *
 * Source: proc_pid_stat(5).
 */
static bool is_daemon_in_kernel(const struct call *call) {
  char path[32] = "/proc/", digits[10], status[256];
  char *to = path + sizeof "/proc/" - 1;
  int count = 0;
  if (call->daemon <= 0) return false; /* in another PID namespace */
  for (int left = call->daemon; left > 0; left /= 10) {
    digits[count++] = (char)('0' + left % 10);
  }
  while (count > 0) *to++ = digits[--count];
  for (const char *from = "/stat"; *from != 0;) *to++ = *from++;
  *to = 0;
  long file = CALL(SYS_OPENAT, AT_FDCWD, path, O_CLOEXEC);
  if (file < 0) return false;
  long length = sys_read((int)file, status, sizeof status);
  sys_close((int)file);
  for (long at = length - 3; at >= 0; at--) {
    if (status[at] == ')') return status[at + 2] == 'D';
  }
  return false;
}

/* Begins the time limit again if the daemon, which has the call, cannot say so. */
static bool renew_limit(struct call *call) {
  if (call->renewals == 0 || !is_daemon_in_kernel(call)) return false;
  call->renewals--;
  call->ticks = SILENCE_MS / TICK_MS;
  return true;
}

enum outcome { DONE, AGAIN, FAILED, EXPIRED };

/* Source: Linux asm-generic/poll.h. */
enum { POLLIN = 1, POLLOUT = 4, SIGSET_BYTES = 8 };

/*
 * What to do after a failed system call. Waits first if the stream is
 * non-blocking. ppoll(2) updates `timeout` to the time left.
 */
static enum outcome after_failure(struct call *call, long error, int fd,
                                  short events, bool has_limit) {
  if (error == -EINTR) return AGAIN;
  if (error != -EAGAIN) return FAILED;
  struct {
    int fd;
    short events;
    short found;
  } poll = {fd, events, 0};
  long found = CALL(SYS_PPOLL, &poll, 1, has_limit ? &call->timeout : NULL,
                    NULL, SIGSET_BYTES);
  if (!has_limit) return AGAIN;
  if (found < 0 && found != -EINTR) return FAILED;
  if (found != 0) return AGAIN;
  if (--call->ticks == 0 && !renew_limit(call)) return EXPIRED;
  begin_timeout(call);
  return AGAIN;
}

/* ---- The configuration ---- */

/* Reads stdin to its end, or to more than a plugin takes; returns false if it fails. */
static bool read_stdin(struct call *call) {
  size_t length = 0;
  while (length < MAX_STDIN) {
    long count = sys_read(STDIN, call->input + length, MAX_STDIN - length);
    if (count == 0) break;
    if (count < 0) {
      if (after_failure(call, count, STDIN, POLLIN, false) == FAILED) {
        return false;
      }
      continue;
    }
    length += (size_t)count;
  }
  call->input_length = length;
  return true;
}

struct reader {
  const char *at;
  const char *end;
};

/* Returns the next byte, -1 at the end. */
static int next_byte(struct reader *reader) {
  if (reader->at == reader->end) return -1;
  return (unsigned char)*reader->at++;
}

/* The same without white space. */
static int next_visible(struct reader *reader) {
  for (;;) {
    int byte = next_byte(reader);
    if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t') return byte;
  }
}

enum match { NO_KEY, SAME_SPELLING, OTHER_SPELLING };

/* Compares a string of the configuration with a key, as Go does: in any spelling. */
static enum match match_key(const char *string, size_t length,
                            const char *key) {
  if (length != length_of(key)) return NO_KEY;
  enum match match = SAME_SPELLING;
  for (; *key != 0; key++, string++) {
    if (*string == *key) continue;
    /* The other case of a letter lies 32 before or behind it. Some characters that
     * are no letters match, too: the engine then looks at the key. */
    if (*string + 32 != *key && *string - 32 != *key) return NO_KEY;
    match = OTHER_SPELLING;
  }
  return match;
}

/*
 * Keeps the value of a key, which must be a plain string, and the only one. Returns
 * false if the call is to be left to the engine.
 */
static bool keep_value(struct reader *reader, struct value *value,
                       enum match match) {
  /* Otherwise it is a value, or this is not JSON. */
  if (next_visible(reader) != ':') return false;
  if (match == OTHER_SPELLING || value->at != NULL) return false;
  if (next_visible(reader) != '"') return false;
  value->at = reader->at;
  for (;;) {
    int byte = next_byte(reader);
    /* At the end byte is negative. JSON has no control characters in strings. */
    if (byte < ' ' || byte == '\\') return false;
    if (byte == '"') break;
  }
  value->length = (size_t)(reader->at - value->at) - 1;
  return true;
}

/* Goes on behind a string, which may be a key. */
static bool read_string(struct call *call, struct reader *reader,
                        bool is_top_level) {
  const char *string = reader->at;
  bool is_unusual = false; /* with an escape, or not only ASCII */
  for (;;) {
    int byte = next_byte(reader);
    if (byte < 0) return false;
    if (byte == '"') break;
    if (byte == '\\' && next_byte(reader) < 0) return false;
    if (byte == '\\' || byte > 127) is_unusual = true;
  }
  if (!is_top_level) return true;
  if (is_unusual) {
    /* A key that is unusual may be one of ours to the engine. */
    int byte = next_visible(reader);
    if (byte < 0 || byte == ':') return false;
    reader->at--;
    return true;
  }
  size_t length = (size_t)(reader->at - string) - 1;
  const char *key = KEYS;
  for (int index = 0; index < KEY_COUNT; index++) {
    enum match match = match_key(string, length, key);
    if (match != NO_KEY) return keep_value(reader, &call->values[index], match);
    key += length_of(key) + 1;
  }
  return true;
}

/*
 * Finds the keys at the top level of the configuration. What is not JSON is found
 * by the engine, or by the daemon.
 */
static bool find_keys(struct call *call) {
  for (int index = 0; index < KEY_COUNT; index++) {
    call->values[index] = (struct value){NULL, 0};
  }
  struct reader reader = {call->input, call->input + call->input_length};
  size_t depth = 0; /* wraps around for what is not JSON */
  for (;;) {
    int byte = next_byte(&reader);
    if (byte < 0) return true;
    if (byte == '{' || byte == '[') depth++;
    if (byte == '}' || byte == ']') depth--;
    if (byte == '"' && !read_string(call, &reader, depth == 1)) return false;
  }
}

/* ---- The socket ---- */

/* Source: Linux socket.h, net.h, fcntl.h. */
enum {
  AF_UNIX = 1,
  SOCK_STREAM = 1,
  SOCK_NONBLOCK = 04000,
  SOCK_CLOEXEC = 02000000,
  SOL_SOCKET = 1,
  SO_PEERCRED = 17,
  MSG_NOSIGNAL = 0x4000,
  SHUT_RD = 0,
};


/* Writes the address of the daemon's socket. Returns false if it is unusual: each
 * path has to leave room for the name of a directory's socket. */
static bool set_path(struct call *call, const char *path, size_t length,
                     const char *suffix) {
  if (length >= MAX_PATH - (sizeof SOCKET_SUFFIX - 1)) return false;
  if (*path != '/') return false;
  char *end = call->address.path;
  for (size_t at = 0; at < length; at++) *end++ = path[at];
  while (*suffix != 0) *end++ = *suffix++;
  *end = 0;
  call->address.family = AF_UNIX;
  call->path_length = (size_t)(end - call->address.path);
  return true;
}

/* Finds the socket: the first that `listSockets` of daemon/wire/daemon_socket.ts has. */
static bool find_socket(struct call *call) {
  const struct value socket = call->values[KEY_SOCKET];
  const struct value directory = call->values[KEY_DIRECTORY];
  if (socket.length != 0) return set_path(call, socket.at, socket.length, "");
  if (socket.at != NULL) { /* it is "": none */
    call->stdin_name = STDIN_LOCAL;
    return false;
  }
  const char *usual = DEFAULT_SOCKET;
  for (int index = 0; index < DIRECTORY_PROGRAM_COUNT; index++) {
    if (!is_same(call->base_name, DIRECTORY_PROGRAMS[index].name)) continue;
    if (directory.length != 0) {
      return set_path(call, directory.at, directory.length, SOCKET_SUFFIX);
    }
    usual = DIRECTORY_PROGRAMS[index].socket;
  }
  return set_path(call, usual, length_of(usual), "");
}

/* Makes the path that of another file beside the socket, until end_suffix(). */
static const char *with_suffix(struct call *call, const char *suffix) {
  char *end = call->address.path + call->path_length;
  while (*suffix != 0) *end++ = *suffix++;
  *end = 0;
  return call->address.path;
}

static void end_suffix(struct call *call) {
  call->address.path[call->path_length] = 0;
}

/* Reports whether there is the file that turns the daemon off. */
static bool is_turned_off(struct call *call) {
  const char *path = with_suffix(call, OFF_SUFFIX);
  long found = CALL(SYS_FACCESSAT, AT_FDCWD, path, F_OK);
  end_suffix(call);
  return found == 0;
}

/*
 * Reports whether root or this process's user listens. In a user namespace, all users
 * that it does not map look alike: such a caller has no rights there.
 */
static bool is_trusted(struct call *call) {
  struct {
    int process;
    unsigned user;
    unsigned group;
  } peer;
  int length = sizeof peer;
  long result = CALL(SYS_GETSOCKOPT, call->socket, SOL_SOCKET, SO_PEERCRED,
                     &peer, &length);
  if (result < 0) return false;
  call->daemon = peer.process;
  return peer.user == 0 || peer.user == (unsigned)CALL(SYS_GETEUID);
}

/* Connects, unless the daemon is turned off, nobody is there or it is another user's. */
static bool connect_to_daemon(struct call *call) {
  call->socket = -1;
  if (is_turned_off(call)) {
    call->stdin_name = STDIN_OFF;
    return false;
  }
  long socket =
      CALL(SYS_SOCKET, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  call->socket = (int)socket;
  /* A standard stream that was closed must not become the socket. This is rare
   * enough to have the engine ask. */
  if (call->socket <= STDERR) return false;
  call->stdin_name = STDIN_NO_DAEMON;
  size_t length =
      offsetof(struct call, address.path) - offsetof(struct call, address) +
      call->path_length + 1;
  if (CALL(SYS_CONNECT, call->socket, &call->address, length) < 0) return false;
  return is_trusted(call);
}

/* ---- The conversation ---- */

static enum outcome send_all(struct call *call, const char *at, size_t left) {
  while (left > 0) {
    long count = CALL(SYS_SENDTO, call->socket, at, left, MSG_NOSIGNAL);
    if (count < 0) {
      enum outcome outcome =
          after_failure(call, count, call->socket, POLLOUT, true);
      if (outcome != AGAIN) return outcome;
      continue;
    }
    at += count;
    left -= (size_t)count;
  }
  return DONE;
}

static enum outcome receive_all(struct call *call, void *to, size_t left) {
  char *at = to;
  while (left > 0) {
    long count = sys_read(call->socket, at, left);
    if (count == 0) return FAILED;
    if (count < 0) {
      enum outcome outcome =
          after_failure(call, count, call->socket, POLLIN, true);
      if (outcome != AGAIN) return outcome;
      continue;
    }
    at += count;
    left -= (size_t)count;
  }
  return DONE;
}

static bool write_all(struct call *call, int fd, const char *at, size_t left) {
  while (left > 0) {
    long count = sys_write(fd, at, left);
    if (count < 0) {
      if (after_failure(call, count, fd, POLLOUT, false) == FAILED) {
        return false;
      }
      continue;
    }
    at += count;
    left -= (size_t)count;
  }
  return true;
}

/* Reports whether another call has timed out not long ago. */
static bool has_recent_timeout(struct call *call) {
  /* Source: asm/stat.h, asm-generic/stat.h: st_mtime of 144 or 128 bytes. */
  int64_t status[18] = {0};
  enum { MODIFIED_AT = 88 / 8, CLOCK_REALTIME = 0 };
  const char *path = with_suffix(call, TIMEOUTS_SUFFIX);
  long found = CALL(SYS_NEWFSTATAT, AT_FDCWD, path, status, 0);
  end_suffix(call);
  if (found < 0) return false;
  int64_t now[2] = {0};
  CALL(SYS_CLOCK_GETTIME, CLOCK_REALTIME, now);
  /* For a time in the future, this wraps to a large number. */
  uint64_t age = (uint64_t)now[0] - (uint64_t)status[MODIFIED_AT];
  return age < TIMEOUT_PERIOD_MS / 1000;
}

struct head {
  uint64_t kind;
  uint64_t length;
};

/*
 * Stops receiving, since the wait is over; returns what to tell the engine. From here
 * on the kernel refuses messages of the daemon. One that came before is still there,
 * whole: the daemon has declined the call, or taken it.
 */
static enum stdin_name give_up(struct call *call) {
  struct head head;
  CALL(SYS_SHUTDOWN, call->socket, SHUT_RD);
  long count = sys_read(call->socket, &head, sizeof head);
  if (count != sizeof head) return call->on_timeout;
  return head.kind == DECLINED ? STDIN_LOCAL : STDIN_SILENT;
}

/* Sends the request, and waits until the daemon takes the call. */
static bool send_request(struct call *call) {
  /* Until it takes the call, it has no part in it. */
  call->stdin_name = STDIN_LOCAL;
  bool is_short = has_recent_timeout(call);
  call->on_timeout = is_short ? STDIN_SHORT_TIMEOUT : STDIN_TIMEOUT;
  set_limit(call, is_short ? SHORT_TAKE_MS : TAKE_MS);
  end_request(call);
  enum outcome outcome =
      send_all(call, call->memory, (size_t)(call->end - call->memory));
  struct head head;
  if (outcome == DONE) outcome = receive_all(call, &head, sizeof head);
  if (outcome == EXPIRED) call->stdin_name = give_up(call);
  if (outcome != DONE || head.kind != TAKEN || head.length != 0) return false;
  /* From here on the daemon runs the call, and nobody knows what became of it. */
  call->stdin_name = STDIN_LOST;
  return true;
}

/* Like the engine, which keeps it so: writing to a closed pipe fails with EPIPE
 * instead of ending the process. */
static void ignore_sigpipe(void) {
  /* Source: Linux signal.h: `struct sigaction` begins with the handler. */
  enum { SIGPIPE = 13, SIG_IGN = 1 };
  int64_t action[4] = {SIG_IGN, 0, 0, 0};
  CALL(SYS_RT_SIGACTION, SIGPIPE, action, NULL, SIGSET_BYTES);
}

/* Prints the answer, and ends the process. */
_Noreturn static void print(struct call *call, const char *answer,
                            const struct head *head) {
  if (!write_all(call, STDOUT, answer, head->length)) {
    static const char text[] = "Cannot write to stdout\n";
    sys_write(STDERR, text, sizeof text - 1);
    sys_exit(1);
  }
  sys_exit(head->kind == SUCCESS ? 0 : 1);
}

/* Prints what the daemon says. Returns if the answer does not come: the engine goes on. */
static void receive(struct call *call) {
  char *bytes = call->memory + MESSAGE_AT;
  ignore_sigpipe();
  for (;;) {
    struct head head;
    set_limit(call, SILENCE_MS);
    call->renewals = MOST_RENEWALS;
    enum outcome outcome = receive_all(call, &head, sizeof head);
    if (outcome == DONE) {
      if (head.kind == DECLINED) {
        call->stdin_name = STDIN_LOCAL;
        return;
      }
      bool is_known = head.kind >= 1 && head.kind <= LAST_KIND;
      if (!is_known || head.kind == TAKEN || head.length > MAX_MESSAGE) return;
      outcome = receive_all(call, bytes, head.length);
    }
    if (outcome == EXPIRED) call->stdin_name = STDIN_SILENT;
    if (outcome != DONE) return;
    if (head.kind == ALIVE) continue;
    if (head.kind != LOG) print(call, bytes, &head);
    write_all(call, STDERR, bytes, head.length);
  }
}

/* ---- stdin again ---- */

/* Source: linux/memfd.h, linux/fcntl.h. */
enum { MFD_NOEXEC_SEAL = 8, F_SETFL = 4, F_SETPIPE_SZ = 1031 };

/* Says that an ADD was lost which the daemon may have begun, and ends the process. */
_Noreturn static void fail_lost(const struct call *call) {
  static const char before[] = LOST_BEFORE_PATH, behind[] = LOST_BEHIND_PATH;
  sys_write(STDOUT, before, sizeof before - 1);
  sys_write(STDOUT, call->address.path, call->path_length);
  sys_write(STDOUT, behind, sizeof behind - 1);
  sys_exit(1);
}

_Noreturn static void fail_put_back(void) {
  static const char text[] = CANNOT_PUT_BACK;
  sys_write(STDOUT, text, sizeof text - 1);
  sys_exit(1);
}

/* Creates a file in memory, which becomes stdin. Kernels before 6.3 do not know the flag. */
static long create_file(const char *name) {
  long file = CALL(SYS_MEMFD_CREATE, name, MFD_NOEXEC_SEAL);
  return file >= 0 ? file : CALL(SYS_MEMFD_CREATE, name, 0);
}

/*
 * Creates a pipe that all of stdin fits into, where the kernel has no files in
 * memory. It has no name. A flag tells the engine of a call that the daemon has
 * declined; in other cases the engine asks the daemon as if this program had not run.
 * An ADD that the daemon may have begun fails here; other commands can be repeated.
 */
static void create_pipe(const struct call *call, int ends[2]) {
  bool had_call =
      call->stdin_name == STDIN_LOST || call->stdin_name == STDIN_SILENT;
  if (had_call && is_same(call->variables[COMMAND], "ADD")) fail_lost(call);
  if (CALL(SYS_PIPE2, ends, 0) < 0) fail_put_back();
  /* Never 0, which some kernels refuse; the size is rounded up. */
  size_t size = call->input_length + 1;
  if (CALL(SYS_FCNTL, ends[1], F_SETPIPE_SZ, size) < 0) fail_put_back();
  if (call->stdin_name == STDIN_LOCAL) {
    CALL(SYS_FCNTL, ends[0], F_SETFL, LOCAL_FLAG);
  }
}

/* Makes stdin a file in memory with what was read from it. */
static void put_back(const struct call *call) {
  int ends[2];
  long file = create_file(STDIN_NAMES[call->stdin_name]);
  if (file >= 0) {
    ends[0] = ends[1] = (int)file;
  } else {
    create_pipe(call, ends);
  }
  const char *at = call->input;
  for (size_t left = call->input_length; left > 0;) {
    long count = sys_write(ends[1], at, left);
    if (count < 0) fail_put_back();
    at += count;
    left -= (size_t)count;
  }
  CALL(SYS_LSEEK, ends[0], 0, 0); /* fails for a pipe, which needs none */
  if (CALL(SYS_DUP3, ends[0], STDIN, 0) < 0) fail_put_back();
  sys_close(ends[0]);
  sys_close(ends[1]); /* the same, of a file */
}

/* Has the daemon run the call. Returns if the engine is to run it. */
static void ask_daemon(struct call *call) {
  bool is_too_large = call->input_length == MAX_STDIN;
  call->stdin_name = STDIN_NOT_ASKED;
  if (!is_too_large && find_keys(call) && find_socket(call)) {
    bool is_taken = connect_to_daemon(call) && send_request(call);
    if (is_taken) receive(call);
    if (call->socket >= 0) sys_close(call->socket);
  }
  put_back(call);
}

#ifndef WITHOUT_RUN
/* Each step sets in `call` what later ones read. */
struct start run(long *stack) {
  const struct start engine = {_start + facts.engine, stack};
  struct call call;
  make_ascii((char *)stack[1]);
  if (!read_arguments(&call, stack)) return engine;
  read_variables(&call);
  if (!is_for_daemon(&call) || !map_memory(&call)) return engine;
  /* If stdin fails, the engine gets the same error. */
  if (begin_request(&call) && read_stdin(&call)) ask_daemon(&call);
  CALL(SYS_MUNMAP, call.memory, MEMORY_BYTES);
  return engine;
}
#endif
