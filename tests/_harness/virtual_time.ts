/**
 * Time that passes only while all tasks wait, for tests of pauses and limits that
 * no load of the machine changes.
 *
 * @module
 */

/** A time limit that has not ended. */
interface Timer {
  readonly atMs: number;
  readonly controller: AbortController;
}

/**
 * Runs `test` with a clock that jumps from one time limit to the next.
 *
 * @returns How much time passed, in milliseconds
 */
export async function inVirtualTime(
  test: () => Promise<void>,
): Promise<number> {
  const { timeout } = AbortSignal, { now } = performance;
  const timers: Timer[] = [];
  let nowMs = 0, isOver = false;
  AbortSignal.timeout = (ms: number): AbortSignal => {
    const controller = new AbortController();
    timers.push({ atMs: nowMs + ms, controller });
    return controller.signal;
  };
  performance.now = (): number => nowMs;
  try {
    const ended = test().finally(() => isOver = true);
    for (;;) {
      // All tasks go on to their next wait.
      await new Promise((resolve) => setTimeout(resolve));
      if (isOver) break;
      const next = timers.sort((a, b) => a.atMs - b.atMs).shift();
      if (next === undefined) continue;
      nowMs = next.atMs;
      next.controller.abort(new DOMException("", "TimeoutError"));
    }
    await ended;
    return nowMs;
  } finally {
    AbortSignal.timeout = timeout;
    performance.now = now;
  }
}
