/**
 * Tests that hold for every plugin.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Plugin } from "../cni/plugin.ts";
import type { NetConf } from "../cni/types.ts";
import { COMMAND_SINCE, isAtLeast } from "../cni/version.ts";
import { inNetns, NetNs } from "../ffi/netns.ts";
import { NeighborRequests } from "../ffi/rtnl/neighbor.ts";
import { Rtnl } from "../ffi/rtnl/mod.ts";
import { QdiscRequests } from "../ffi/rtnl/traffic_control_qdisc.ts";
import { writeSysctl } from "../ffi/sysctl.ts";
import { rootTest } from "./capabilities.ts";
import { FaultInjector } from "./fault_injector.ts";
import { type Snapshot, snapshot } from "./ip_json.ts";
import { type CallOutput, TestHosts } from "./test_hosts.ts";

/** A plugin's configuration, without `cniVersion`, `name` and `prevResult`. */
export type PluginKeys = Readonly<Record<string, unknown>>;

/** What the tests of a plugin need. */
export interface ConformOptions {
  /** Creates what ADD expects, such as a link of the host. */
  readonly prepare?: (hosts: TestHosts) => void | Promise<void>;
  /**
   * Returns what the plugin changes apart from links, addresses, routes, rules,
   * qdiscs and files in `hosts.folder`, for comparison.
   */
  readonly state?: (hosts: TestHosts) => unknown;
  /** Steps that may fail without failing ADD, such as `/^RTM_GETLINK/`. */
  readonly optional?: RegExp;
}

/**
 * Registers the tests that every plugin should pass, in throw-away namespaces:
 * ADD, CHECK and DEL in all its versions, ADD twice, DEL twice, without ADD and
 * without a namespace, ADD that fails at each of its steps, GC and STATUS.
 *
 * ```ts ignore
 * conformPlugin(neighbors, (hosts) => [
 *   { type: "ptp", ipam: hosts.hostLocal("10.1.2.0/24") },
 *   { type: "neighbors", neighbors: [{ ip: "10.1.2.200", mac: "02:00:5e:10:00:01" }] },
 * ]);
 * ```
 *
 * @param list Returns the configurations of a list whose last plugin is the one
 *   to test. Those before it are this project's. An IPAM plugin is tested with
 *   the configuration of the plugin that would call it.
 */
export function conformPlugin<Config extends NetConf>(
  plugin: Plugin<Config>,
  list: (hosts: TestHosts) => readonly PluginKeys[],
  options: ConformOptions = {},
): void {
  const test = (
    name: string,
    body: (scene: Scene<Config>, t: Deno.TestContext) => Promise<void>,
  ): void =>
    rootTest(`${plugin.name} conforms: ${name}`, async (t) => {
      using scene = new Scene(plugin, list, options);
      await scene.prepare();
      await body(scene, t);
    });
  test("ADD, CHECK and DEL in every version", addCheckDel);
  test("a second ADD changes nothing, or fails", addTwice);
  test("DEL succeeds if there is nothing to delete", delNothing);
  test("DEL succeeds after the namespace is gone", delLate);
  test("ADD leaves nothing behind if a step fails", addWithFaults);
  test("GC keeps valid attachments, and STATUS succeeds", collectGarbage);
}

/** A host, and the list of plugins on it. */
class Scene<Config extends NetConf> implements Disposable {
  readonly hosts = TestHosts.create();
  readonly plugin: Plugin<Config>;
  readonly optional: RegExp | undefined;
  readonly #list: readonly PluginKeys[];
  readonly #options: ConformOptions;
  version: string;
  #prevResult: unknown;

  constructor(
    plugin: Plugin<Config>,
    list: (hosts: TestHosts) => readonly PluginKeys[],
    options: ConformOptions,
  ) {
    this.plugin = plugin;
    this.#list = list(this.hosts);
    this.#options = options;
    this.optional = options.optional;
    this.version = plugin.versions.at(-1) ?? "";
    // Otherwise link-local addresses take a second to settle.
    for (const netns of [this.hosts.host, this.hosts.sandbox]) {
      inNetns(netns, () => {
        writeSysctl("net/ipv6/conf/default/accept_dad", "0");
        writeSysctl("net/ipv6/conf/all/accept_dad", "0");
      });
    }
  }

  async prepare(): Promise<void> {
    await this.#options.prepare?.(this.hosts);
  }

