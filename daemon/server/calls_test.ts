import { AsyncLocalStorage } from "node:async_hooks";
import { assert, assertEquals } from "@std/assert";
import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import { JoinedSignal, pause, waitUntil } from "../../base/deadline.ts";
import { enableYielding, yieldIfLong } from "../../base/long_wait.ts";
import { FileLock } from "../../base/files/lock.ts";
import { KubeClient } from "../../kube/client.ts";
import { FileCredentials } from "../../kube/credentials.ts";
import { ExecCredentials } from "../../kube/exec_credential.ts";
import { KubeError } from "../../kube/kube_error.ts";
import { retry } from "../../kube/retry.ts";
import { lockByTurns } from "../../libcni/lock.ts";
import { SystemBus } from "../../plugins/firewall/system_bus.ts";
import { readPodResources } from "../../plugins/multus/devices/pod_resources.ts";
import { waitUntilReady } from "../../plugins/multus/pod/pod.ts";
import { enableChangeChecks } from "../../ffi/change_check.ts";
import { exists, removeIfThere } from "../../base/files/io.ts";
import { CniError } from "../../base/error.ts";
import { isTaken } from "../../base/files/io.ts";
import { emptyResult } from "../../cni/result/result.ts";
import { netConf } from "../../cni/config/types.ts";
import { hostLocal } from "../../ipam/host_local/plugin.ts";
import { DataDirectory } from "../../ipam/host_local/testing.ts";
import { dhcp } from "../../ipam/dhcp/plugin.ts";
import { SharedRuns } from "../../plugins/parts/firewall/iptables/shared_runs.ts";
import { portmap } from "../../plugins/portmap/plugin.ts";
import { MappedPorts } from "../../plugins/portmap/testing/mapped_ports.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { needsRuleTools } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import type { DaemonCall, EndedCall, Outcome } from "./call.ts";
import { type Caller, CallProgress } from "./call_progress.ts";
import { Calls } from "./calls.ts";
import { callerOf, shortened } from "./testing.ts";

/** A plugin that does what it is told, and what it was called for. */
class Told {
  readonly story: string[] = [];
  readonly ended: EndedCall[] = [];
  readonly calls: Calls;
  #go: (() => void) | undefined;
  readonly plugin: Plugin;

  constructor(maxCalls = 9, hostNetns = "/proc/self/ns/net") {
    this.plugin = definePlugin({
      name: "told",
      versions: ["1.0.0", "1.1.0"],
      configSchema: () => netConf({}),
      add: async ({ args, signal }) => {
        this.story.push(`ADD ${args.containerId}`);
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#go = resolve;
        signal?.addEventListener("abort", () => resolve());
        await promise;
        this.story.push(`ADD ${args.containerId} ends`);
        return emptyResult();
      },
      del: ({ args, prevResult }) => {
        const known = prevResult === undefined ? "" : " with its result";
        this.story.push(`DEL ${args.containerId}${known}`);
      },
    });
    this.calls = new Calls({
      lookup: () => undefined,
      hostNetns,
      maxCalls,
      log: { info(): void {}, warn: (text) => void this.story.push(text) },
      onEnded: (call) => this.ended.push(call),
    });
  }

  run(
    CNI_COMMAND: string,
    CNI_CONTAINERID = "c1",
    signal = new AbortController().signal,
    poll = (): void => {},
    more: Partial<DaemonCall> = {},
  ): Promise<Outcome> {
    const call: DaemonCall = {
      plugin: this.plugin,
      env: {
        CNI_COMMAND,
        CNI_CONTAINERID,
        CNI_NETNS: "/no/such/namespace",
        CNI_IFNAME: "eth0",
        CNI_PATH: "/no/such/directory",
      },
      stdin: new TextEncoder().encode(
        `{"cniVersion":"1.0.0","name":"n","type":"told"}`,
      ),
      onStderr(): void {},
      progress: new CallProgress({ signal, poll }, "waiting"),
      from: "a test",
      ...more,
    };
    return this.#run(call);
  }

  async #run(call: DaemonCall): Promise<Outcome> {
    const ended = await this.calls.run(call);
    this.calls.report(ended);
    return ended.outcome;
  }

  /** Records a call that is offered. */
  recordOffered(CNI_COMMAND: string, CNI_CONTAINERID: string): CallProgress {
    const env = { CNI_COMMAND, CNI_CONTAINERID, CNI_IFNAME: "eth0" };
    const stdin = new TextEncoder().encode('{"NAME":"n"}');
    const progress = new CallProgress(callerOf());
    progress.enter("offered");
    this.calls.recordOffered({ env, stdin }, progress);
    return progress;
  }

  /** Waits until the story has a line. */
  async until(line: string): Promise<void> {
    while (!this.story.includes(line)) {
      await new Promise((resolve) => setTimeout(resolve));
    }
  }

  go(): void {
    this.#go?.();
  }
}

