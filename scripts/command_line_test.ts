import { assertEquals, assertStringIncludes } from "@std/assert";
import project from "../deno.json" with { type: "json" };

const ROOT = new URL("..", import.meta.url);

/** Tasks that pass their arguments to deno. */
const OF_DENO: Readonly<Record<string, string>> = {
  "deno": "Usage: deno [OPTIONS]",
  "check": "Usage: deno check",
  "lint": "Usage: deno lint",
  "lock": "Usage: deno check",
};

Deno.test("every task answers --help, and does nothing else", async (t) => {
  const outputs = Object.entries(project.tasks).map(([name, { command }]) => {
    const [program = "", ...args] = command.split(" ");
    assertEquals(program, "deno", command);
    const ended = new Deno.Command(Deno.execPath(), {
      args: [...args, "--help"],
      cwd: ROOT,
    }).output();
    return { name, ended };
  });
  for (const { name, ended } of outputs) {
    await t.step(name, async () => {
      const { code, stdout } = await ended;
      const usage = OF_DENO[name] ?? `Usage: deno task ${name}`;
      assertStringIncludes(new TextDecoder().decode(stdout), usage);
      assertEquals(code, 0);
    });
  }
});
