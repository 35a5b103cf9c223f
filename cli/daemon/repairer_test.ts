import { assertEquals } from "@std/assert";
import { pause } from "../../base/deadline.ts";
import { AttachmentCache } from "../../libcni/cache.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { Repairer } from "./repairer.ts";

const SILENT = { info(): void {}, warn(): void {}, error(): void {} };

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

/** Caches attachments of containers, all in one namespace. */
function cacheAttachments(
  cacheDir: string,
  containers: readonly string[],
  netns: string,
): void {
  const cache = new AttachmentCache(cacheDir);
  const document = { cniVersion: "1.1.0", name: "net1", plugins: [] };
  const config = new TextEncoder().encode(JSON.stringify(document));
  const common = { network: "net1", ifName: "eth0", netns, config };
  for (const containerId of containers) {
    cache.writeAttachment(
      { ...common, containerId, cniArgs: [], capabilityArgs: {} },
      { cniVersion: "1.1.0" },
    );
  }
}

rootTest(
  "Repairer goes on where the round before ran out of time",
  async () => {
    using hosts = TestHosts.create();
    const cacheDir = `${hosts.directory}/cache`;
    // More than are repaired at the same time.
    const slow = Array.from({ length: 100 }, (_, i) => `a${100 + i}`);
    const last = "z";
    cacheAttachments(cacheDir, [...slow, last], hosts.sandbox.path);
    const repairer = new Repairer({
      hostNetns: hosts.host.path,
      directories: { pluginDirs: [], cacheDir },
      env: {},
      lookup: () => undefined,
      log: SILENT,
      restMs: 1,
      retryMs: 1,
      roundMs: 100,
    });
    const end = new AbortController();
    const begun: string[] = [];
    const running = repairer.run({
      whileIdle: async (containerId) => {
        begun.push(containerId);
        if (containerId !== last) await pause(300, end.signal);
        return undefined;
      },
    }, end.signal);
    try {
      await eventually(
        "it begins again",
        () => begun.filter((one) => one === slow[0]).length > 1,
      );
    } finally {
      end.abort();
      await running;
    }
    const first = begun.slice(0, slow.length + 1);
    assertEquals(first.toSorted(), [...slow, last]);
  },
);
