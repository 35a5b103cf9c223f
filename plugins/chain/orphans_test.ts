import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { createLog } from "../../base/log/log.ts";
import type { Evidence, OrphanSearch } from "../../metadata/orphans.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { findOrphans } from "./orphans.ts";
import { decodePluginConfs } from "../../libcni/conf.ts";
import type { Recorded } from "./record.ts";
import { RunningAdd } from "./running_add.ts";

const NEVER: OrphanSearch["invoker"] = {
  invoke: () => Promise.reject(new Error("nothing is to run")),
};
const GONE: Evidence = {
  isBusy: false,
  isAlive: () => false,
  findReason: () => ({ why: "its container was deleted" }),
};

/** What happens to a record between the search and the removal. */
const changes: Record<string, (path: string) => Disposable | void> = {
  "is locked": (path) => {
    const file = Deno.openSync(path);
    file.lockSync(true);
    return file;
  },
  "has changed": (path) => Deno.utimeSync(path, 0, 0),
};

Deno.test("an orphan whose attachment is in use again is not removed", async (t) => {
  await eachRow(t, Object.entries(changes), async ([details, change]) => {
    const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
    const search: OrphanSearch = {
      hostNetns: "/proc/self/ns/net",
      env: { CNI_LOG_FILE: "stderr" },
      invoker: NEVER,
      log: createLog({}, () => {}),
      evidence: GONE,
      renew: () => Promise.resolve(GONE),
      places: [],
      pluginDirs: [],
    };
    try {
      const plugins = [{ type: "a" }];
      const config = {
        cniVersion: "1.1.0",
        name: "net1",
        type: "chain",
        plugins,
      };
      const recorded: Recorded = {
        network: "net1",
        args: {
          containerId: "c1",
          netns: "/run/netns/c1",
          ifName: "eth0",
          args: "",
          path: directory,
        } as Recorded["args"],
        stdin: new TextEncoder().encode(JSON.stringify(config)),
        log: search.log,
        signal: undefined,
        plugins: decodePluginConfs(plugins),
        directory,
      };
      {
        using add = RunningAdd.begin(recorded);
        add?.steps.begin(0, undefined);
      }
      const [orphan] = findOrphans(search, directory);
      using _held = change(orphan?.where ?? "") ?? undefined;
      const error = await assertRejects(
        async () => await orphan?.remove(),
        CniError,
        "another call has begun to work on it",
      );
      assertEquals(error.code, 11);
      assertEquals(error.details, `"${orphan?.where}" ${details}`);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  }, ([details]) => details);
});
