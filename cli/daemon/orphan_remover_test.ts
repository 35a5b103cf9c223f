// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { createLog } from "../../base/log/log.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import type { EndedCall } from "../../daemon/server/call.ts";
import { ORPHAN_KINDS } from "../../metadata/orphans.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import type { OrphanSearchOptions, Removal } from "../orphans/mod.ts";
import { ignoreUnless } from "../../testing/capabilities.ts";
import { DaemonDirectories } from "./directories.ts";
import { OrphanRemover } from "./orphan_remover.ts";

const ORPHAN = {
  kind: "lease",
  where: "/leases/10.0.0.2",
  container: "c1",
  network: "net1",
  why: "no namespace has 10.0.0.2",
  remove: () => Promise.resolve(),
} as const;

/** Files are watched below this directory only. */
const WATCHED = "/run";

/** Reports whether this user can create files in a directory. */
function isWritable(dir: string): boolean {
  try {
    Deno.removeSync(Deno.makeTempDirSync({ dir, prefix: "cni-test-" }));
    return true;
  } catch {
    return false;
  }
}

const needsRun = ignoreUnless(isWritable(WATCHED), "needs to write to /run");

function test(name: string, fn: () => Promise<void>): void {
  const { ignore, suffix } = needsRun;
  Deno.test({ name: name + suffix, ignore, fn });
}

/** A remover that runs, and what its searches find. */
class Scene implements AsyncDisposable {
  readonly directory: string = Deno.makeTempDirSync({
    dir: WATCHED,
    prefix: "cni-test-",
  });
  readonly logs: string[] = [];
  readonly searches: OrphanSearchOptions[] = [];
  /** The containers that the runtime has, and how often they were listed. */
  readonly containers = new Set<string>();
  looks = 0;
  found: () => Removal[] = () => [];
  readonly directories = new DaemonDirectories({ CNI_PATH: "" }, "");
  readonly remover: OrphanRemover;
  readonly #end = new AbortController();
  readonly #running: Promise<void>;

  /** @param retryMs When it searches again after a failure; hardly ever by default. */
  constructor(retryMs = 3_600_000) {
    this.remover = new OrphanRemover({
      directories: this.directories,
      search: { hostNetns: OWN_NETNS } as OrphanSearchOptions,
      log: createLog({}, (text) => this.logs.push(text)),
      remove: (search): Promise<Removal[]> => {
        this.searches.push(search);
        return Promise.try(() => this.found());
      },
      containers: () => {
        this.looks++;
        return this.containers;
      },
      graceMs: 200,
      sweepMs: 3_600_000,
      retryMs,
      restMs: 0,
    });
    const noCalls = { whileIdle: () => Promise.resolve(undefined) };
    this.#running = this.remover.run(noCalls, this.#end.signal);
  }

  /** Creates the file of a namespace. */
  addNetns(name: string): string {
    const path = `${this.directory}/${name}`;
    Deno.writeTextFileSync(path, "");
    return path;
  }

  note(command: string, netns: string, code = 0, plugin = "ptp"): void {
    const call = {
      call: {
        stdin: new TextEncoder().encode(plugin),
        env: {
          CNI_CONTAINERID: netns,
          CNI_NETNS: netns,
          CNI_IFNAME: "eth0",
          CNI_PATH: "/usr/libexec/cni",
        },
      },
      plugin,
      command,
      network: "net1",
      code,
    } as unknown as EndedCall;
    this.directories.note(call);
    this.remover.note(call);
  }

