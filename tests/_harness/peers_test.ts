import { assertEquals } from "@std/assert";
import { importFlags } from "../../scripts/import_flags.ts";
import { eventually } from "./eventually.ts";
import { lockOf } from "../../scripts/setup/go_build.ts";
import { findPeers, NEWEST_RELEASE } from "./peers.ts";

const NEWEST = `Go ${NEWEST_RELEASE.slice(1)}`;

/** Writes a directory with the part of plugins that is checked. */
function writePlugins(directory: string): void {
  Deno.mkdirSync(directory);
  const versions = '{"supportedVersions":["1.0.0","1.1.0"]}';
  const script = `#!/bin/sh\necho '${versions}'\n`;
  Deno.writeTextFileSync(`${directory}/host-local`, script, { mode: 0o755 });
}

/** Returns a test with its own directory. */
function inDirectory(
  test: (directory: string) => void | Promise<void>,
): () => Promise<void> {
  return async (): Promise<void> => {
    const directory = await Deno.makeTempDir({ prefix: "peers-" });
    try {
      await test(directory);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  };
}

Deno.test(
  "findPeers() finds the newest release, or reports the missing requirement",
  inDirectory((parent) => {
    const directory = `${parent}/v1`;
    const outcome = (): unknown[] => {
      const { peers, absent } = findPeers(directory);
      return [...peers, ...absent].filter(({ name }) => name === NEWEST);
    };
    const needs = "needs go and its module proxy";
    assertEquals(outcome(), [{ name: NEWEST, needs }]);
    writePlugins(directory);
    assertEquals(outcome(), [{ name: NEWEST, directory, cniVersion: "1.1.0" }]);
  }),
);

Deno.test(
  "findPeers() waits for the end of a build",
  inDirectory(async (parent) => {
    const directory = `${parent}/v1`;
    const options = { create: true, write: true };
    using lock = await Deno.open(lockOf(directory), options);
    await lock.lock(true);
    const script = `import { findPeers } from "${
      import.meta.resolve("./peers.ts")
    }";
    console.log(findPeers("${directory}").peers.at(-1).name);`;
    await Deno.writeTextFile(`${parent}/find.ts`, script);
    const child = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--no-check",
        ...await importFlags(),
        `${parent}/find.ts`,
      ],
      cwd: new URL("../..", import.meta.url),
      stdout: "piped",
    }).spawn();
    const output = child.output();
    // The kernel marks who waits for a lock with an arrow.
    const waiting = new RegExp(`-> FLOCK .* ${child.pid} `);
    await eventually(
      "the process waits",
      () => waiting.test(Deno.readTextFileSync("/proc/locks")),
    );
    writePlugins(directory);
    await lock.unlock();
    const { stdout } = await output;
    assertEquals(new TextDecoder().decode(stdout), `${NEWEST}\n`);
  }),
);