function codeOf(outcome: Outcome): number | string {
  if ("declined" in outcome) return outcome.declined;
  return outcome.exitCode === 0 ? 0 : JSON.parse(outcome.stdout).code;
}

Deno.test("Calls undoes an ADD with its result if the caller disconnected", async () => {
  const told = new Told();
  const gone = new AbortController();
  const added = told.run("ADD", "c1", gone.signal);
  await told.until("ADD c1");
  gone.abort(new Error("the caller disconnected"));
  assertEquals(codeOf(await added), 11);
  assertEquals(told.story, [
    "ADD c1",
    "ADD c1 ends",
    "DEL c1 with its result",
  ]);
});

Deno.test("Calls undoes an ADD whose caller disconnected before it finished", async () => {
  const told = new Told();
  const gone = new AbortController();
  let isGone = false;
  const poll = (): void => {
    if (isGone) gone.abort(new Error("the caller disconnected"));
  };
  const added = told.run("ADD", "c1", gone.signal, poll);
  await told.until("ADD c1");
  isGone = true;
  told.go();
  assertEquals(codeOf(await added), 11);
  assertEquals(told.story, [
    "ADD c1",
    "ADD c1 ends",
    "DEL c1 with its result",
  ]);
});

/** How an ADD fails, when its caller is seen to be gone, and whether it is undone. */
const failures: [error: Error, isSeenBefore: boolean, isUndone: boolean][] = [
  [new CniError(4, "the name is taken"), true, false],
  [new CniError(4, "the name is taken"), false, false],
  [new CniError(7, "the range is malformed"), true, false],
  [new CniError(5, "the disk is full"), false, false],
  [new CniError(11, "the server did not answer"), true, true],
  [new CniError(100, "a program was killed"), true, true],
  [new Error("the call was cancelled"), true, true],
];

Deno.test("Calls does not undo a failed ADD", async (t) => {
  await eachRow(t, failures, async ([error, isSeenBefore, isUndone]) => {
    const told = new Told();
    const gone = new AbortController();
    let hasFailed = false;
    const leave = (): void => gone.abort(new Error("the caller disconnected"));
    const plugin: Plugin = {
      ...told.plugin,
      add: () => {
        if (isSeenBefore) leave();
        hasFailed = true;
        throw error;
      },
    };
    const poll = (): void => hasFailed ? leave() : undefined;
    const { signal } = gone;
    const outcome = await told.run("ADD", "c1", signal, poll, { plugin });
    assertEquals(codeOf(outcome), 11);
    assertEquals(told.story, isUndone ? ["DEL c1"] : []);
  }, ([error, isSeenBefore]) => `${error.message}, ${isSeenBefore}`);
});

Deno.test("Calls keeps the lease of the attachment that a second ADD found", async () => {
  using directory = new DataDirectory();
  const config = directory.config({ subnet: "10.1.2.0/24" });
  const stdin = new TextEncoder().encode(JSON.stringify(config));
  const told = new Told();
  const run = (signal: AbortSignal, plugin: Plugin): Promise<Outcome> =>
    told.run("ADD", "c1", signal, undefined, { plugin, stdin });
  const first = await run(new AbortController().signal, hostLocal as Plugin);
  assertEquals(codeOf(first), 0);
  const leases = directory.leases();
  const gone = new AbortController();
  const second = await run(gone.signal, {
    ...hostLocal as Plugin,
    add: (call) => {
      gone.abort(new Error("the caller disconnected"));
      return (hostLocal as Plugin).add?.(call) as ReturnType<
        NonNullable<Plugin["add"]>
      >;
    },
  });
  assertEquals([codeOf(second), directory.leases()], [11, leases]);
});

