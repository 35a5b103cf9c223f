import { assertEquals } from "@std/assert";
import { formatTime } from "./time.ts";

Deno.test("formatTime() leaves out parts of seconds", () => {
  assertEquals(
    formatTime(new Date(Date.UTC(2024, 4, 1, 10, 0, 0, 999))),
    "2024-05-01T10:00:00Z",
  );
});