  async untilSearches(count: number): Promise<void> {
    await eventually(
      `${count} searches`,
      () => this.searches.length >= count,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#running;
    Deno.removeSync(this.directory, { recursive: true });
  }
}

test("OrphanRemover searches at the start, a grace period later, and when a namespace is removed before DEL", async () => {
  await using scene = new Scene();
  await scene.untilSearches(2);
  const { graceMs, isAutomatic } = scene.searches[0] ?? {};
  assertEquals([graceMs, isAutomatic], [200, true]);
  const [lost, detached] = ["a", "b"].map((name) => scene.addNetns(name));
  for (const netns of [lost, detached]) {
    scene.note("ADD", netns ?? "");
    scene.note("ADD", netns ?? "", 0, "portmap");
  }
  scene.note("DEL", detached ?? "", 0, "portmap");
  scene.note("DEL", detached ?? "");
  Deno.removeSync(detached ?? "");
  // DEL of one plugin of two.
  scene.note("DEL", lost ?? "", 0, "portmap");
  Deno.removeSync(lost ?? "");
  await scene.untilSearches(3);
  assertEquals(scene.searches.length, 3);
});

test("OrphanRemover waits until the runtime has removed a stopped container", async () => {
  await using scene = new Scene();
  await scene.untilSearches(2);
  const netns = scene.addNetns("stopped");
  scene.note("ADD", netns);
  scene.containers.add(netns);
  const { looks } = scene;
  Deno.removeSync(netns);
  await eventually("it looks twice", () => scene.looks >= looks + 2);
  assertEquals(scene.searches.length, 2);
  scene.containers.delete(netns);
  await scene.untilSearches(3);
});

test("OrphanRemover searches after a call that failed", async () => {
  await using scene = new Scene();
  await scene.untilSearches(2);
  scene.note("ADD", "/run/no-such-netns", 11);
  await scene.untilSearches(3);
  scene.note("DEL", "/run/no-such-netns", 11);
  await scene.untilSearches(4);
  // Its namespace exists, and is not the host's: it is about to be tried again.
  scene.note("ADD", "/proc/self/ns/mnt", 11);
  scene.note("CHECK", "/run/no-such-netns", 11);
  scene.note("ADD", "/run/no-such-netns", -1);
  scene.note("DEL", "/run/another", 11);
  await scene.untilSearches(5);
  assertEquals(scene.searches.length, 5);
});

test("OrphanRemover searches if a namespace's path leads to the host's namespace", async () => {
  await using scene = new Scene();
  await scene.untilSearches(2);
  const netns = `${scene.directory}/reused`;
  Deno.symlinkSync("/proc/self/ns/net", netns);
  scene.note("ADD", netns, 11);
  await scene.untilSearches(3);
});

test("OrphanRemover searches with the configurations of the latest calls", async () => {
  await using scene = new Scene();
  await scene.untilSearches(2);
  const types = Array.from({ length: 150 }, (_, index) => `type${index}`);
  for (const type of [...types, "type60"]) {
    scene.note("ADD", "/run/no-such-netns", 0, type);
  }
  scene.note("DEL", "/run/no-such-netns", 11, "type149");
  await scene.untilSearches(3);
  const { confs = [] } = scene.searches[2] ?? {};
  const known = confs.map((bytes) => new TextDecoder().decode(bytes));
  const latest = types.slice(50).filter((type) => type !== "type60");
  assertEquals(known.sort(), [...latest, "type60"].sort());
});

test("OrphanRemover searches with the plugin directories of calls", async () => {
  await using scene = new Scene();
  await scene.untilSearches(2);
  scene.note("DEL", "/run/no-such-netns", 11);
  await scene.untilSearches(3);
  assertEquals(scene.searches.map(({ pluginDirs }) => pluginDirs), [
    ["/opt/cni/bin"],
    ["/opt/cni/bin"],
    ["/usr/libexec/cni", "/opt/cni/bin"],
  ]);
});

test("OrphanRemover counts what it removes, and logs each failure once", async () => {
  await using scene = new Scene();
  const error = new Error("it is busy");
  const link = { ...ORPHAN, kind: "link", where: "veth0" } as const;
  scene.found = () => [{ orphan: ORPHAN }, { orphan: link, error }];
  await scene.untilSearches(2);
  scene.note("DEL", "/run/a", 11);
  await scene.untilSearches(3);
  await eventually(
    "it has counted",
    () => scene.remover.describe().searches === 3,
  );
  const { removed, failed, lastAt } = scene.remover.describe();
  assertEquals(removed, { lease: 3 });
  assertEquals(failed, [{ kind: "link", where: "veth0", error: "it is busy" }]);
  assertMatch(lastAt ?? "", /^\d{4}-/);
  const [first = "", , third = ""] = scene.logs;
  assertEquals(scene.logs.length, 4);
  assertStringIncludes(first, "Removed a resource of a deleted container");
  assertStringIncludes(third, "Removed a resource of a deleted container");
  assertEquals(
    scene.remover.listGauges().map(({ name, read }) => [name, read()]),
    [
      [
        "cni_daemon_leftovers_removed_total",
        ORPHAN_KINDS.map((
          kind,
        ): [Record<string, string>, number] => [
          { kind },
          kind === "lease" ? 3 : 0,
        ]),
      ],
      ["cni_daemon_leftovers_failed", [[{}, 1]]],
    ],
  );
});

test("OrphanRemover searches again soon after a failed search", async () => {
  await using scene = new Scene(1);
  await scene.untilSearches(2);
  scene.found = () => {
    scene.found = () => [{ orphan: ORPHAN }];
    throw new Error("no");
  };
  scene.note("DEL", "/run/no-such-netns", 11);
  await scene.untilSearches(4);
  await eventually("it has removed what was left", () => {
    const { removed, problem } = scene.remover.describe();
    return removed.lease === 1 && problem === undefined;
  });
  assertEquals(scene.searches.length, 4);
});

test("OrphanRemover continues after a failure", async () => {
  await using scene = new Scene();
  scene.found = () => {
    throw new Error("no");
  };
  await scene.untilSearches(2);
  await eventually(
    "it says so",
    () => scene.remover.describe().problem === "no",
  );
  scene.found = () => [];
  scene.note("DEL", "/run/a", 11);
  await scene.untilSearches(3);
  await eventually(
    "the problem has ended",
    () => scene.remover.describe().problem === undefined,
  );
  assertEquals(scene.logs.length, 1);
});