  /** Runs the plugins before the tested one. */
  async runBefore(command: "ADD" | "DEL", netns?: NetNs): Promise<void> {
    if (command === "ADD") this.#prevResult = undefined;
    const before = this.#list.slice(0, -1);
    const ordered = command === "ADD" ? before : before.toReversed();
    for (const keys of ordered) {
      const config = this.#configOf(keys);
      const called = String(keys["type"]);
      const sandbox = netns === undefined ? {} : { sandbox: netns };
      const { json, exitCode, stdout } = await this.hosts
        .run(called, command, config, sandbox);
      assertEquals(exitCode, 0, stdout);
      if (command === "ADD") this.#prevResult = json;
    }
  }

  /** Runs the tested plugin. */
  async run(
    command: string,
    more: PluginKeys = {},
    env: Readonly<Record<string, string>> = {},
  ): Promise<CallOutput> {
    const config = { ...this.#configOf(this.#list.at(-1) ?? {}), ...more };
    return await this.hosts.run(this.plugin, command, config, { env });
  }

  /** Runs the tested plugin, which must succeed. */
  async succeed(
    command: string,
    more: PluginKeys = {},
    env: Readonly<Record<string, string>> = {},
  ): Promise<CallOutput> {
    const output = await this.run(command, more, env);
    assertEquals(
      output.exitCode,
      0,
      `${command} ${this.version}: ${output.stdout}${output.stderr}`,
    );
    return output;
  }

  #configOf(keys: PluginKeys): PluginKeys {
    const prevResult = this.#prevResult;
    return {
      cniVersion: this.version,
      name: "net1",
      ...keys,
      ...prevResult !== undefined && { prevResult },
    };
  }

  /** The state of the host, and with it, of the sandbox. */
  state(isSandboxGone = false): unknown {
    const { hosts } = this;
    const namespaces = isSandboxGone
      ? [hosts.host]
      : [hosts.host, hosts.sandbox];
    return {
      namespaces: namespaces.map((netns) => ({
        ...withoutTransients(snapshot(netns)),
        ...listOthers(netns),
      })),
      files: listFiles(hosts.folder),
      more: this.#options.state?.(hosts),
    };
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

// deno-lint-ignore no-explicit-any -- as iproute2 prints it
type Printed = any;

/** Drops what the kernel changes by itself: carriers and link-local addresses. */
function withoutTransients({ links, routes, rules }: Printed): Snapshot {
  return {
    links: links.map(
      ({ operstate: _, flags, addr_info, ...link }: Printed) => ({
        ...link,
        isUp: flags.includes("UP"),
        addresses: addr_info.filter(({ scope }: Printed) => scope !== "link"),
      }),
    ),
    routes: routes.filter(({ dst }: Printed) =>
      !/^(fe80|ff00|multicast)/.test(dst)
    ),
    rules,
  };
}

/** Lists permanent neighbours and qdiscs. */
function listOthers(netns: NetNs): { neighbors: unknown; qdiscs: unknown } {
  using rtnl = Rtnl.open(netns.path);
  return {
    neighbors: new NeighborRequests(rtnl.socket).list()
      .filter(({ isPermanent }) => isPermanent),
    qdiscs: new QdiscRequests(rtnl.socket).list(),
  };
}

/** Lists files, without the ones that plugins keep between calls. */
function listFiles(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) =>
    isDirectory
      ? listFiles(`${folder}/${name}`)
      : /lock$|last_reserved_ip/.test(name)
      ? []
      : [`${folder}/${name}`]
  ).sort();
}

async function addCheckDel<C extends NetConf>(
  scene: Scene<C>,
  t: Deno.TestContext,
): Promise<void> {
  const before = scene.state();
  for (const version of scene.plugin.versions) {
    await t.step(version, async () => {
      scene.version = version;
      await scene.runBefore("ADD");
      try {
        await addCheckDelOnce(scene, version);
      } finally {
        await scene.runBefore("DEL");
      }
    });
  }
  assertEquals(scene.state(), before, "DEL leaves something");
}

async function addCheckDelOnce<C extends NetConf>(
  scene: Scene<C>,
  version: string,
): Promise<void> {
  const { json: prevResult } = await scene.succeed("ADD");
  assertEquals(prevResult?.cniVersion, version, "version of the result");
  if (isAtLeast(version, COMMAND_SINCE.CHECK)) {
    const { stdout } = await scene.succeed("CHECK", { prevResult });
    assertEquals(stdout, "", "CHECK prints");
  }
  const { stdout } = await scene.succeed("DEL", { prevResult });
  assertEquals(stdout, "", "DEL prints");
}

