import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  deadline,
  formatAbort,
  isTimeout,
  JoinedSignal,
  noteYield,
  pause,
  waitUntil,
  yieldToEventLoop,
} from "./deadline.ts";
import { eachRow } from "../tests/_harness/table.ts";

const never = new Promise<never>(() => {});

Deno.test("deadline() ends on time, or with the surrounding call's", async (t) => {
  await t.step("its own", async () => {
    const startMs = performance.now();
    using limit = new JoinedSignal(20, new AbortController().signal);
    const { signal } = limit;
    assertEquals(await waitUntil(never, signal), undefined);
    assert(performance.now() - startMs >= 19);
    assertEquals(isTimeout(signal), true);
    assertEquals(formatAbort(signal), "context deadline exceeded");
  });
  await t.step("its own alone", async () => {
    const signal = deadline(20);
    await waitUntil(never, signal);
    assertEquals(isTimeout(signal), true);
  });
  await t.step("the surrounding call's", async () => {
    const parent = deadline(20);
    using limit = new JoinedSignal(60_000, parent);
    const { signal } = limit;
    await waitUntil(never, signal);
    assertEquals(isTimeout(signal), true);
  });
  await t.step("cancelled from around it", async () => {
    const parent = new AbortController();
    using limit = new JoinedSignal(60_000, parent.signal);
    const { signal } = limit;
    const waited = waitUntil(never, signal);
    parent.abort();
    await waited;
    assertEquals(isTimeout(signal), false);
    assertEquals(formatAbort(signal), "context canceled");
  });
});

Deno.test("waitUntil() returns what comes first", async (t) => {
  const failed = (): Promise<never> => Promise.reject(new Error("failed"));
  await t.step("the value", async () => {
    assertEquals(await waitUntil(Promise.resolve(1), deadline(60_000)), 1);
  });
  await t.step("the error", async () => {
    const outcome = waitUntil(failed(), deadline(60_000));
    assertEquals(await outcome.catch((error) => error.message), "failed");
  });
  await t.step("the signal", async () => {
    assertEquals(await waitUntil(never, deadline(1)), undefined);
  });
  await t.step("the signal that has come before", async () => {
    const done = Promise.resolve(1);
    assertEquals(await waitUntil(done, AbortSignal.abort()), undefined);
    assertEquals(await waitUntil(failed(), AbortSignal.abort()), undefined);
  });
});

Deno.test("pause() lasts as long as it shall, unless the signal comes", async () => {
  const startMs = performance.now();
  await pause(20);
  assert(performance.now() - startMs >= 19);
  await pause(60_000, deadline(20));
  await pause(60_000, AbortSignal.abort());
  assert(performance.now() - startMs < 5000);
});

Deno.test("a deadline keeps no process alive once the wait is over", async (t) => {
  const module = import.meta.resolve("./deadline.ts");
  const rows: [name: string, script: string][] = [
    ["waitUntil()", "await waitUntil(Promise.resolve(), deadline(60_000));"],
    [
      "waitUntil() with a call around it",
      "const around = deadline(60_000);" +
      "await waitUntil(Promise.resolve(), deadline(60_000), around);",
    ],
    [
      "JoinedSignal",
      "{ using _limit = new JoinedSignal(60_000, undefined); }",
    ],
    ["pause()", "await pause(60_000, deadline(1));"],
  ];
  await eachRow(t, rows, async ([, script]) => {
    const text =
      `import { deadline, JoinedSignal, pause, waitUntil } from "${module}";
        void [JoinedSignal, pause, waitUntil]; ${script} console.log("over");`;
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-config",
        `data:text/typescript,${encodeURIComponent(text)}`,
      ],
      signal: AbortSignal.timeout(10_000),
      stderr: "inherit",
    }).output();
    assertStringIncludes(new TextDecoder().decode(stdout), "over");
  });
});

/** Keeps the event loop from running, and the data that comes from being read. */
function block(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

Deno.test("a limit of JoinedSignal does not count what the process cannot see", async (t) => {
  const limitsMs = [10, 200, 1000];
  await eachRow(t, limitsMs, async (limitMs) => {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    using near = await Deno.connect({ hostname: "127.0.0.1", port });
    using far = await listener.accept();
    const answer = near.read(new Uint8Array(1));
    // Nothing waits between the start of the limit and the block.
    using limit = new JoinedSignal(limitMs);
    const written = far.write(new Uint8Array(1));
    block(2 * limitMs + 300);
    assertEquals(await waitUntil(answer, limit.signal), 1);
    await written;
  }, (limitMs) => `${limitMs} ms`);
  await t.step("and ends on time, whatever its length", async () => {
    const spentMs: number[] = [];
    for (let count = 0; count < 5; count++) {
      const startMs = performance.now();
      using limit = new JoinedSignal(110);
      await waitUntil(never, limit.signal);
      spentMs.push(performance.now() - startMs);
    }
    // Of several, as this process may get no CPU time.
    const leastMs = Math.min(...spentMs);
    assert(leastMs >= 109 && leastMs < 160, `${spentMs}`);
  });
  await t.step("but ends, however often the process is late", async () => {
    using limit = new JoinedSignal(300);
    let turns = 0;
    while (!limit.signal.aborted) {
      block(250);
      turns++;
      await pause(0);
    }
    // Three turns of 100 ms, and one more: the last one was late.
    assert(turns <= 6, `${turns} turns`);
    assertEquals(isTimeout(limit.signal), true);
  });
});

Deno.test("JoinedSignal says how much of its limits is left", async () => {
  using limit = new JoinedSignal(1000, new AbortController().signal, 5000);
  assertEquals(limit.leftMs, 1000);
  using short = new JoinedSignal(250);
  await waitUntil(never, short.signal);
  assert(limit.leftMs <= 900, `${limit.leftMs} ms`);
  using none = new JoinedSignal(new AbortController().signal);
  assertEquals(none.leftMs, Infinity);
});

Deno.test("JoinedSignal is aborted with the first signal and its reason", () => {
  const [left, right] = [new AbortController(), new AbortController()];
  const { signal } = new JoinedSignal(left.signal, right.signal);
  assertEquals(signal.aborted, false);
  right.abort("right");
  left.abort("left");
  assertEquals(signal.reason, "right");
  const late = new JoinedSignal(new AbortController().signal, left.signal);
  assertEquals(late.signal.reason, "left");
});

Deno.test("JoinedSignal listens until it is disposed of", () => {
  const lasting = new AbortController();
  const joined = new JoinedSignal(lasting.signal);
  joined[Symbol.dispose]();
  lasting.abort();
  assertEquals(joined.signal.aborted, false);
});

Deno.test("yieldToEventLoop() lets a timer run between steps that never wait", async () => {
  const timer = deadline(1);
  const endMs = performance.now() + 60_000;
  while (!timer.aborted && performance.now() < endMs) await yieldToEventLoop();
  assert(timer.aborted);
});

Deno.test("yieldToEventLoop() waits for nobody soon after a turn", async () => {
  const isAtOnce = async (): Promise<boolean> => {
    let isTimerFirst = false;
    const timer = deadline(0);
    timer.addEventListener("abort", () => isTimerFirst = true);
    await yieldToEventLoop();
    return !isTimerFirst;
  };
  // The turn is too long ago if this process gets no CPU time right here.
  const found = [];
  for (let count = 0; count < 5; count++) {
    await pause(60);
    noteYield();
    found.push(await isAtOnce());
  }
  assert(found.includes(true));
  await pause(60);
  assertEquals(await isAtOnce(), false);
});
