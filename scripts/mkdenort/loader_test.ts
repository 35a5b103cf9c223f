import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { formatBoot, formatLoader } from "./loader.ts";

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a script with an ordinary deno, which has no program attached. */
async function runScript(
  script: string,
  env: Record<string, string> = {},
): Promise<Outcome> {
  const command = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--allow-all",
      "--no-config",
      `data:text/javascript,${encodeURIComponent(script)}`,
    ],
    env: { NO_COLOR: "1", ...env },
  });
  const { code, stdout, stderr } = await command.output();
  const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  return { code, stdout: decode(stdout), stderr: decode(stderr) };
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
