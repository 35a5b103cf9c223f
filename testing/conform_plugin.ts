/**
 * Requirements on every plugin, as tests that call it in this process.
 *
 * @module
 */

import { AssertionError } from "@std/assert";
import type { Plugin } from "../cni/plugin.ts";
import type { NetConf } from "../cni/config/types.ts";
import { inNetns, type NetNs, unbindNetNs } from "../ffi/netns.ts";
import { rootTest } from "./capabilities.ts";
import type { Kind } from "./conform/scene.ts";
import { InProcessWay } from "./conform/in_process_way.ts";
import { acceptAddresses, type Place, type Sandbox } from "./conform/place.ts";
import { REQUIREMENTS } from "./conform/rows/all.ts";
import { isAbout, testRequirement } from "./conform/run.ts";
import {
  type Attachment,
  type Json,
  type Known,
  Scene,
  type Subject,
} from "./conform/scene.ts";
import { Untried } from "./conform/verdict.ts";
import { TestHosts } from "./test_hosts.ts";

/** A plugin's configuration, without `cniVersion`, `name` and `prevResult`. */
export type PluginKeys = Readonly<Record<string, unknown>>;

/** Options of the tests of a plugin. */
export interface ConformOptions {
  /** Creates what ADD expects, such as a link of the host. */
  readonly prepare?: (hosts: TestHosts) => void | Promise<void>;
  /**
   * Returns what the plugin changes apart from links, addresses, routes, rules,
   * qdiscs, firewall rules, sysctls and files in `hosts.directory`, for
   * comparison.
   */
  readonly state?: (hosts: TestHosts) => unknown;
  /** Steps that may fail without failing ADD, such as `/^RTM_GETLINK/`. */
  readonly optional?: RegExp;
  /** Names of requirements that do not apply, each with the reason. */
  readonly except?: Readonly<Record<string, string>>;
  /** The interface's name; `eth0` if undefined. */
  readonly ifName?: string;
  /** Keys of a configuration without room for a second container. */
  readonly full?: (hosts: TestHosts) => PluginKeys;
  /** Lines of the state that may stay or change, such as `/^sysctl /`. */
  readonly keeps?: RegExp;
}

/** Requirements that plugins of this project do not keep, with the reason. */
export const EXCEPT: Readonly<Record<string, string>> = {
  "ipam-add-fails": "an IPAM plugin whose ADD fails leaves nothing, and DEL " +
    "would release the lease of an earlier attachment",
};

/**
 * Registers a test with a step for each requirement on plugins, in temporary
 * namespaces: the requirements that `cni conform` tests on executables.
 *
 * ```ts ignore
 * conformPlugin(neighbors, (hosts) => [
 *   { type: "ptp", ipam: hosts.hostLocal("10.1.2.0/24") },
 *   { type: "neighbors", neighbors: [{ ip: "10.1.2.200", mac: "02:00:5e:10:00:01" }] },
 * ]);
 * ```
 *
 * @param list Returns the configurations of a list whose last plugin is the one to
 *   test. The plugins before it are this project's. An IPAM plugin is tested with
 *   the configuration of the plugin that would call it.
 */
export function conformPlugin<Config extends NetConf>(
  plugin: Plugin<Config>,
  list: (hosts: TestHosts) => readonly PluginKeys[],
  options: ConformOptions = {},
): void {
  rootTest(
    `${plugin.name} does what the specification requires`,
    (t) => tryPlugin(t, plugin, list, options),
  );
}

/** Tries each requirement on a plugin, as a step. */
export async function tryPlugin<Config extends NetConf>(
  t: Deno.TestContext,
  plugin: Plugin<Config>,
  list: (hosts: TestHosts) => readonly PluginKeys[],
  options: ConformOptions = {},
): Promise<void> {
  const known: Known = new Map();
  const create = (): Scene => createScene(plugin, list, options, known);
  const first = create();
  const { kind } = first.subject;
  const ipam = first.subject.config()["ipam"];
  first.place[Symbol.dispose]();
  for (const row of REQUIREMENTS) {
    const usesIpam = kind === "interface" && ipam !== undefined;
    const { versions } = plugin;
    if (!isAbout(row, { kind, usesIpam, versions })) continue;
    const { outcome, why = "", shows = [] } = await testRequirement(
      row,
      create,
    );
    const name = `${row.id}: ${row.title}`;
    if (outcome === "untried") {
      await t.step({
        name: `${name} (skipped: ${why})`,
        ignore: true,
        fn(): void {},
      });
      continue;
    }
    await t.step(name, () => {
      if (outcome === "kept") return;
      throw new AssertionError(`${why}\n${shows.join("\n")}`);
    });
  }
}

