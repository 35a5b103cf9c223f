/**
 * chain with plugins that make something: what there is afterwards must be what
 * there would be without it. With the executables where `CNI_BIN` says where
 * they are, else in this process.
 */

import { assert, assertEquals } from "@std/assert";
import { makeChain } from "../../cli/node/chain_form.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { decodePluginConf, decodePluginConfs } from "../../libcni/conf.ts";
import { buildRequest, type RequestExtras } from "../../libcni/operation.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
  rootTest,
  type TestBody,
} from "../../testing/capabilities.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { FaultInjector } from "../../testing/fault_injector.ts";
import { type Snapshot, snapshot } from "../../testing/ip_json.ts";
import { hostLimits, WIDE } from "../bandwidth/testing/limited_pair.ts";
import { hasEnded, killIfAlive } from "../../tests/_harness/process_group.ts";
import { needsInetRules } from "../../tests/_harness/rules.ts";
import { spawnIn } from "../../tests/_harness/spawn_in.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const BIN = Deno.env.get("CNI_BIN") ?? "";
const needsBin = ignoreUnless(
  BIN !== "",
  "needs CNI_BIN, as `deno task test` sets it",
);
const needsStrace = ignoreUnless(hasCommand("strace"), "needs strace");

/** Registers a test that works in namespaces. */
function inNamespaces(
  name: string,
  test: TestBody,
  ...needs: readonly Needs[]
): void {
  rootTest(name, allOf(...needs), test);
}

type PluginObject = JsonObject & { readonly type: string };

/** Connects, limits and routes: what a pod of two networks might have. */
function podPlugins(
  hosts: TestHosts,
): [PluginObject, PluginObject, PluginObject] {
  const ipam = dualStack(hosts).ipam as JsonObject;
  const capabilities = { bandwidth: true };
  return [
    { type: "ptp", ipam, ipMasq: true, mtu: 1400 },
    { type: "bandwidth", capabilities },
    { type: "sbr" },
  ];
}

/** The runtime's offer. */
const OFFER = { bandwidth: WIDE };

/** Puts plugins into a chain as `cni convert` does with those of ours. */
function chainOf(plugins: readonly PluginObject[]): PluginObject {
  const { type, document } = makeChain(decodePluginConfs(plugins));
  return { ...document, type };
}

