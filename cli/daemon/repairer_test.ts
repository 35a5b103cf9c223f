import { assertEquals } from "@std/assert";
import { pause } from "../../base/deadline.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { AttachmentCache } from "../../libcni/cache.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { RecordingPlugins } from "../../tests/_harness/recording_plugins.ts";
import { Repairer, type RepairerOptions } from "./repairer.ts";

const SILENT = { info(): void {}, warn(): void {}, error(): void {} };

/** Does something while a repairer runs. */
async function whileRunning(
  repairer: Repairer,
  calls: Parameters<Repairer["run"]>[0],
  work: () => Promise<void>,
): Promise<void> {
  const end = new AbortController();
  const running = repairer.run(calls, end.signal);
  try {
    await work();
  } finally {
    end.abort();
    await running;
  }
}

/** Calls of a daemon whose containers all have calls under way, or none has. */
const BUSY: Parameters<Repairer["run"]>[0] = {
  whileIdle: () => Promise.resolve(undefined),
};
const IDLE: Parameters<Repairer["run"]>[0] = {
  whileIdle: (_, work) => work(),
};

rootTest(
  "Repairer sweeps without notifications, and subscribes again",
  async () => {
    using hosts = TestHosts.create();
    const { directory } = hosts;
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
    await whileRunning(repairer, BUSY, async () => {
      await eventually("it sweeps", () => repairer.describe().rounds > 2);
      assertEquals(repairer.describe().problem, "open: ENOENT");
      assertEquals(errors, ["Cannot listen for removals"]);
      await Deno.symlink(hosts.host.path, hostNetns);
      await eventually(
        "it hears",
        () => repairer.describe().problem === undefined,
      );
    });
  },
);

/** Turns forwarding off, which concerns all attachments. */
function turnOff(host: NetNs): void {
  for (const value of [1, 0]) {
    runIn(host, "sysctl", "-w", `net.ipv4.ip_forward=${value}`);
  }
}

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
  "Repairer continues where the previous round ran out of time",
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

const VERSION =
  `echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"],"commands":["REPAIR"]}'`;
const answer = (repaired: string, remaining: string): string =>
  `echo '{"cniVersion":"1.1.0","repaired":[${repaired}],"remaining":[${remaining}]}'`;

/** Attaches a container to a network of one plugin; both are named after the plugin. */
async function attach(
  plugins: RecordingPlugins,
  type: string,
  { sandbox }: TestHosts,
): Promise<void> {
  await plugins.runtime().addNetworkList(
    plugins.list([type], { name: type }),
    plugins.conf({ containerId: type, netns: sandbox.path }),
  );
}

/** Returns a repairer of the containers of these plugins. */
function repairerOf(
  plugins: RecordingPlugins,
  { host }: TestHosts,
  times: Partial<RepairerOptions>,
): Repairer {
  return new Repairer({
    hostNetns: host.path,
    directories: {
      pluginDirs: [plugins.directory.path],
      cacheDir: plugins.cacheDir,
    },
    env: { PATH: "/usr/bin:/bin", CNI_LOG_FILE: "stderr" },
    lookup: () => undefined,
    log: SILENT,
    ...times,
  });
}

/** Counts the repairs by a plugin. */
function countRepairs({ story }: RecordingPlugins, type: string): number {
  return story.filter((one) => one === `${type} REPAIR`).length;
}

