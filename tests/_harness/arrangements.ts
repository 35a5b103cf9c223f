/**
 * The same plugins as a list, and as chains in all ways, so that the one can be
 * compared with the others.
 *
 * ```ts ignore
 * const endings = await playAll({ deed: (runtime, list, conf) =>
 *   runtime.addNetworkList(list, conf) });
 * for (const { recorded } of endings) assertEquals(recorded, endings[0].recorded);
 * ```
 *
 * @module
 */

import { makeChain } from "../../cli/chain_form.ts";
import { describeError, toCniError } from "../../cni/error.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import type { JsonObject, JsonValue } from "../../cni/json/json.ts";
import type { NetworkRuntime } from "../../cni/libcni/api.ts";
import {
  decodePluginConfs,
  type NetworkConfList,
  parseNetworkConfList,
} from "../../cni/libcni/conf.ts";
import type { RuntimeConf } from "../../cni/libcni/runtime_conf.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import {
  type Answers,
  type PluginCall,
  RecordingPlugins,
} from "./recording_plugins.ts";

/** A plugin's configuration. */
export type PluginObject = Readonly<Record<string, unknown>>;

/** A network, the results of its plugins, and the operations of a runtime. */
export interface Scene {
  /** Scripts of the plugins by type; by default `a`, `b` and `c`, which succeed. */
  readonly answers?: Readonly<Record<string, Answers>>;
  /** The plugins, if they are not one of each type. */
  readonly plugins?: readonly PluginObject[];
  /** Keys of the list. */
  readonly keys?: PluginObject;
  /** The initial content of the cache. */
  readonly cached?: string;
  readonly conf?: Partial<RuntimeConf>;
  /** The operations of the runtime. */
  readonly deed: (
    runtime: NetworkRuntime,
    list: NetworkConfList,
    conf: RuntimeConf,
  ) => Promise<unknown>;
}

/** The outcome of a scene. */
export interface Ending {
  /** How the plugins were arranged. */
  readonly arrangement: string;
  /** The input of the plugins, in order. */
  readonly calls: readonly PluginCall[];
  /** The same input as recorded, byte for byte. */
  readonly recorded: string;
  /** The runtime's result; for an error, its message. */
  readonly answer: unknown;
  /** Code of the error; 0 for none. */
  readonly code: number;
  /** The cached result at the end. */
  readonly kept: JsonObject | undefined;
}

/** Plugins in a row, and in chains. The first is what the others are compared with. */
const ARRANGEMENTS: Readonly<
  Record<string, (plugins: readonly PluginObject[]) => readonly PluginObject[]>
> = {
  "a list": (plugins) => plugins,
  "a chain": chain,
  "a chain behind the first": ([first = {}, ...others]) => [
    first,
    ...chain(others),
  ],
  "a chain in a chain": ([first = {}, ...others]) =>
    chain([first, ...chain(others)]),
};

/** Puts plugins into a chain, as `cni convert` does with those of ours. */
function chain(plugins: readonly PluginObject[]): readonly PluginObject[] {
  if (plugins.length === 0) return [];
  const links = decodePluginConfs(plugins as readonly JsonValue[]);
  return [makeChain(links).document];
}

/** Plays a scene in all arrangements, a list first. */
export async function playAll(scene: Scene): Promise<Ending[]> {
  const endings: Ending[] = [];
  for (const arrangement of Object.keys(ARRANGEMENTS)) {
    endings.push(await play(scene, arrangement));
  }
  return endings;
}

async function play(scene: Scene, arrangement: string): Promise<Ending> {
  using host = new RecordingPlugins();
  const { answers = { a: {}, b: {}, c: {} }, deed } = scene;
  for (const [type, answer] of Object.entries(answers)) host.add(type, answer);
  host.directory.addOwnExecutable("chain");
  const { plugins = Object.keys(answers).map((type) => ({ type })) } = scene;
  const arranged = ARRANGEMENTS[arrangement]?.(plugins);
  const document = { name: "net1", cniVersion: "1.1.0", ...scene.keys };
  const list = parseNetworkConfList(encode({ ...document, plugins: arranged }));
  const invoker = createInvoker(
    (plugin, input) => TestHosts.dispatch(plugin, input),
    findPlugin,
  );
  const runtime = host.runtime({ invoker });
  const conf = host.conf(scene.conf);
  if (scene.cached !== undefined) fillCache(host, scene.cached);
  const told = await tell(() => deed(runtime, list, conf));
  const { calls, directory, cacheDir } = host;
  const log = readIfThere(`${directory.path}/calls`);
  const file = readIfThere(`${cacheDir}/results/net1-c1-eth0`);
  return {
    ...told,
    arrangement,
    calls,
    // Every host has its own directory.
    recorded: log.replaceAll(directory.path, "@path"),
    kept: file.startsWith("{") ? JSON.parse(file).result : undefined,
  };
}

function encode(document: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(document));
}

/** Writes the attachment's file in the format of libcni before 0.8, or junk. */
function fillCache({ cacheDir }: RecordingPlugins, content: string): void {
  Deno.mkdirSync(`${cacheDir}/results`, { recursive: true });
  Deno.writeTextFileSync(`${cacheDir}/results/net1-c1-eth0`, content);
}

function readIfThere(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/** The prefix that a chain adds to the error of its plugin. */
const CHAINS =
  /(plugin type="chain" failed \((add|delete)\): |failed to GC plugin chain: )+/g;

async function tell(
  deed: () => Promise<unknown>,
): Promise<Pick<Ending, "answer" | "code">> {
  try {
    return { answer: await deed(), code: 0 };
  } catch (error) {
    const text = describeError(error).replaceAll(CHAINS, "")
      .replaceAll(/\/\w+\/cni-test-\w+/g, "@path")
      .replaceAll(/after \d+ ms/g, "after a time");
    return { answer: text, code: toCniError(error).code };
  }
}
