/**
 * The network namespace of a thread: its path, and the exit of a process whose thread
 * cannot return to it.
 *
 * @module
 */

/**
 * Path of the namespace that the calling thread is in. `/proc/self` would be the main
 * thread's namespace, but test runners and workers run this code on other threads.
 */
export const OWN_NETNS = "/proc/thread-self/ns/net";

/**
 * The thread is stuck in the wrong namespace. Only {@linkcode endInWrongNetns} creates
 * this error: no code catches it, because the process ends.
 */
export class WrongNetnsError extends Error {
  override readonly name = "WrongNetnsError";

  /** @param cause The error of setns(2) */
  constructor(cause: unknown) {
    super("Cannot return to the namespace this thread came from", { cause });
  }
}

/**
 * The exit function without a trace's wrapper, which would, for example, send spans
 * from the wrong namespace.
 */
const exit = Deno.exit;

let report = (error: WrongNetnsError): number => {
  const text = `${error.message}: ${error.cause}\n`;
  Deno.stderr.writeSync(new TextEncoder().encode(text));
  return 1;
};

/**
 * Sets how this process reports that it ends in the wrong namespace; by default, with
 * the error on stderr and exit status 1.
 *
 * @param how Writes the error, and returns the exit status
 */
export function onWrongNetns(how: typeof report): void {
  report = how;
}

/**
 * Ends this process immediately, because any further step, such as a rollback, would
 * run in the wrong namespace.
 *
 * @param cause The error of setns(2)
 */
export function endInWrongNetns(cause: unknown): never {
  const error = new WrongNetnsError(cause);
  let status = 1;
  try {
    status = report(error);
  } finally {
    exit(status);
  }
  // In a worker, exit returns.
  throw error;
}
