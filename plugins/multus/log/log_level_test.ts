import { assertEquals } from "@std/assert";
import { findLogLevel } from "./log_level.ts";

Deno.test("findLogLevel() knows a level in any case", () => {
  assertEquals(findLogLevel("debug"), "debug");
  assertEquals(findLogLevel("Panic"), "panic");
  assertEquals(findLogLevel("info"), undefined);
  assertEquals(findLogLevel(""), undefined);
});