/**
 * Makes a node for one requirement.
 *
 * @param known What requirements on the plugin have found out
 */
export function createScene<Config extends NetConf>(
  plugin: Plugin<Config>,
  list: (hosts: TestHosts) => readonly PluginKeys[],
  options: ConformOptions,
  known: Known,
): Scene {
  const hosts = TestHosts.create();
  const configs = list(hosts);
  return new Scene({
    subject: subjectOf(plugin, hosts, configs, options),
    place: hostsAsPlace(hosts, options),
    way: new InProcessWay(plugin, hosts, options.optional),
    versions: plugin.versions,
    executable: plugin.name,
    known,
  });
}

/** Takes a test's host for a place. */
export function hostsAsPlace(
  hosts: TestHosts,
  { state }: ConformOptions,
): Place {
  const { host, sandbox, path, directory } = hosts;
  const stack = new DisposableStack();
  stack.use(hosts);
  for (const netns of [host, sandbox]) inNetns(netns, acceptAddresses);
  return {
    host,
    hostPath: host.path,
    path,
    directory,
    inside: (work) => work(),
    addSandbox: (name) => {
      const sandbox = addSandbox(hosts, name);
      stack.defer(() => sandbox.remove());
      return sandbox;
    },
    files: () => listFiles(directory),
    more: () => state === undefined ? [] : [JSON.stringify(state(hosts))],
    [Symbol.dispose]: () => stack.dispose(),
  };
}

/**
 * Adds a namespace with a path of its own: the path of a descriptor can lead
 * somewhere else once it is closed.
 */
function addSandbox(hosts: TestHosts, name: string): Sandbox {
  const netns = hosts.addNetns();
  inNetns(netns, acceptAddresses);
  const path = `${hosts.directory}/${NAMESPACES}/${name}`;
  Deno.mkdirSync(`${hosts.directory}/${NAMESPACES}`, { recursive: true });
  Deno.writeTextFileSync(path, "");
  netns.bindTo(path);
  let isThere = true;
  const remove = (): void => {
    if (!isThere) return;
    isThere = false;
    unbindNetNs(path);
    Deno.removeSync(path);
    netns[Symbol.dispose]();
  };
  return { netns, path, remove };
}

/** The directory of namespaces in a test's host directory. */
const NAMESPACES = "netns";

function subjectOf<Config extends NetConf>(
  plugin: Plugin<Config>,
  hosts: TestHosts,
  configs: readonly PluginKeys[],
  { prepare, except, ifName, full, keeps }: ConformOptions,
): Subject {
  const own: Json = configs.at(-1) ?? {}, before = configs.slice(0, -1);
  const kind: Kind = own["ipam"]?.type === plugin.name
    ? "ipam"
    : before.length > 0
    ? "chained"
    : "interface";
  return {
    type: plugin.name,
    kind,
    except: { ...EXCEPT, ...except },
    ifName,
    keeps,
    full: full?.(hosts),
    config: () => own,
    prepare: async () => await prepare?.(hosts),
    ...before.length > 0 && {
      before: (scene, one) =>
        runAll(hosts, before, "ADD", { scene, one, netns: one.sandbox.netns }),
      after: async (scene, one) => {
        const netns = one.sandbox.netns;
        await runAll(hosts, before.toReversed(), "DEL", { scene, one, netns });
      },
    },
  };
}

/** Runs the plugins before the tested one. */
async function runAll(
  hosts: TestHosts,
  configs: readonly PluginKeys[],
  command: "ADD" | "DEL",
  { scene, one, netns }: {
    readonly scene: Scene;
    readonly one: Attachment;
    readonly netns: NetNs;
  },
): Promise<Json | undefined> {
  let prevResult: Json | undefined;
  for (const keys of configs) {
    const config = {
      cniVersion: scene.version,
      name: "net1",
      ...keys,
      ...prevResult && { prevResult },
    };
    const { json, exitCode, stdout } = await hosts.run(
      String(keys["type"]),
      command,
      config,
      { sandbox: netns, containerId: one.containerId, ifName: one.ifName },
    );
    if (exitCode !== 0) throw new Untried(`${keys["type"]}: ${stdout}`);
    if (command === "ADD") prevResult = json;
  }
  return prevResult;
}

function listFiles(directory: string): string[] {
  return [...Deno.readDirSync(directory)].flatMap(({ name, isDirectory }) =>
    isDirectory
      ? name === "bin" || name === NAMESPACES
        ? []
        : listFiles(`${directory}/${name}`)
      : [`${directory}/${name}`]
  ).sort();
}