rootTest(
  "Calls undoes a third-party plugin's ADD, unless the interface existed before",
  async (t) => {
    const rows = [["before", []], ["by the ADD", ["DEL c1"]]] as const;
    await eachRow(t, rows, async ([made, story]) => {
      using hosts = TestHosts.create();
      const link = [
        "link",
        "add",
        "eth0",
        "type",
        "veth",
        "peer",
        "name",
        "peer",
      ];
      if (made === "before") runIn(hosts.sandbox, "ip", ...link);
      const make = made === "before"
        ? ""
        : `nsenter --net='${hosts.sandbox.path}' ip ${link.join(" ")}`;
      const begun = `${hosts.directory}/begun`;
      await Deno.writeTextFile(
        `${hosts.directory}/foreign`,
        `#!/bin/sh\n${make}\ntouch '${begun}'\nexec sleep 60\n`,
        { mode: 0o755 },
      );
      const told = new Told();
      const plugin: Plugin = {
        ...told.plugin,
        add: async ({ args, context, signal }) => {
          const config = { cniVersion: "1.0.0", name: "n", type: "foreign" };
          const stdin = new TextEncoder().encode(JSON.stringify(config));
          const invocation = { ...context, type: "foreign", stdin, signal };
          await context.invoker.invoke(invocation);
          throw new Error(`nobody cut ${args.containerId}`);
        },
      };
      const env = {
        PATH: Deno.env.get("PATH") ?? "",
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: "c1",
        CNI_NETNS: hosts.sandbox.path,
        CNI_IFNAME: "eth0",
        CNI_PATH: hosts.directory,
      };
      const gone = new AbortController();
      const changes = { plugin, env };
      const added = told.run("ADD", "c1", gone.signal, undefined, changes);
      await eventually("the plugin works", () => isTaken(begun));
      gone.abort(new Error("the caller disconnected"));
      assertEquals([codeOf(await added), told.story], [11, story]);
    }, ([made]) => made);
  },
);

Deno.test("Calls does not start a call whose caller disconnected in the queue", async () => {
  const told = new Told();
  const gone = new AbortController();
  const poll = (): void => gone.abort(new Error("the caller disconnected"));
  const { signal } = gone;
  assertEquals(codeOf(await told.run("ADD", "c1", signal, poll)), 11);
  assertEquals(told.story, []);
});

/** Calls that come after an ADD, whether their callers run them, and whether it is undone. */
const later: [
  calls: [command: string, isDeclined: boolean][],
  isUndone: boolean,
][] = [
  [[], true],
  [[["ADD", true]], false],
  [[["ADD", false]], true],
  [[["DEL", true], ["ADD", true]], false],
  [[["ADD", true], ["DEL", true]], true],
  [[["ADD", true], ["DEL", false]], false],
  [[["ADD", true], ["CHECK", true]], false],
];

Deno.test("Calls does not undo an ADD after a later ADD of another process", async (t) => {
  await eachRow(t, later, async ([calls, isUndone]) => {
    const told = new Told();
    const gone = new AbortController();
    const added = told.run("ADD", "c1", gone.signal);
    await told.until("ADD c1");
    const decide = calls.map(([command, isDeclined]) => {
      const progress = told.recordOffered(command, "c1");
      told.recordOffered("ADD", "c2").enter("ended");
      return (): void => void progress.enter(isDeclined ? "ended" : "waiting");
    });
    gone.abort(new Error("the caller disconnected"));
    await told.until("ADD c1 ends");
    for (const now of decide) now();
    assertEquals(codeOf(await added), 11);
    const undo = isUndone ? ["DEL c1 with its result"] : [];
    assertEquals(told.story, ["ADD c1", "ADD c1 ends", ...undo]);
  }, (row) => JSON.stringify(row));
});

/** What did not ask the daemon, and whether an ADD of before is undone. */
const unasked: [
  calls: [command: string, ...Partial<Attachment>][] | "any",
  isUndone: boolean,
][] = [
  [[], true],
  [[["DEL"]], true],
  [[["ADD"]], false],
  [[["DEL"], ["ADD"]], false],
  [[["DEL"], ["ADD"], ["DEL"]], true],
  [[["ADD"], ["DEL", "c2"], ["DEL", "c1", "eth1"]], false],
  [[["ADD"], ["DEL", "c1", "eth0", "other"]], false],
  [[["ADD", "c2"], ["ADD", "c1", "eth1"], ["ADD", "c1", "eth0", "m"]], true],
  ["any", false],
];

type Attachment = [containerId: string, ifName: string, network: string];

Deno.test("Calls does not undo an ADD after a later ADD that ran locally", async (t) => {
  await eachRow(t, unasked, async ([calls, isUndone]) => {
    const told = new Told();
    const gone = new AbortController();
    const added = told.run("ADD", "c1", gone.signal);
    await told.until("ADD c1");
    told.calls.recordLocalCalls(
      calls === "any" ? undefined : calls.map((call) => {
        const [command, containerId = "c1", ifName = "eth0", network = "n"] =
          call;
        return { command, containerId, ifName, network };
      }),
    );
    // What is known stays known.
    told.calls.recordLocalCalls([]);
    gone.abort(new Error("the caller disconnected"));
    assertEquals(codeOf(await added), 11);
    const undo = isUndone ? ["DEL c1 with its result"] : [];
    assertEquals(told.story, ["ADD c1", "ADD c1 ends", ...undo]);
  }, (row) => JSON.stringify(row));
});