async function addTwice<C extends NetConf>(scene: Scene<C>): Promise<void> {
  await scene.runBefore("ADD");
  const before = scene.state();
  await scene.succeed("ADD");
  const added = scene.state();
  const { exitCode, json } = await scene.run("ADD");
  if (exitCode !== 0) assert(json?.msg, "a failure without a message");
  assertEquals(scene.state(), added, "the second ADD changed something");
  await scene.succeed("DEL");
  assertEquals(scene.state(), before, "DEL leaves something");
}

async function delNothing<C extends NetConf>(scene: Scene<C>): Promise<void> {
  await scene.runBefore("ADD");
  const before = scene.state();
  await scene.succeed("DEL");
  assertEquals(scene.state(), before, "DEL without ADD changed something");
  await scene.succeed("ADD");
  for (const _ of ["first", "again"]) {
    await scene.succeed("DEL");
    assertEquals(scene.state(), before, "DEL leaves something");
  }
  for (const CNI_NETNS of ["", "/run/netns/no-such-namespace"]) {
    await scene.succeed("DEL", {}, { CNI_NETNS });
  }
}

async function delLate<C extends NetConf>(scene: Scene<C>): Promise<void> {
  const before = scene.state(true);
  using stack = new DisposableStack();
  const netns = stack.use(NetNs.create());
  const env = { CNI_NETNS: netns.path };
  await scene.runBefore("ADD", netns);
  const { json: prevResult } = await scene.succeed("ADD", {}, env);
  // As if a runtime had lost it: the path leads nowhere.
  const gone = { CNI_NETNS: "/run/netns/no-such-namespace" };
  stack.dispose();
  await scene.succeed("DEL", { prevResult }, gone);
  await scene.runBefore("DEL");
  // The kernel removes the links of a namespace a little later.
  await eventually(() => assertEquals(scene.state(true), before));
}

/** Repeats an assertion until it holds, for at most 10 s. */
async function eventually(assertion: () => void): Promise<void> {
  const end = Date.now() + 10_000;
  for (;;) {
    try {
      return assertion();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** A number above the last step of any ADD. */
const MOST_STEPS = 500;

async function addWithFaults<C extends NetConf>(
  scene: Scene<C>,
  t: Deno.TestContext,
): Promise<void> {
  await scene.runBefore("ADD");
  const before = scene.state();
  let isEnd = false;
  for (let step = 1; !isEnd; step++) {
    assert(step < MOST_STEPS, "ADD does not end");
    using fault = new FaultInjector(step, "instead");
    const { exitCode, stdout, stderr } = await scene.run("ADD");
    fault[Symbol.dispose]();
    const failed = fault.steps[step - 1];
    if (failed === undefined) {
      isEnd = true;
      assertEquals(exitCode, 0, stdout);
      await scene.succeed("DEL");
      continue;
    }
    await t.step(`${step}: ${failed}`, async () => {
      if (exitCode === 0) {
        assert(scene.optional?.test(failed), `ADD does without "${failed}"`);
        await scene.succeed("DEL");
      } else {
        assertStringIncludes(stdout, "injected into");
        assert(!stderr.includes("level=error"), stderr);
      }
      assertEquals(scene.state(), before, "ADD leaves something");
    });
  }
  assertEquals(scene.state(), before, "DEL leaves something");
}

async function collectGarbage<C extends NetConf>(
  scene: Scene<C>,
): Promise<void> {
  if (!isAtLeast(scene.version, COMMAND_SINCE.GC)) return;
  await scene.succeed("STATUS");
  await scene.runBefore("ADD");
  const before = scene.state();
  const { json: prevResult } = await scene.succeed("ADD");
  const added = scene.state();
  const { CNI_CONTAINERID: containerID, CNI_IFNAME: ifname } = scene.hosts
    .environment("GC");
  const valid = [{ containerID, ifname }];
  await scene.succeed("GC", { "cni.dev/valid-attachments": valid });
  assertEquals(scene.state(), added, "GC removed a valid attachment");
  await scene.succeed("GC", { "cni.dev/valid-attachments": [] });
  await scene.succeed("DEL", { prevResult });
  assertEquals(scene.state(), before, "DEL after GC leaves something");
}
