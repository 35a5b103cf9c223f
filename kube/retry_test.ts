import { assertEquals } from "@std/assert";
import { waitUntil } from "../base/deadline.ts";
import { kubeErrorOf } from "./testing/kube_scene.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import { KubeError, type KubeFailure } from "./kube_error.ts";
import { limitOverall, retry, type TimeLimits } from "./retry.ts";

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
async function inVirtualTime(
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
      // All tasks continue until their next wait.
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

/** Fails a number of times, then returns the number of attempts. */
function failing(
  failure: KubeFailure,
  times = Infinity,
): { attempt: () => Promise<number>; readonly tries: number } {
  let tries = 0;
  return {
    attempt: () =>
      ++tries > times
        ? Promise.resolve(tries)
        : Promise.reject(new KubeError(`try ${tries}`, failure)),
    get tries(): number {
      return tries;
    },
  };
}

Deno.test("retry() repeats repeatable requests only", async (t) => {
  const none: KubeFailure = { status: 0 };
  // The failure, whether an idempotent request is repeated, whether a POST is.
  const rows: readonly (readonly [KubeFailure, boolean, boolean])[] = [
    [none, true, false],
    [{ ...none, isTimeout: true }, true, false],
    [{ ...none, isUnsent: true }, true, true],
    [{ ...none, isUnsent: true, isUntrusted: true }, false, false],
    [{ status: 429 }, true, true],
    ...[500, 502, 503, 504].map((status) => [{ status }, true, false] as const),
    ...[200, 302, 400, 401, 403, 404, 405, 409, 410, 415, 422, 501].map((
      status,
    ) => [{ status }, false, false] as const),
  ];
  const limits = { overallMs: 10_000 };
  await eachRow(t, rows, async ([failure, isRepeated, isPostRepeated]) => {
    const get = failing(failure, 1);
    const patch = failing(failure, 1);
    const put = failing(failure, 1);
    const post = failing(failure, 1);
    await Promise.allSettled([
      retry(get.attempt, "GET", limits),
      retry(patch.attempt, "PATCH", limits),
      retry(put.attempt, "PUT", limits),
      retry(post.attempt, "POST", limits),
    ]);
    const repeated = [isRepeated, isRepeated, isRepeated, isPostRepeated];
    assertEquals(
      [get.tries, patch.tries, put.tries, post.tries],
      repeated.map((is) => is ? 2 : 1),
    );
  }, ([failure]) => JSON.stringify(failure));
  await t.step("not a KubeError", async () => {
    let tries = 0;
    const attempt = (): Promise<never> => {
      tries++;
      return Promise.reject(new TypeError("a bug"));
    };
    await retry(attempt, "GET").catch(() => {});
    assertEquals(tries, 1);
  });
});

Deno.test("retry() ends in time, with the last error", async () => {
  const always = failing({ status: 503 });
  const elapsedMs = await inVirtualTime(async () => {
    const limits = { overallMs: 1500 };
    const error = await kubeErrorOf(retry(always.attempt, "GET", limits));
    assertEquals(error.message, "try 3");
  });
  // After pauses of 250 and 500 ms, a pause of 1000 ms would be too long.
  assertEquals([always.tries, elapsedMs], [3, 750]);
});

Deno.test("retry() gives up on a server that refuses connections", async () => {
  const refused: KubeFailure = { status: 0, isUnsent: true, isRefused: true };
  const always = failing(refused);
  const elapsedMs = await inVirtualTime(async () => {
    const error = await kubeErrorOf(retry(always.attempt, "GET"));
    assertEquals(error.message, `try ${always.tries}`);
  });
  // Pauses of 250 and 500 ms, and four of a second.
  assertEquals([always.tries, elapsedMs], [7, 4750]);

  const restarted = failing(refused, 5);
  await inVirtualTime(async () => {
    assertEquals(await retry(restarted.attempt, "POST"), 6);
  });

  // Another failure between them: a server listens, now and then.
  let tries = 0;
  const attempt = (): Promise<never> => {
    const failure = ++tries % 4 === 0 ? { status: 503 } : refused;
    return Promise.reject(new KubeError(`try ${tries}`, failure));
  };
  const longMs = await inVirtualTime(async () => {
    await kubeErrorOf(retry(attempt, "GET", { overallMs: 20_000 }));
  });
  assertEquals(longMs > 18_000, true, `${longMs}`);
});

Deno.test("retry() reports the failure before the timeout", async () => {
  let tries = 0;
  const attempt = async (signal: AbortSignal): Promise<never> => {
    if (++tries === 1) throw new KubeError("too busy", { status: 429 });
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw new KubeError("late", { status: 0, isTimeout: true });
  };
  const error = await kubeErrorOf(retry(attempt, "GET", { overallMs: 400 }));
  assertEquals([tries, error.message], [2, "too busy"]);
});

testRows(
  "retry() waits as long as the server asks, within the limit",
  [[400, 2], [10_000, 1], [0, 2]] as const,
  async ([retryAfterMs, tries]) => {
    const busy = failing({ status: 429, retryAfterMs }, 1);
    const elapsedMs = await inVirtualTime(async () => {
      const limits = { overallMs: 10_000 };
      await retry(busy.attempt, "POST", limits).catch(() => {});
    });
    const expectedMs = tries === 1 ? 0 : retryAfterMs || 250;
    assertEquals([busy.tries, elapsedMs], [tries, expectedMs]);
  },
  ([retryAfterMs]) => `${retryAfterMs} ms of 10 s`,
);

/** Lets each try time out. @returns How long each try took, in milliseconds */
async function timeTries(
  method: string,
  limits: TimeLimits,
): Promise<number[]> {
  const tries: number[] = [];
  await inVirtualTime(async () => {
    await kubeErrorOf(retry(
      async (signal): Promise<never> => {
        const startMs = performance.now();
        await waitUntil(new Promise<never>(() => {}), signal);
        tries.push(performance.now() - startMs);
        throw new KubeError("late", { status: 0, isTimeout: true });
      },
      method,
      limits,
    ));
  });
  return tries;
}

testRows(
  "retry() doubles the time after a timeout",
  ["GET", "PATCH"],
  async (method) => {
    const limits = { perTryMs: 100, overallMs: 3000 };
    // Between them are pauses of 250, 500 and 1000 ms.
    assertEquals(await timeTries(method, limits), [100, 200, 400, 550]);
  },
);

Deno.test("retry() gives a POST the whole time limit, once", async () => {
  const limits = { perTryMs: 100, overallMs: 400 };
  assertEquals(await timeTries("POST", limits), [400]);
});

Deno.test("retry() stops on the signal", async () => {
  const controller = new AbortController();
  const always = failing({ status: 503, retryAfterMs: 30_000 });
  const { signal } = controller;
  const elapsedMs = await inVirtualTime(async () => {
    const ended = kubeErrorOf(
      retry(always.attempt, "GET", { signal, overallMs: 60_000 }),
    );
    queueMicrotask(() => controller.abort());
    await ended;
  });
  assertEquals([always.tries, elapsedMs], [1, 0]);
});

Deno.test("limitOverall() follows its parent", () => {
  const controller = new AbortController();
  using limit = limitOverall({ signal: controller.signal });
  const { signal } = limit;
  assertEquals(signal.aborted, false);
  controller.abort();
  assertEquals(signal.aborted, true);
});
