import { assertEquals } from "@std/assert";
import { pauseAfter } from "./pauses.ts";

Deno.test("pauseAfter() doubles up to half a minute", () => {
  assertEquals([1, 2, 3, 6, 7, 8, 2000].map(pauseAfter), [
    500,
    1000,
    2000,
    16_000,
    30_000,
    30_000,
    30_000,
  ]);
});