Deno.test("Calls: a DEL whose caller disconnected keeps the lease of a later ADD", async () => {
  enableChangeChecks(new AsyncLocalStorage());
  using directory = new DataDirectory();
  const config = directory.config({ subnet: "10.1.2.0/24" });
  const stdin = new TextEncoder().encode(JSON.stringify(config));
  const told = new Told();
  const gone = new AbortController();
  const run = (
    command: string,
    { signal = gone.signal, poll, ...more }: Partial<DaemonCall & Caller> = {},
  ): Promise<Outcome> =>
    told.run(command, "c1", signal, poll, {
      plugin: hostLocal as Plugin,
      stdin,
      ...more,
    });
  assertEquals(codeOf(await run("ADD")), 0);
  const leases = directory.leases();
  let isRunning = false;
  const plugin: Plugin = {
    ...hostLocal as Plugin,
    del: async (call) => {
      isRunning = true;
      const network = String(config["name"]);
      const names = { containerId: "c1", ifName: "eth0", network };
      told.calls.recordLocalCalls([{ command: "ADD", ...names }]);
      await (hostLocal as Plugin).del?.(call);
    },
  };
  // As after a stop of the process: the plugin has begun, and finds it then.
  const poll = (): void => {
    if (isRunning) gone.abort(new Error("the caller disconnected"));
  };
  assertEquals(codeOf(await run("DEL", { plugin, poll })), 999);
  assertEquals(directory.leases(), leases);
  const { signal } = new AbortController();
  assertEquals(codeOf(await run("DEL", { signal })), 0);
  assertEquals(directory.leases(), {});
});

/** A call whose caller goes while it runs, what arrives then, and what it may still do. */
const resumed: [command: string, later: string[], removes: boolean][] = [
  ["DEL", [], true],
  ["DEL", ["ADD"], false],
  ["DEL", ["ADD", "DEL"], true],
  ["GC", [], false],
];

Deno.test("Calls: a call whose caller disconnected removes nothing of a later ADD", async (t) => {
  enableChangeChecks(new AsyncLocalStorage());
  await eachRow(t, resumed, async ([command, later, removes]) => {
    const told = new Told();
    const gone = new AbortController();
    const file = await Deno.makeTempFile();
    const { promise: standing, resolve } = Promise.withResolvers<void>();
    const run = async (): Promise<void> => {
      told.story.push(command);
      await standing;
      removeIfThere(file);
    };
    const plugin: Plugin = { ...told.plugin, del: run, gc: run };
    const stdin = new TextEncoder().encode(
      '{"cniVersion":"1.1.0","name":"n","type":"told",' +
        '"cni.dev/valid-attachments":[]}',
    );
    const none = (): void => {};
    const ended = told.run(command, "c1", gone.signal, none, { plugin, stdin });
    await told.until(command);
    gone.abort(new Error("the caller disconnected"));
    const names = { containerId: "c1", ifName: "eth0", network: "n" };
    told.calls.recordLocalCalls(
      later.map((command) => ({ command, ...names })),
    );
    resolve();
    assertEquals(codeOf(await ended), removes ? 0 : 999);
    assertEquals(exists(file), !removes);
    removeIfThere(file);
  }, (row) => row.join(" "));
});

Deno.test("Calls: a DEL whose caller disconnected deletes no link of a later ADD", async () => {
  const told = new Told();
  for (const isLater of [false, true]) {
    const gone = new AbortController();
    const { promise: standing, resolve } = Promise.withResolvers<void>();
    const plugin: Plugin = {
      ...told.plugin,
      async del({ linkDeletion }): Promise<void> {
        told.story.push("DEL");
        await standing;
        const deleteTogether = (): void => void told.story.push("deleted");
        const link = { index: 1, name: "veth0", netns: "/netns" };
        await linkDeletion.now([{ ...link, deleteTogether }]);
      },
    };
    const none = (): void => {};
    const deleted = told.run("DEL", "c1", gone.signal, none, { plugin });
    await told.until("DEL");
    if (isLater) told.recordOffered("ADD", "c1").enter("ended");
    gone.abort(new Error("the caller disconnected"));
    resolve();
    assertEquals(codeOf(await deleted), isLater ? 999 : 0);
    assertEquals(told.story.splice(0), isLater ? ["DEL"] : ["DEL", "deleted"]);
  }
});

