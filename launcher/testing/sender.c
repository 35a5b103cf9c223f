/*
 * For tests: reads calls, and prints for each the lengths of the socket's path and of
 * the request, and both; 0 and 0 if the call is left to the engine. So one process
 * shows what call.c does with thousands of calls.
 *
 * A call is three numbers of 64 bits, the lengths of what follows: the stack of a new
 * process, up to the end of the environment, in which pointers are counted from the
 * first string; the strings; stdin.
 */
#pragma clang diagnostic ignored "-Wunused-function"
#define WITHOUT_RUN
#include "../call.c"

#ifdef HOSTED
/* An ordinary program, whose memory the sanitizers watch. */
#include <stdlib.h>
const struct facts facts = {.engine = 0, .build = BUILD};
static void *allocate(char **unused, size_t size) {
  (void)unused;
  return malloc(size);
}
static void release(void *memory) { free(memory); }
#else
/* Takes from the part of the mapping that is for messages, which is free again for the next call. */
static void *allocate(char **unused, size_t size) {
  char *taken = *unused;
  *unused += (size + 15) & -(size_t)16;
  return taken;
}
static void release(void *memory) { (void)memory; }
#endif

/* Reads bytes; ends the program at the end of its stdin. */
static void read_all(void *to, size_t left) {
  char *at = to;
  while (left > 0) {
    long count = sys_read(STDIN, at, left);
    if (count <= 0) sys_exit(0);
    at += count;
    left -= (size_t)count;
  }
}

/* Prepares a request; returns false if the call is left to the engine. */
static bool prepare(struct call *call, long *stack, const char *input,
                    size_t length) {
  if (!read_arguments(call, stack)) return false;
  read_variables(call);
  if (!is_for_daemon(call) || !begin_request(call)) return false;
  for (size_t at = 0; at < length; at++) call->input[at] = input[at];
  call->input_length = length;
  if (!find_keys(call) || !find_socket(call)) return false;
  end_request(call);
  return true;
}

static void answer(struct call *call) {
  uint64_t lengths[3];
  read_all(lengths, sizeof lengths);
  char *unused = call->memory + MESSAGE_AT;
  long *stack = allocate(&unused, lengths[0]);
  char *strings = allocate(&unused, lengths[1]);
  char *input = allocate(&unused, lengths[2]);
  read_all(stack, lengths[0]);
  read_all(strings, lengths[1]);
  read_all(input, lengths[2]);
  for (size_t at = 1; at < lengths[0] / sizeof *stack; at++) {
    /* 0 is the NULL at the end of a list; a pointer has 1 added. */
    if (stack[at] != 0) stack[at] += (long)strings - 1;
  }
  size_t sizes[2] = {0, 0};
  bool is_asked = prepare(call, stack, input, lengths[2]);
  if (is_asked) {
    sizes[0] = call->path_length;
    sizes[1] = (size_t)(call->end - call->memory);
  }
  write_all(call, STDOUT, (const char *)sizes, sizeof sizes);
  write_all(call, STDOUT, call->address.path, sizes[0]);
  write_all(call, STDOUT, call->memory, sizes[1]);
  release(input);
  release(strings);
  release(stack);
}

static void answer_all(void) {
  struct call call;
  if (!map_memory(&call)) sys_exit(1);
  for (;;) answer(&call);
}

#ifdef HOSTED
int main(void) { answer_all(); }
#else
struct start run(long *stack) {
  (void)stack;
  answer_all();
  sys_exit(0);
}
#endif
