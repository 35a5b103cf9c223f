import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { Repairer } from "./repairer.ts";

rootTest(
  "Repairer sweeps although it hears nothing, and tries to hear again",
  async () => {
    using hosts = TestHosts.create();
    const directory = await Deno.makeTempDir();
    const hostNetns = `${directory}/netns`;
    const errors: string[] = [];
    const repairer = new Repairer({
      hostNetns,
      directories: { pluginDirs: [], cacheDir: `${directory}/cache` },
      env: {},
      lookup: () => undefined,
      log: {
        info(): void {},
        warn(): void {},
        error: (text) => errors.push(text),
      },
      restMs: 1,
      sweepMs: 1,
      reopenMs: 1,
    });
    const end = new AbortController();
    const running = repairer.run(
      { whileIdle: () => Promise.resolve(undefined) },
      end.signal,
    );
    try {
      await eventually("it sweeps", () => repairer.describe().rounds > 2);
      assertEquals(repairer.describe().problem, "open: ENOENT");
      assertEquals(errors, ["Cannot listen for removals"]);
      await Deno.symlink(hosts.host.path, hostNetns);
      await eventually(
        "it hears",
        () => repairer.describe().problem === undefined,
      );
    } finally {
      end.abort();
      await running;
      await Deno.remove(directory, { recursive: true });
    }
  },
);