/** Whose iptables waits for another program's lock, and what happens then. */
const waiting: [command: string, event: string, isKilled: boolean][] = [
  ["DEL", "its caller disconnects", false],
  ["DEL", "its caller disconnects, and another DEL arrives", true],
  ["DEL", "its caller disconnects, and two minutes pass", true],
  ["DEL", "the daemon stops", true],
  ["GC", "its caller disconnects", true],
];

rootTest(
  "Calls: a DEL whose caller disconnected lets iptables finish, unless cancelled",
  needsRuleTools,
  async (t) => {
    await eachRow(t, waiting, async ([command, event, isKilled]) => {
      using ports = new MappedPorts({ backend: "iptables" });
      await ports.succeed("ADD");
      const told = new Told(9, ports.hosts.host.path);
      const { directory } = ports.hosts;
      const waits = `${directory}/waits`, released = `${directory}/released`;
      for (const suffix of ["", "-restore"]) {
        const script = `#!/bin/sh\n[ -e ${released} ] || touch ${waits}\n` +
          `while [ -e ${waits} ] && [ ! -e ${released} ]; do sleep 0.02; done\n` +
          `exec /usr/sbin/iptables-nft${suffix} "$@"\n`;
        for (const name of ["iptables", "iptables-nft"]) {
          const path = `${directory}/${name}${suffix}`;
          await Deno.writeTextFile(path, script, { mode: 0o755 });
        }
      }
      const stdin = new TextEncoder().encode(JSON.stringify(ports.configOf({
        cniVersion: "1.1.0",
        "cni.dev/valid-attachments": [],
      })));
      const env = ports.hosts.environment(command, {
        env: { PATH: directory },
      });
      const run = async (signal?: AbortSignal): Promise<number | string> =>
        codeOf(
          await told.run(command, "", signal, undefined, {
            plugin: portmap as Plugin,
            stdin,
            env,
          }),
        );
      const gone = new AbortController();
      using _ = event.includes("minutes") ? shortened(120_000) : undefined;
      const first = run(gone.signal);
      await eventually("iptables waits", () => isTaken(waits));
      if (event.includes("disconnects")) gone.abort(new Error("it is gone"));
      const another = event.includes("another DEL") ? [run()] : [];
      if (event.includes("stops")) await told.calls.stop(1, 60_000);
      if (isKilled) {
        let code: number | string | undefined;
        first.then((ended) => code = ended);
        await eventually("the call has failed", () => code === 999);
        assert(ports.containerRules().length > 0);
      }
      await Deno.writeTextFile(released, "");
      assertEquals(await first, isKilled ? 999 : 0);
      assertEquals(await Promise.all(another), another.map(() => 0));
      const isLeft = isKilled && another.length === 0;
      assertEquals(ports.containerRules().length > 0, isLeft);
    }, ([command, event]) => `${command}: ${event}`);
  },
);

Deno.test("Calls: a DEL cancels the ADDs of its attachment, and no other call", async () => {
  const told = new Told();
  const other = told.run("ADD", "c2");
  await told.until("ADD c2");
  const adds = [told.run("ADD"), told.run("ADD")];
  await told.until("ADD c1");
  assertEquals(codeOf(await told.run("DEL")), 0);
  assertEquals((await Promise.all(adds)).map(codeOf), [11, 11]);
  assertEquals(told.story, [
    "ADD c2",
    "ADD c1",
    "ADD c1 ends",
    "DEL c1 with its result",
    "DEL c1",
  ]);
  assertEquals([told.calls.running, told.calls.waiting], [1, 0]);
  assertEquals(codeOf(await told.run("DEL", "c2")), 0);
  assertEquals(codeOf(await other), 11);
  assertEquals(told.ended.map(({ command, code }) => [command, code]), [
    ["ADD", 11],
    ["ADD", 11],
    ["DEL", 0],
    ["ADD", 11],
    ["DEL", 0],
  ]);
});

Deno.test("Calls undoes a cancelled ADD even if the cancelling DEL never runs", async () => {
  for (const isLater of [false, true]) {
    const told = new Told();
    const gone = new AbortController();
    const added = told.run("ADD");
    await told.until("ADD c1");
    const deleted = told.run("DEL", "c1", gone.signal);
    gone.abort(new Error("the caller disconnected"));
    if (isLater) told.recordOffered("ADD", "c1").enter("ended");
    assertEquals((await Promise.all([added, deleted])).map(codeOf), [11, 11]);
    const undo = isLater ? [] : ["DEL c1 with its result"];
    assertEquals(told.story, ["ADD c1", "ADD c1 ends", ...undo]);
  }
});

/** Makes so many calls wait that those after them are declined. */
function crowd(told: Told): Promise<Outcome>[] {
  const calls = [told.run("ADD", "first")];
  while (told.calls.waiting < 4096) {
    calls.push(told.run("ADD", `waiting${calls.length}`));
  }
  return calls;
}

