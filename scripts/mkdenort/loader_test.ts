import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { formatBoot, formatLoader } from "./loader.ts";
import { type Outcome, run } from "./testing/probe.ts";

/** Runs a script with an ordinary deno, which has no program attached. */
function runScript(
  script: string,
  env: Record<string, string> = {},
): Promise<Outcome> {
  const url = `data:text/javascript,${encodeURIComponent(script)}`;
  return run([Deno.execPath(), "run", "-A", "--no-config", url], {
    env: { DENO_DIR: "/dev/null/deno", NO_COLOR: "1", ...env },
  });
}

Deno.test("formatLoader() gives a script that stands on its own", async () => {
  const loader = formatLoader({ droppedPrefixes: [], set: [] });
  assertMatch(loader, /^[\n -~]*$/);
  const script = `{const file = Deno.openSync("/proc/self/exe");\n${loader}}`;
  const { code, stderr } = await runScript(script);
  assertEquals(code, 1);
  // An ordinary deno has notes, but none by `deno compile`.
  assertStringIncludes(stderr, "denort stand-in: unknown section format");
});

Deno.test("formatLoader() gives a script that restores the environment first", async () => {
  const script = formatLoader({
    droppedPrefixes: ["DROPPED_", "GONE="],
    set: ["CHANGED", "ADDED"],
  });
  const [restore] = script.split("\n(function runProgram(");
  const before = `for (const name of ["CHANGED", "ADDED"]) {
    Deno.env.set(name, "by the stub");
  }
  for (const name of ["DROPPED_A", "GONE"]) Deno.env.delete(name);`;
  const after = `console.log(JSON.stringify(
    ["CHANGED", "ADDED", "DROPPED_A", "GONE", "GONER"].map((name) =>
      Deno.env.get(name) ?? null)))`;
  const { stdout } = await runScript([before, restore, after].join("\n"), {
    CHANGED: "by=caller",
    DROPPED_A: "a",
    GONE: "",
    GONER: "kept",
  });
  assertEquals(JSON.parse(stdout), ["by=caller", null, "a", "", "kept"]);
});

Deno.test("formatBoot() has the same length for every place", () => {
  assertEquals(formatBoot(0, 1).length, formatBoot(98_000_000, 3000).length);
});
