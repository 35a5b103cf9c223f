import { assert, assertEquals } from "@std/assert";
import { Standstill } from "./standstill.ts";

Deno.test("Standstill adds up how late pauses end", async () => {
  const standstill = new Standstill();
  const pausing = standstill.pause(1, new AbortController().signal);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  await pausing;
  assert(standstill.seconds >= 0.19, String(standstill.seconds));
});

Deno.test("Standstill does not count a pause that a signal ends", async () => {
  const standstill = new Standstill();
  await standstill.pause(60_000, AbortSignal.abort());
  assertEquals(standstill.seconds, 0);
});