rootTest(
  "Repairer reports a round that ran out of time, and keeps what it did not reach",
  async () => {
    using hosts = TestHosts.create();
    using plugins = new RecordingPlugins();
    plugins.add("own", { VERSION, REPAIR: answer('"x"', "") });
    plugins.add("broken", { VERSION, REPAIR: answer("", '"y"') });
    plugins.add("slow", {
      VERSION,
      REPAIR: `${answer("", "")}; [ ! -e "$0.slow" ] || exec sleep 60`,
    });
    for (const type of ["own", "broken", "slow"]) {
      await attach(plugins, type, hosts);
    }
    const repairer = repairerOf(plugins, hosts, {
      restMs: 1,
      sweepMs: 1,
      retryMs: 1,
      roundMs: 2000,
    });
    let isBusy = false;
    const calls: typeof IDLE = {
      whileIdle: (containerId, work) =>
        isBusy && containerId === "broken"
          ? Promise.resolve(undefined)
          : work(),
    };
    const describeAll = (): string[][] => [
      repairer.describe().done.map(({ container }) => container),
      repairer.describe().remaining.map(({ container }) => container).sort(),
    ];
    await whileRunning(repairer, calls, async () => {
      await eventually("a round ends", () => repairer.describe().rounds > 0);
      assertEquals(describeAll(), [["own"], ["broken"]]);
      isBusy = true;
      plugins.directory.addFile("slow.slow", "");
      const { repaired } = repairer.describe();
      await eventually(
        "a round runs out of time",
        () => repairer.describe().problem !== undefined,
      );
      assertEquals(describeAll(), [["own"], ["broken", "slow"]]);
      assertEquals(repairer.describe().repaired > repaired, true);
    });
  },
);

rootTest(
  "Repairer rests after two rounds, and not after one",
  async () => {
    using hosts = TestHosts.create();
    const { host, sandbox, directory } = hosts;
    const cacheDir = `${directory}/cache`;
    cacheAttachments(cacheDir, ["a"], sandbox.path);
    const repairer = new Repairer({
      hostNetns: host.path,
      directories: { pluginDirs: [], cacheDir },
      env: {},
      lookup: () => undefined,
      log: SILENT,
      restMs: 60 * 60_000,
    });
    const hasBegun = (rounds: number): Promise<void> =>
      eventually("a round", () => repairer.describe().rounds === rounds);
    await whileRunning(repairer, BUSY, async () => {
      await hasBegun(1);
      turnOff(host);
      await hasBegun(2);
      turnOff(host);
      // It would have begun.
      await pause(1000);
      assertEquals(repairer.describe().rounds, 2);
    });
  },
);

rootTest(
  "Repairer repairs a loss during a slow round once",
  async () => {
    using hosts = TestHosts.create();
    using plugins = new RecordingPlugins();
    plugins.add("fast", { VERSION, REPAIR: answer('"x"', "") });
    plugins.add("slow", { VERSION, REPAIR: "exec sleep 60" });
    for (const type of ["fast", "slow"]) {
      await attach(plugins, type, hosts);
    }
    const repairer = repairerOf(plugins, hosts, {
      restMs: 60 * 60_000,
    });
    const count = (type: string): number => countRepairs(plugins, type);
    await whileRunning(repairer, IDLE, async () => {
      await eventually("slow runs", () => count("slow") === 1);
      await eventually("fast has run", () => count("fast") === 1);
      turnOff(hosts.host);
      await eventually("fast runs again", () => count("fast") === 2);
      turnOff(hosts.host);
      // It would have run.
      await pause(1000);
      assertEquals([count("fast"), count("slow")], [2, 1]);
    });
  },
);

rootTest(
  "Repairer repairs attachments added during a round in the next round",
  async () => {
    using hosts = TestHosts.create();
    using plugins = new RecordingPlugins();
    plugins.add("late", { VERSION, REPAIR: answer('"x"', "") });
    plugins.add("slow", {
      VERSION,
      REPAIR: `while [ -e "$0.wait" ]; do sleep 0.1; done; ${answer("", "")}`,
    });
    await attach(plugins, "slow", hosts);
    plugins.directory.addFile("slow.wait", "");
    const repairer = repairerOf(plugins, hosts, {
      restMs: 1,
    });
    const count = (type: string): number => countRepairs(plugins, type);
    await whileRunning(repairer, IDLE, async () => {
      await eventually("slow runs", () => count("slow") === 1);
      await attach(plugins, "late", hosts);
      const { rounds } = repairer.describe();
      turnOff(hosts.host);
      await eventually(
        "the round takes it up",
        () => repairer.describe().rounds > rounds,
      );
      await Deno.remove(`${plugins.directory.path}/slow.wait`);
      await eventually("late is repaired", () => count("late") > 0);
    });
  },
);