Deno.test("Calls declines a call of a full queue after earlier calls of its attachment", async (t) => {
  const commands = ["DEL", "ADD", "CHECK"];
  await eachRow(t, commands, async (command) => {
    const told = new Told(2);
    const gone = new AbortController();
    const added = told.run("ADD", "c1", gone.signal);
    await told.until("ADD c1");
    const others = crowd(told);
    const declined = told.run(command).then((outcome) => {
      told.story.push(`${command} c1: ${codeOf(outcome)}`);
    });
    // Calls of other attachments wait for nothing.
    assertEquals(codeOf(await told.run("DEL", "c2")), "too many calls wait");
    // A DEL cancels the ADD itself.
    if (command !== "DEL") gone.abort(new Error("the caller disconnected"));
    await declined;
    assertEquals(codeOf(await added), 11);
    assertEquals(told.story.filter((line) => line.includes("c1")), [
      "ADD c1",
      "ADD c1 ends",
      "DEL c1 with its result",
      `${command} c1: too many calls wait`,
    ]);
    await told.calls.stop(1, 60_000);
    await Promise.all(others);
  }, (command) => command);
});

Deno.test("Calls.stop() declines a call after earlier calls of its attachment", async () => {
  for (const isBefore of [false, true]) {
    const told = new Told();
    const { promise: standing, resolve: go } = Promise.withResolvers<void>();
    const plugin: Plugin = {
      ...told.plugin,
      add: async () => {
        told.story.push("ADD c1");
        await standing;
        told.story.push("ADD c1 ends");
        return emptyResult();
      },
    };
    const none = (): void => {};
    const never = new AbortController().signal;
    const added = told.run("ADD", "c1", never, none, { plugin });
    await told.until("ADD c1");
    const del = async (): Promise<void> => {
      const code = codeOf(await told.run("DEL"));
      told.story.push(`DEL c1: ${code}`);
    };
    const early = isBefore ? [del()] : [];
    const stopped = told.calls.stop(60_000, 60_000);
    const deleted = isBefore ? early : [del()];
    // Refused with the others, it would be gone by now.
    assertEquals(codeOf(await told.run("DEL", "c2")), "the daemon ends");
    await new Promise((resolve) => setTimeout(resolve));
    assertEquals(told.story, ["ADD c1"]);
    go();
    await Promise.all([...deleted, stopped]);
    assertEquals(codeOf(await added), 11);
    assertEquals(told.story, [
      "ADD c1",
      "ADD c1 ends",
      "DEL c1 with its result",
      "DEL c1: the daemon ends",
    ]);
  }
});

Deno.test("Calls.stop() waits for running calls, and starts no others", async () => {
  const told = new Told(1);
  const running = told.run("ADD");
  await told.until("ADD c1");
  const waiting = told.run("ADD", "c2");
  const stopped = told.calls.stop(60_000, 60_000);
  assertEquals(codeOf(await waiting), "the daemon ends");
  assertEquals(codeOf(await told.run("DEL", "c3")), "the daemon ends");
  told.go();
  assertEquals(codeOf(await running), 0);
  await stopped;
  assertEquals(told.story, ["ADD c1", "ADD c1 ends"]);
});

Deno.test("Calls.stop() cancels calls at its time limit, and undoes ADD", async () => {
  const told = new Told();
  const running = told.run("ADD");
  await told.until("ADD c1");
  await told.calls.stop(1, 60_000);
  assertEquals(codeOf(await running), 11);
  assert(told.story.includes("DEL c1 with its result"));
});

Deno.test("Calls runs a call with a malformed configuration, which returns an error", async () => {
  const told = new Told();
  const { outcome } = await told.calls.run({
    plugin: told.plugin,
    env: { CNI_COMMAND: "ADD" },
    stdin: new TextEncoder().encode("["),
    onStderr(): void {},
    progress: new CallProgress(callerOf(), "waiting"),
    from: "a test",
  });
  assertEquals(codeOf(outcome), 4);
});

