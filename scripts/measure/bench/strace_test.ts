import { assert, assertEquals, assertThrows } from "@std/assert";
import { hasCommand, ignoreUnless } from "../../../testing/capabilities.ts";
import { findStrace, parseStraceSummary } from "./strace.ts";

/** As strace 6.1 prints it. */
const SUMMARY = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 82.96    0.004130        4130         1           wait4
  7.43    0.000370          28        13           mmap
  0.00    0.000000           0         5         2 execve
  0.00    0.000000           0         1         1 access
------ ----------- ----------- --------- --------- ----------------
100.00    0.004978          73        20         3 total
`;

Deno.test("parseStraceSummary() counts calls, and programs that did begin", () => {
  assertEquals(parseStraceSummary(SUMMARY), { execs: 3, syscalls: 20 });
});

Deno.test("parseStraceSummary() refuses other text", () => {
  const text = "strace: Cannot find executable 'x'\n";
  assertThrows(() => parseStraceSummary(text), Error, "Cannot find executable");
});

Deno.test("findStrace() returns undefined if strace is not installed", () => {
  assertEquals(findStrace("/no/such/directory:/proc"), undefined);
});

const { ignore, suffix } = ignoreUnless(hasCommand("strace"), "needs strace");
const name = `parseStraceSummary() reads what strace prints here${suffix}`;
Deno.test({ name, ignore }, async () => {
  const { stderr } = await new Deno.Command("strace", {
    args: ["-f", "-c", "sh", "-c", "/bin/true; /bin/true; true"],
  }).output();
  const summary = new TextDecoder().decode(stderr);
  const { execs, syscalls = 0 } = parseStraceSummary(summary);
  assertEquals(execs, 3);
  assert(syscalls > 20);
});