/** Adds a plugin that is a script beside ours. */
function addScript(directory: string, type: string, script: string): void {
  const path = `${directory}/${type}`;
  Deno.writeTextFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

/** Hands on what the plugin before has answered: keys are sent in their order. */
const HAND_ON = `stdin=$(cat)
[ "$CNI_COMMAND" = ADD ] || exit 0
echo "$stdin" | sed 's/^.*"prevResult":\\(.*\\),"type":"foreign"}$/\\1/'`;

/** A runtime that has one list of plugins and one container. */
class Runtime {
  readonly #hosts: TestHosts;
  readonly #plugins: readonly PluginObject[];
  readonly #env: Record<string, string>;
  readonly #bin: string;
  /** The result of ADD. */
  result: JsonObject | undefined;

  constructor(
    hosts: TestHosts,
    plugins: readonly PluginObject[],
    env: Record<string, string> = {},
    bin = BIN,
  ) {
    this.#hosts = hosts;
    this.#plugins = plugins;
    this.#env = { CNI_PATH: `${bin || hosts.path}:${hosts.directory}`, ...env };
    this.#bin = bin;
  }

  /** Runs ADD; returns what the plugin said that failed. */
  async add(): Promise<CallOutput["json"]> {
    let prevResult: JsonObject | undefined;
    for (const plugin of this.#plugins) {
      const extras = { prevResult, capabilityArgs: OFFER };
      const { exitCode, json } = await this.#call("ADD", plugin, extras);
      if (exitCode !== 0) return json;
      prevResult = json;
    }
    this.result = prevResult;
  }

  /** Runs a command of all plugins, each of which must succeed. */
  async run(
    command: "CHECK" | "DEL" | "GC" | "STATUS",
    validAttachments = VALID,
  ): Promise<void> {
    const { result: prevResult } = this;
    const extras = command === "GC"
      ? { gc: { validAttachments } }
      : { prevResult, capabilityArgs: OFFER };
    const plugins = command === "DEL"
      ? this.#plugins.toReversed()
      : this.#plugins;
    for (const plugin of plugins) {
      const { exitCode, stdout } = await this.#call(command, plugin, extras);
      assertEquals([exitCode, stdout], [0, ""], `${command} ${plugin.type}`);
    }
  }

  async #call(
    command: string,
    plugin: PluginObject,
    extras: RequestExtras,
  ): Promise<CallOutput> {
    const { type } = plugin;
    const request = requestOf(plugin, extras);
    const options = { env: this.#env };
    if (type === "foreign") {
      const path = `${this.#hosts.directory}/${type}`;
      return this.#hosts.exec(path, command, request, options);
    }
    return this.#bin === ""
      ? await this.#hosts.run(type, command, request, options)
      : this.#hosts.exec(`${this.#bin}/${type}`, command, request, options);
  }
}

const VALID = [{ containerId: "test-container", ifName: "eth0" }];

/** Makes what a runtime sends to a plugin. */
function requestOf(plugin: PluginObject, extras: RequestExtras = {}): object {
  const network = { name: "net1", cniVersion: "1.1.0" };
  const bytes = buildRequest(network, decodePluginConf(plugin), extras);
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** Takes stock of both namespaces and the leases. */
function takeStock(hosts: TestHosts): unknown {
  const [host, sandbox] = [hosts.host, hosts.sandbox]
    .map((netns) => inAnyOrder(normalise(snapshot(netns), hosts)));
  const limits = normalise(hostLimits(hosts.host), hosts);
  return { host, sandbox, limits, leases: hosts.leases() };
}

/** Sorts routes: the kernel adds link-local ones when it has settled the address. */
function inAnyOrder({ routes, ...others }: Snapshot): Snapshot {
  const texts = (routes as object[]).map((route) => JSON.stringify(route));
  return { ...others, routes: texts.sort() };
}

/** Takes out what differs from one attachment to the next. */
function normalise<T>(value: T, { sandbox }: TestHosts): T {
  const text = JSON.stringify(value)
    .replaceAll(sandbox.path, "SANDBOX")
    .replace(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
    .replace(/fe80::[0-9a-f:]+/g, "LINK-LOCAL");
  return JSON.parse(text);
}

/** The attachment as it was. */
interface Life {
  readonly result: unknown;
  readonly stock: unknown;
}

/** Attaches a container, asks all there is to ask, detaches it. */
async function live(
  arrange: (plugins: PluginObject[]) => PluginObject[],
  env: Record<string, string> = {},
): Promise<Life> {
  using hosts = TestHosts.create();
  addScript(hosts.directory, "foreign", HAND_ON);
  const before = takeStock(hosts);
  const plugins = podPlugins(hosts).toSpliced(1, 0, { type: "foreign" });
  const runtime = new Runtime(hosts, arrange(plugins), env);
  assertEquals(await runtime.add(), undefined);
  const stock = takeStock(hosts);
  await runtime.run("CHECK");
  await runtime.run("STATUS");
  await runtime.run("GC");
  assertEquals(takeStock(hosts), stock, "after GC");
  const result = normalise(runtime.result, hosts);
  await runtime.run("DEL");
  assertEquals(takeStock(hosts), before, "after DEL");
  await runtime.run("DEL");
  return { result, stock };
}

inNamespaces("chain creates the same network as a network list", async (t) => {
  const expected = await live((plugins) => plugins);
  const text = JSON.stringify(expected.stock);
  assert(text.includes("tbf") && text.includes('"table":"100"'), text);
  await t.step("in one process", async () => {
    assertEquals(await live((plugins) => [chainOf(plugins)]), expected);
  });
  await t.step("behind the first plugin", async () => {
    const arrange = (plugins: PluginObject[]): PluginObject[] => [
      ...plugins.slice(0, 1),
      chainOf(plugins.slice(1)),
    ];
    assertEquals(await live(arrange), expected);
  });
  await t.step({
    name: `with a process for each plugin${needsBin.suffix}`,
    ignore: needsBin.ignore,
    async fn(): Promise<void> {
      const env = { CNI_NO_INPROCESS: "1" };
      const ended = await live((plugins) => [chainOf(plugins)], env);
      assertEquals(ended, expected);
    },
  });
});

inNamespaces("chain and network list detach each other's pods", async (t) => {
  await eachRow(t, ["list", "chain"], async (first) => {
    using hosts = TestHosts.create();
    const before = takeStock(hosts);
    const plugins = podPlugins(hosts);
    const list = new Runtime(hosts, plugins);
    const chain = new Runtime(hosts, [chainOf(plugins)]);
    const [one, other] = first === "list" ? [list, chain] : [chain, list];
    assertEquals(await one.add(), undefined);
    other.result = one.result;
    await other.run("CHECK");
    await other.run("DEL");
    assertEquals(takeStock(hosts), before);
  }, (first) => `by a ${first} first`);
});

inNamespaces(
  "ADD of a chain leaves nothing if any plugin fails",
  async (t) => {
    await eachRow(t, [0, 1, 2, 3], async (place) => {
      using hosts = TestHosts.create();
      const before = takeStock(hosts);
      addScript(
        hosts.directory,
        "foreign",
        `[ "$CNI_COMMAND" != ADD ] || { echo '{"code":11,"msg":"no"}'; exit 1; }`,
      );
      const plugins = podPlugins(hosts)
        .toSpliced(place, 0, { type: "foreign" });
      const runtime = new Runtime(hosts, [chainOf(plugins)]);
      const { code, msg } = await runtime.add();
      const expected = 'plugin type="foreign" failed (add): no';
      assertEquals([code, msg], [11, expected]);
      assertEquals(takeStock(hosts), before);
      await runtime.run("DEL");
      assertEquals(takeStock(hosts), before);
    }, (place) => `plugin ${place}`);
  },
);

/** Attaches a container, and counts how often DEL has the kernel delete links. */
async function countDeletions(
  arrange: (plugins: PluginObject[]) => PluginObject[],
): Promise<number> {
  using hosts = TestHosts.create();
  const before = takeStock(hosts);
  // On DEL it fails if the IFB is there.
  const lookForIfb = `! nsenter --net=${hosts.host.path} ip link | grep bwp`;
  const script = HAND_ON.replace("exit 0", `{ ${lookForIfb}; exit; }`);
  addScript(hosts.directory, "foreign", script);
  const runtime = new Runtime(hosts, arrange(podPlugins(hosts)), {}, "");
  assertEquals(await runtime.add(), undefined);
  assert(hostLimits(hosts.host).links.some((name) => name.startsWith("bwp")));
  using requests = new FaultInjector(0, "instead");
  await runtime.run("DEL");
  assertEquals(takeStock(hosts), before);
  return requests.steps.filter((step) => step === "RTM_DELLINK").length;
}

inNamespaces("DEL of a chain deletes links together", async (t) => {
  await t.step("the veth pair and the IFB", async () => {
    const count = await countDeletions((plugins) => [chainOf(plugins)]);
    assertEquals(count, 1);
  });
  await t.step("but not before a plugin in another process", async () => {
    const foreign = { type: "foreign" };
    const count = await countDeletions((plugins) => [
      chainOf(plugins.toSpliced(1, 0, foreign)),
    ]);
    assertEquals(count, 2);
  });
  await t.step("and links whose deletion deletes no other link", async () => {
    const count = await countDeletions((plugins) => [
      ...plugins.slice(0, 1),
      chainOf(plugins.slice(1)),
    ]);
    assertEquals(count, 2);
  });
});

/** Adds the plugin `foreign`, whose ADD writes its process ID to the file and sleeps. */
function addSleeping({ directory }: TestHosts): string {
  const pidFile = `${directory}/pid`;
  addScript(
    directory,
    "foreign",
    `[ "$CNI_COMMAND" = ADD ] || exit 0
      echo $$ > '${pidFile}.new'; mv '${pidFile}.new' '${pidFile}'
      exec sleep 60`,
  );
  return pidFile;
}

inNamespaces(
  "DEL leaves nothing after a killed ADD of a chain",
  async (t) => {
    await eachRow(t, [1, 2, 3], async (place) => {
      using hosts = TestHosts.create();
      const before = takeStock(hosts);
      const pidFile = addSleeping(hosts);
      const plugins = podPlugins(hosts)
        .toSpliced(place, 0, { type: "foreign" });
      const chain = chainOf(plugins);
      const runtime = new Runtime(hosts, [chain]);
      const adding = startAdd(hosts, chain);
      const pid = Number(await appearance(pidFile));
      adding.kill();
      await adding.output;
      killIfAlive(pid);
      assert(hosts.leases().length > 0, "it came too early");
      await runtime.run("DEL");
      assertEquals(takeStock(hosts), before);
    }, (place) => `at plugin ${place}`);
  },
  needsBin,
);

inNamespaces(
  "GC of a chain removes a killed ADD, and keeps a running ADD",
  async () => {
    using hosts = TestHosts.create();
    const before = takeStock(hosts);
    const pidFile = addSleeping(hosts);
    const plugins = podPlugins(hosts).toSpliced(2, 0, { type: "foreign" });
    const chain = chainOf(plugins);
    const runtime = new Runtime(hosts, [chain]);
    const adding = startAdd(hosts, chain);
    const pid = Number(await appearance(pidFile));
    const stock = takeStock(hosts);
    await runtime.run("GC", []);
    assertEquals(takeStock(hosts), stock);
    adding.kill();
    await adding.output;
    await runtime.run("GC", []);
    assertEquals(takeStock(hosts), stock, "its plugin runs");
    killIfAlive(pid);
    await eventually("its plugin ended", () => hasEnded(pid));
    await runtime.run("GC", []);
    assertEquals(takeStock(hosts), before);
  },
  needsBin,
);

inNamespaces(
  "DEL waits for a plugin process that outlived the killed chain",
  async (t) => {
    const foreign = { type: "foreign" };
    const arrangements: Record<string, (hosts: TestHosts) => PluginObject[]> = {
      "of a plugin": (hosts) => podPlugins(hosts).toSpliced(1, 0, foreign),
      "of an IPAM plugin": () => [{ type: "ptp", ipam: foreign }],
    };
    await eachRow(t, Object.entries(arrangements), async ([, arrange]) => {
      using hosts = TestHosts.create();
      const before = takeStock(hosts);
      const pidFile = `${hosts.directory}/pid`,
        made = `${hosts.directory}/made`;
      addScript(
        hosts.directory,
        "foreign",
        `[ "$CNI_COMMAND" = ADD ] || { rm -f '${made}'; exit; }
          echo $$ > '${pidFile}.new'; mv '${pidFile}.new' '${pidFile}'
          sleep 1; touch '${made}'`,
      );
      const chain = chainOf(arrange(hosts));
      const runtime = new Runtime(hosts, [chain]);
      const adding = startAdd(hosts, chain);
      const pid = Number(await appearance(pidFile));
      adding.kill();
      await adding.output;
      await runtime.run("DEL");
      await eventually(
        "the remaining process ended",
        () => hasEnded(pid),
      );
      assertEquals(ifPossible(() => Deno.statSync(made)), undefined);
      assertEquals(takeStock(hosts), before);
    });
  },
  needsBin,
);

/** Starts ADD of a chain that is to be killed. */
function startAdd(
  hosts: TestHosts,
  chain: PluginObject,
): ReturnType<typeof spawnIn> {
  return spawnIn(hosts.host, {
    path: `${BIN}/chain`,
    env: {
      ...hosts.environment("ADD"),
      PATH: "/usr/bin:/bin",
      CNI_PATH: `${BIN}:${hosts.directory}`,
    },
    stdin: JSON.stringify(requestOf(chain)),
  });
}

/** Waits for a file, and returns what is in it. */
async function appearance(path: string): Promise<string> {
  const read = (): string | undefined =>
    ifPossible(() => Deno.readTextFileSync(path));
  await eventually(`${path} appeared`, () => read() !== undefined);
  return read() ?? "";
}

/** Runs ADD of a chain under strace, and returns the system calls. */
function trace(
  hosts: TestHosts,
  calls: string,
  env: Record<string, string> = {},
): string[] {
  const log = `${hosts.directory}/trace`;
  const strace = `exec strace -f -qq -e trace=${calls} -o '${log}'`;
  addScript(hosts.directory, "traced", `${strace} '${BIN}/chain'`);
  const request = requestOf(chainOf(podPlugins(hosts)), {
    capabilityArgs: OFFER,
  });
  const added = hosts.exec(`${hosts.directory}/traced`, "ADD", request, {
    env: { CNI_PATH: BIN, ...env },
  });
  assertEquals(added.exitCode, 0, added.stdout + added.stderr);
  return Deno.readTextFileSync(log).split("\n");
}

inNamespaces(
  "a chain of this project's plugins runs in one process",
  async (t) => {
    const rows: [name: string, env: Record<string, string>, count: number][] = [
      ["by itself", {}, 1],
      ["if it is told so", { CNI_NO_INPROCESS: "1" }, 5],
    ];
    await eachRow(t, rows, ([, env, count]) => {
      using hosts = TestHosts.create();
      const started = trace(hosts, "execve", env)
        .filter((line) => line.endsWith("= 0"));
      assertEquals(started.length, count, started.join("\n"));
    });
  },
  needsBin,
  needsStrace,
  // Elsewhere the masquerade needs a program: the legacy iptables.
  needsInetRules,
);

inNamespaces(
  "a chain writes no cache",
  () => {
    using hosts = TestHosts.create();
    const calls = trace(hosts, "%file");
    assert(calls.some((call) => call.includes("/leases/")), "no trace");
    const cached = calls.filter((call) =>
      call.includes("/var/lib/cni") || call.includes("/var/cache")
    );
    assertEquals(cached, []);
  },
  needsBin,
  needsStrace,
);

/** System calls after which something has changed: netlink, files, and records. */
const CHANGES = "sendto,linkat,rename,unlink,write";
/** How many of them are skipped between two kills; none in a stress test. */
const STRIDE = Deno.env.get("CNI_STRESS") ? 1 : 9;

inNamespaces(
  "DEL leaves nothing after a chain was killed at any change",
  async (t) => {
    await eachRow(t, ["ADD", "DEL"], async (command) => {
      for (let at = 1; at < 1000; at += STRIDE) {
        using hosts = TestHosts.create();
        const before = takeStock(hosts);
        addScript(hosts.directory, "foreign", HAND_ON);
        const chain = chainOf(
          podPlugins(hosts).toSpliced(1, 0, { type: "foreign" }),
        );
        const runtime = new Runtime(hosts, [chain]);
        if (command === "DEL") assertEquals(await runtime.add(), undefined);
        const kill = `-e inject=${CHANGES}:signal=SIGKILL:when=${at}`;
        addScript(
          hosts.directory,
          "killed",
          `exec strace -qq -e trace=${CHANGES} ${kill} -o /dev/null '${BIN}/chain'`,
        );
        const prevResult = runtime.result;
        const { exitCode } = hosts.exec(
          `${hosts.directory}/killed`,
          command,
          requestOf(chain, { prevResult, capabilityArgs: OFFER }),
          { env: { CNI_PATH: `${BIN}:${hosts.directory}` } },
        );
        // It had that many changes, and no more.
        if (exitCode === 0) {
          assert(at > 9, `${at} changes`);
          await runtime.run("DEL");
          return;
        }
        await runtime.run("DEL");
        assertEquals(takeStock(hosts), before, `${command}, change ${at}`);
      }
    });
  },
  needsBin,
  needsStrace,
);
