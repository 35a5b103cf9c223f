import { assert, assertEquals } from "@std/assert";
import { EventLoopLag } from "./event_loop_lag.ts";

Deno.test("EventLoopLag adds up the delays of timers", async () => {
  const lag = new EventLoopLag();
  const pausing = lag.pause(1, new AbortController().signal);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  await pausing;
  assert(lag.seconds >= 0.19, String(lag.seconds));
});

Deno.test("EventLoopLag does not count a timer that a signal ended", async () => {
  const lag = new EventLoopLag();
  await lag.pause(60_000, AbortSignal.abort());
  assertEquals(lag.seconds, 0);
});
