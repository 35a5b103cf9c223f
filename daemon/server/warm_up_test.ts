import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/mod.ts";
import { WARM_UP_NETWORK } from "../../plugins/multus/daemon.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { warmUp, type WarmUpOptions } from "./warm_up.ts";

const namesIn = (directory: string): string[] =>
  [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
const links = (): string[] => namesIn("/sys/class/net");

async function run(options: Partial<WarmUpOptions>): Promise<unknown[]> {
  const socketDir = await Deno.makeTempDir();
  const logged: unknown[] = [];
  const before = links();
  try {
    const made = await warmUp({
      socketDir,
      network: WARM_UP_NETWORK,
      lookup: findPlugin,
      signal: new AbortController().signal,
      log: { info: (_, fields) => logged.push(fields?.["error"]) },
      rounds: 3,
      ...options,
    });
    assertEquals(namesIn(socketDir), []);
    assertEquals(links(), before);
    return [made, ...logged.filter((error) => error !== undefined)];
  } finally {
    await Deno.remove(socketDir, { recursive: true });
  }
}

rootTest("warmUp() attaches pods in temporary namespaces", async () => {
  assertEquals(await run({ longestMs: Infinity }), [3]);
});

rootTest("warmUp() stops at its time limit", async () => {
  assertEquals(await run({ longestMs: 0 }), [0]);
});

rootTest("warmUp() stops at the signal", async () => {
  assertEquals(await run({ signal: AbortSignal.abort() }), [0]);
});

rootTest(
  "warmUp() logs why its calls fail, and leaves nothing",
  async () => {
    const [made, error] = await run({ lookup: () => undefined });
    assertEquals([made, error], [0, 'no plugin "multus"']);
  },
);