Deno.test("Calls: a call that waits for a DHCP server does not delay other calls", async () => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/dhcp.sock`;
  const told = new Told(1);
  try {
    using listener = Deno.listen({ transport: "unix", path });
    const gone = new AbortController();
    const ipam = { type: "dhcp", daemonSocketPath: path };
    const config = { cniVersion: "1.0.0", name: "n", type: "dhcp", ipam };
    const leasing = told.run("ADD", "c1", gone.signal, () => {}, {
      plugin: dhcp as Plugin,
      stdin: new TextEncoder().encode(JSON.stringify(config)),
    });
    using _asked = await listener.accept();
    assertEquals([told.calls.running, told.calls.waiting], [1, 0]);
    await told.run("DEL", "c2");
    assertEquals(told.story, ["DEL c2"]);
    gone.abort();
    // The undo asks, too.
    (await listener.accept()).close();
    const outcome = await leasing;
    assert("exitCode" in outcome && outcome.exitCode === 1);
    assertEquals([told.calls.running, told.calls.waiting], [0, 0]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("Calls runs STATUS without a slot, and DEL before waiting ADDs", async () => {
  const told = new Told(1);
  const adding = told.run("ADD");
  await told.until("ADD c1");
  const plugin: Plugin = {
    ...told.plugin,
    status: () => void told.story.push("STATUS"),
  };
  const stdin = new TextEncoder().encode(
    '{"cniVersion":"1.1.0","name":"n","type":"told"}',
  );
  const { signal } = new AbortController();
  const status = await told.run("STATUS", "", signal, undefined, {
    plugin,
    stdin,
  });
  assertEquals([codeOf(status), told.calls.running], [0, 1]);
  const waiting = [told.run("ADD", "c2"), told.run("DEL", "c3")];
  told.go();
  await told.until("ADD c2");
  told.go();
  assertEquals((await Promise.all([adding, ...waiting])).map(codeOf), [
    ...[0, 0, 0],
  ]);
  assertEquals(told.story, [
    ...["ADD c1", "STATUS", "ADD c1 ends"],
    ...["DEL c3", "ADD c2", "ADD c2 ends"],
  ]);
  assertEquals([told.calls.running, told.calls.waiting], [0, 0]);
});

Deno.test("Calls: an ADD during a long wait needs no slot", async (t) => {
  enableYielding(new AsyncLocalStorage());
  const directory = await Deno.makeTempDir();
  const started = `${directory}/started`;
  await Deno.writeTextFile(
    `${directory}/slow`,
    `#!/bin/sh\ntouch ${started}\nexec sleep 60\n`,
    { mode: 0o755 },
  );
  const config = { cniVersion: "1.0.0", name: "n", type: "slow" };
  const bytes = new TextEncoder().encode(JSON.stringify(config));
  const path = Deno.env.get("PATH") ?? "";
  const waits: [name: string, wait: Add][] = [
    ["for the readiness file", async ({ signal }) => {
      await waitUntilReady("/no/such/file", signal);
      return emptyResult();
    }],
    ["for a plugin that runs as a process", async ({ context, signal }) => {
      const env = { ...context.env, PATH: path, CNI_PATH: directory };
      const invocation = { ...context, env, type: "slow", stdin: bytes };
      await context.invoker.invoke({ ...invocation, signal });
      return emptyResult();
    }],
    ["for a lock", async ({ signal }) => {
      const lock = `${directory}/lock`;
      using _held = await FileLock.acquire(lock, 0o600);
      using _again = await FileLock.acquire(lock, 0o600, { signal });
      return emptyResult();
    }],
    ["for the API server", async ({ signal }) => {
      const refused = (): Promise<never> => {
        throw new KubeError("busy", { status: 429, retryAfterMs: 30_000 });
      };
      return await retry(refused, "GET", { signal });
    }],
    ["for the system bus", async ({ signal }) => {
      const path = `${directory}/bus`;
      using _silent = Deno.listen({ transport: "unix", path });
      const env = { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${path}` };
      using _bus = await SystemBus.open(env, signal);
      return emptyResult();
    }],
    ["for the kubelet", async ({ signal }) => {
      const path = `${directory}/kubelet.sock`;
      using _silent = Deno.listen({ transport: "unix", path });
      const pod = { namespace: "default", name: "pod" };
      await readPodResources(path, pod, signal);
      return emptyResult();
    }],
    ["for operations that pass it", async ({ signal }) => {
      assert(signal !== undefined);
      const busy = (): Promise<never> => {
        throw new CniError(11, "a container is in use");
      };
      const turns = { attemptMs: 1, passMs: 60_000, signal };
      using _lock = await lockByTurns(busy, turns);
      return emptyResult();
    }],
  ];
  try {
    await eachRow(t, waits, async ([, add]) => {
      const told = new Told(1);
      const gone = new AbortController();
      let isRunning = false;
      const plugin: Plugin = {
        ...told.plugin,
        add: async (call) => {
          isRunning = true;
          return await add(call);
        },
      };
      const none = (): void => {};
      const added = told.run("ADD", "c1", gone.signal, none, { plugin });
      await eventually("the ADD runs", () => isRunning);
      assertEquals(codeOf(await told.run("DEL", "c2")), 0);
      assertEquals([told.calls.running, told.calls.waiting], [1, 0]);
      gone.abort(new Error("the caller disconnected"));
      assertEquals(codeOf(await added), 11);
      assertEquals(told.story, ["DEL c2", "DEL c1"]);
      assertEquals([told.calls.running, told.calls.waiting], [0, 0]);
    }, ([name]) => name);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

type Add = NonNullable<Plugin["add"]>;

/** Work that two calls wait for, but only one of them begins. */
const shared: [name: string, prepare: (directory: string) => Add][] = [
  ["a shared run", () => {
    const runs = new SharedRuns<number, number>(async (inputs) => {
      // As a program of the run.
      await yieldIfLong(() => pause(600));
      return inputs;
    });
    return async () => {
      await runs.run("key", 1);
      return emptyResult();
    };
  }],
  ["credentials of a program", (directory) => {
    const origin = { what: 'kubeconfig "/k"', directory };
    const apiVersion = "client.authentication.k8s.io/v1";
    const credentials = new ExecCredentials(origin, {
      exec: { apiVersion, command: "./credentials" },
      cluster: {},
      env: { PATH: Deno.env.get("PATH") ?? "" },
      own: new FileCredentials(() => ({})),
    });
    const client = new KubeClient({
      authenticate: () => credentials.get(),
      send: (_, signal) => {
        const request = { method: "GET", url: "https://api/pod" };
        const answer = Response.json({});
        return Promise.resolve({ request, answer, signal });
      },
      [Symbol.dispose](): void {},
    });
    return async () => {
      await client.getPod("namespace", "pod");
      return emptyResult();
    };
  }],
];

Deno.test("Calls: shared work of several calls needs no slot", async (t) => {
  enableYielding(new AsyncLocalStorage());
  using directory = new PluginDirectory();
  directory.add(
    "credentials",
    `sleep 0.6; printf '{"kind":"ExecCredential","apiVersion":` +
      `"client.authentication.k8s.io/v1","status":{"token":"t"}}'`,
  );
  await eachRow(t, shared, async ([, prepare]) => {
    const told = new Told(1);
    const add = prepare(directory.path);
    const plugin: Plugin = { ...told.plugin, add };
    const gone = new AbortController();
    const outcomes = Promise.all(
      ["c1", "c2"].map((id) =>
        told.run("ADD", id, gone.signal, undefined, { plugin })
      ),
    );
    using limit = new JoinedSignal(10_000);
    const answered = await waitUntil(outcomes, limit.signal);
    gone.abort(new Error("the caller disconnected"));
    await outcomes;
    assertEquals(answered?.map(codeOf), [0, 0]);
  }, ([name]) => name);
});

Deno.test("Calls.whileIdle() delays only calls of the container, without a slot", async () => {
  const told = new Told(1);
  const { promise, resolve } = Promise.withResolvers<void>();
  const working = told.calls.whileIdle("c1", async () => {
    told.story.push("work begins");
    await promise;
    told.story.push("work ends");
    return "done";
  });
  const deleting = told.run("DEL", "c1");
  await told.run("DEL", "c2");
  assertEquals(told.story, ["work begins", "DEL c2"]);
  assertEquals(
    await told.calls.whileIdle("c1", () => Promise.resolve(1)),
    undefined,
  );
  resolve();
  assertEquals(await working, "done");
  assertEquals(codeOf(await deleting), 0);
  assertEquals(told.story.slice(2), ["work ends", "DEL c1"]);
});

Deno.test("Calls.whileIdle() keeps the order of delayed calls", async () => {
  const told = new Told();
  const { promise, resolve } = Promise.withResolvers<void>();
  const working = told.calls.whileIdle("c1", () => promise);
  const deleted = told.run("DEL");
  const added = working.then(() => told.run("ADD"));
  resolve();
  assertEquals(codeOf(await deleted), 0);
  await told.until("ADD c1");
  told.go();
  assertEquals(codeOf(await added), 0);
  assertEquals(told.story, ["DEL c1", "ADD c1", "ADD c1 ends"]);
});

Deno.test("Calls.whileIdle() does nothing while a call of the container runs", async () => {
  const told = new Told();
  const adding = told.run("ADD", "c1");
  await told.until("ADD c1");
  const work = (): Promise<number> => Promise.resolve(1);
  assertEquals(await told.calls.whileIdle("c1", work), undefined);
  assertEquals(await told.calls.whileIdle("c2", work), 1);
  told.go();
  await adding;
  assertEquals(await told.calls.whileIdle("c1", work), 1);
});
