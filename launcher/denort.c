/*
 * Starts an ordinary deno as the stand-in for denort: with a fixed command line, in
 * front of the program's own arguments, and an environment in which it keeps to itself
 * (scripts/mkdenort/mod.ts).
 *
 * The dynamic linker has run, and the stack is as the kernel made it. This program
 *
 * 1. gives up where there is not even an argv[0];
 * 2. closes up the environment, leaving out variables that would change how deno starts;
 * 3. calls libc's setenv() for those that must have a certain value;
 * 4. goes to "/" if the working directory was deleted, where deno would give up;
 * 5. moves argc and argv[0] down, and puts arguments in between;
 * 6. goes on where the executable used to start.
 */
#include "system.h"

/* scripts/mkdenort/mod.ts appends these to the code. */
extern const FACTS struct {
  /* From _start on: where deno starts, and the slots with the addresses of functions. */
  int64_t entry;
  int64_t setenv_slot;
  int64_t getcwd_slot;
  int64_t chdir_slot;
  /*
   * Three lists, each with an empty text at its end: how variables begin that are left
   * out; names of variables to set, each with its value behind it; arguments.
   */
  char texts[];
} facts;

/* Exit status where argc is 0, as of a shell that does not find the command.
 * Kernels from 5.18 on prevent it. */
enum { NO_ARGUMENTS = 127 };

static void *function_in(int64_t slot) {
  return *(void *const *)(_start + slot);
}

static const char *next_text(const char *text) {
  return text + length_of(text) + 1;
}

static bool begins_with(const char *text, const char *prefix) {
  while (*prefix != 0 && *text == *prefix) text++, prefix++;
  return *prefix == 0;
}

/* Returns what is behind a list. */
static const char *skip_list(const char *list) {
  while (*list != 0) list = next_text(list);
  return list + 1;
}

/* Closes up the environment. */
static void drop_variables(long *stack, const char *prefixes) {
  char **from = (char **)&stack[stack[0] + 2], **to = from;
  for (; *from != NULL; from++) {
    const char *prefix = prefixes;
    while (*prefix != 0 && !begins_with(*from, prefix)) {
      prefix = next_text(prefix);
    }
    if (*prefix == 0) *to++ = *from;
  }
  *to = NULL;
}

/* Sets variables; returns what is behind their list. */
static const char *set_variables(const char *list) {
  int (*setenv)(const char *, const char *, int) =
      function_in(facts.setenv_slot);
  while (*list != 0) {
    const char *value = next_text(list);
    setenv(list, value, 1);
    list = next_text(value);
  }
  return list + 1;
}

static void leave_deleted_directory(void) {
  char *(*getcwd)(char *, size_t) = function_in(facts.getcwd_slot);
  int (*chdir)(const char *) = function_in(facts.chdir_slot);
  /* libc allocates as much as is needed. */
  if (getcwd(NULL, 0) == NULL) chdir("/");
}

/* Puts arguments behind argv[0]; argv[1] stays where it is. */
static long *insert_arguments(long *stack, const char *list) {
  long count = 0;
  for (const char *at = list; *at != 0; at = next_text(at)) count++;
  long *result = stack - count;
  result[0] = stack[0] + count;
  result[1] = stack[1];
  for (long index = 0; index < count; index++) {
    result[2 + index] = (long)list;
    list = next_text(list);
  }
  return result;
}

struct start run(long *stack) {
  if (stack[0] == 0) sys_exit(NO_ARGUMENTS);
  drop_variables(stack, facts.texts);
  const char *arguments = set_variables(skip_list(facts.texts));
  leave_deleted_directory();
  long *with_arguments = insert_arguments(stack, arguments);
  return (struct start){_start + facts.entry, with_arguments};
}
