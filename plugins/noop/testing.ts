/**
 * noop, the plugin that records its calls and returns specified results, for tests of
 * code that calls plugins.
 *
 * ```ts ignore
 * using directory = new PluginDirectory();
 * installNoop(directory.path);
 * const debug = `${directory.path}/debug`;
 * writeDebug(debug, { ReportResult: '{"cniVersion":"1.1.0"}' });
 * // ... run a list whose plugin is { type: "noop", debugFile: debug }
 * assertEquals(readDebug(debug)?.Command, "ADD");
 * ```
 *
 * For a plugin that takes too long, use `SleepSeconds`, or `directory.add("sleep",
 * "exec sleep 60")`.
 *
 * @module
 */

import { assertRejects, assertStringIncludes } from "@std/assert";
import type { AttachmentId } from "../../cni/config/types.ts";
import { describeError } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { NetworkRuntime } from "../../libcni/api.ts";
import type { AttachmentResult } from "../../libcni/cache.ts";
import type { RuntimeConf } from "../../libcni/operation.ts";
import {
  type NetworkConf,
  type NetworkConfList,
  parseNetworkConf,
  parseNetworkConfList,
} from "../../libcni/conf.ts";
import { OFFLINE_FLAGS } from "../../scripts/import_flags.ts";
import type { Row } from "../../tests/_harness/conformance.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import type { RecordedArgs, RecordedCall, Script } from "./debug_file.ts";

/** The content of a debug file, which controls noop. */
export type Debug = Script;

/** A call of noop, with its stdin as text. */
export interface NoopCall {
  readonly Command: string;
  readonly CmdArgs: RecordedArgs;
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  readonly stdin: any;
}

/**
 * Installs noop: the compiled executable if `CNI_BIN` is set, otherwise a script that
 * runs our sources with this deno, which takes a second to prepare.
 *
 * @param directory A directory of CNI_PATH
 * @param name The type of the plugin that it replaces
 * @returns The executable's path
 */
export function installNoop(directory: string, name = "noop"): string {
  const path = `${directory}/${name}`;
  const bin = Deno.env.get("CNI_BIN");
  if (bin && name === "noop") Deno.symlinkSync(`${bin}/cni`, path);
  else {
    // With a different name, the compiled executable would be a different plugin.
    const program = bin ? [linkNoop(bin)] : interpretedNoop();
    const command = program.map((word) => `'${word}'`).join(" ");
    Deno.writeTextFileSync(path, `#!/bin/sh\nexec ${command}\n`, {
      mode: 0o755,
    });
  }
  return path;
}

let link: string | undefined;

/** Links to the compiled executable as noop, until the process ends. */
function linkNoop(bin: string): string {
  if (link !== undefined) return link;
  const directory = Deno.makeTempDirSync({ prefix: "cni-noop-" });
  addEventListener("unload", () => {
    Deno.removeSync(directory, { recursive: true });
  });
  Deno.symlinkSync(`${bin}/cni`, `${directory}/noop`);
  return link = `${directory}/noop`;
}

let bundle: string | undefined;

/** Returns the command that runs noop with this deno. It needs no environment. */
function interpretedNoop(): string[] {
  bundle ??= bundleNoop();
  return [Deno.execPath(), "run", "-A", "--no-config", bundle];
}

/** Creates the script of noop once per process, which removes it on exit. */
function bundleNoop(): string {
  const directory = Deno.makeTempDirSync({ prefix: "cni-noop-" });
  addEventListener("unload", () => {
    Deno.removeSync(directory, { recursive: true });
  });
  const path = `${directory}/noop.js`;
  const { success, stderr } = new Deno.Command(Deno.execPath(), {
    // The stand-ins are always available and sufficient, so no server is contacted.
    args: ["bundle", "--quiet", ...OFFLINE_FLAGS, `--output=${path}`]
      .concat("plugins/noop/main.ts"),
    cwd: decodeURIComponent(new URL("../..", import.meta.url).pathname),
    stdout: "null",
  }).outputSync();
  if (success) return path;
  throw new Error(`Cannot bundle noop: ${new TextDecoder().decode(stderr)}`);
}

/** Writes the debug file that controls noop. */
export function writeDebug(path: string, debug: Debug = {}): void {
  Deno.writeTextFileSync(path, JSON.stringify(debug));
}

/** Reads the last call from a debug file; undefined if noop was not called. */
export function readDebug(path: string): NoopCall | undefined {
  const { Command, CmdArgs } = JSON.parse(Deno.readTextFileSync(path));
  return Command ? readCall({ Command, CmdArgs }) : undefined;
}

/** Creates an empty command log. */
export function writeCommandLog(path: string): void {
  Deno.writeTextFileSync(path, "");
}

/** Reads all calls from a command log, in order. */
export function readCommandLog(path: string): NoopCall[] {
  const text = Deno.readTextFileSync(path);
  const calls: RecordedCall[] = text === "" ? [] : JSON.parse(text);
  return calls.map(readCall);
}

function readCall({ Command, CmdArgs }: RecordedCall): NoopCall {
  const stdin = Uint8Array.fromBase64(CmdArgs.StdinData);
  return {
    Command,
    CmdArgs,
    stdin: JSON.parse(new TextDecoder().decode(stdin)),
  };
}

/** Keys of a configuration. */
export type Keys = Readonly<Record<string, unknown>>;

/** A network in the form of a single plugin or a list. */
export type Network = NetworkConf | NetworkConfList;

/** The name of the network, whatever its form. */
export const NETWORK = "apitest";

/** A result that can be read as any version since 0.3.0. */
export const RESULT: JsonObject = {
  cniVersion: "1.0.0",
  ips: [{ gateway: "10.1.2.1", address: "10.1.2.3/24" }],
};

/** noop in a directory, a cache, and a runtime for both. */
export class NoopNetwork implements Disposable {
  readonly directory: PluginDirectory = new PluginDirectory();
  readonly cacheDir: string = `${this.directory.path}/cache`;
  readonly commandLog: string = `${this.directory.path}/commands`;
  readonly runtime: NetworkRuntime = new NetworkRuntime({
    pluginDirs: [this.directory.path],
    env: { PATH: Deno.env.get("PATH") ?? "" },
    cacheDir: this.cacheDir,
    onStderr: () => {},
  });

  constructor() {
    installNoop(this.directory.path);
    writeCommandLog(this.commandLog);
  }

  /** Path of a plugin's debug file. */
  debugFile(plugin = 0): string {
    return `${this.directory.path}/debug${plugin}`;
  }

  /** Changes the debug file of a plugin. */
  tell(debug: Debug, plugin = 0): void {
    writeDebug(this.debugFile(plugin), debug);
  }

  /** The last call of a plugin, if there was any. */
  call(plugin = 0): NoopCall | undefined {
    return readDebug(this.debugFile(plugin));
  }

  /** All commands of all plugins, in order. */
  get commands(): string[] {
    return readCommandLog(this.commandLog).map(({ Command }) => Command);
  }

  /** Builds a network of a single plugin with the debug file `debug`. */
  single(debug: Debug = {}, keys: Keys = {}): NetworkConf {
    return parseNetworkConf(encodeText({
      name: NETWORK,
      cniVersion: "1.0.0",
      ...this.plugin(debug),
      capabilities: {
        portMappings: true,
        somethingElse: true,
        noCapability: false,
      },
      ...keys,
    }));
  }

  /** Builds a network of several plugins with the debug files `debugs`. */
  list(debugs: readonly Debug[] = [{}], keys: Keys = {}): NetworkConfList {
    const plugins = debugs.map((debug, index) => this.plugin(debug, index));
    return this.listOf(plugins, keys);
  }

  /** Builds a network of the given plugins. */
  listOf(plugins: readonly Keys[], keys: Keys = {}): NetworkConfList {
    return parseNetworkConfList(encodeText({
      name: NETWORK,
      cniVersion: "1.1.0",
      ...keys,
      plugins,
    }));
  }

  /** Builds the configuration of a plugin, and creates its debug file. */
  plugin(debug: Debug = {}, index = 0): Keys {
    this.tell({ ReportResult: JSON.stringify(RESULT), ...debug }, index);
    const { commandLog } = this;
    return { type: "noop", debugFile: this.debugFile(index), commandLog };
  }

  /** Describes the attachment of the tests. */
  conf(keys: Partial<RuntimeConf> = {}): RuntimeConf {
    return {
      containerId: "some-container-id",
      netns: "/some/netns/path",
      ifName: "eno0",
      args: [["FOO", "BAR"]],
      capabilityArgs: PORTS,
      ...keys,
    };
  }

  /** Attaches; by default, with {@linkcode conf}. */
  add(network: Network, conf = this.conf()): Promise<AttachmentResult> {
    return "plugins" in network
      ? this.runtime.addNetworkList(network, conf)
      : this.runtime.addNetwork(network, conf);
  }

  /** Checks the attachment. */
  check(network: Network, conf = this.conf()): Promise<void> {
    return "plugins" in network
      ? this.runtime.checkNetworkList(network, conf)
      : this.runtime.checkNetwork(network, conf);
  }

  /** Detaches. */
  del(network: Network, conf = this.conf()): Promise<void> {
    return "plugins" in network
      ? this.runtime.delNetworkList(network, conf)
      : this.runtime.delNetwork(network, conf);
  }

  /** Runs GC; without a list of valid attachments if undefined. */
  gc(network: NetworkConfList, valid?: AttachmentId[]): Promise<void> {
    const options = valid === undefined ? {} : { validAttachments: valid };
    return this.runtime.gcNetworkList(network, options);
  }

  /** Runs STATUS. */
  status(network: NetworkConfList): Promise<void> {
    return this.runtime.statusNetworkList(network);
  }

  /** Reads the result in the cache. */
  cachedResult(network: Network, conf = this.conf()): JsonObject | undefined {
    return this.runtime.findCachedResult(network, conf)?.document;
  }

  /** Path of the attachment's file in the cache. */
  get cacheFile(): string {
    return `${this.cacheDir}/results/${NETWORK}-some-container-id-eno0`;
  }

  /**
   * Writes the attachment's file, in the old format of a cache that contained only
   * results.
   */
  writeCacheFile(content: unknown): void {
    Deno.mkdirSync(`${this.cacheDir}/results`, { recursive: true });
    const isText = typeof content === "string";
    const text = isText ? content : JSON.stringify(content);
    Deno.writeTextFileSync(this.cacheFile, text);
  }

  /** Reports whether the attachment has a file in the cache. */
  get isCached(): boolean {
    try {
      return Deno.statSync(this.cacheFile).isFile;
    } catch {
      return false;
    }
  }

  /** Names of all files in the cache, in order. */
  get cachedNames(): string[] {
    return [...Deno.readDirSync(`${this.cacheDir}/results`)]
      .map(({ name }) => name).sort();
  }

  /** Creates a cache that cannot be written. */
  spoilCache(): void {
    Deno.mkdirSync(this.cacheDir, { recursive: true });
    Deno.writeTextFileSync(`${this.cacheDir}/results`, "");
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.directory[Symbol.dispose]();
  }
}

/** The capability arguments of the runtime; no plugin declares `otherStuff`. */
export const PORTS = {
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
  somethingElse: ["foobar", "baz"],
  noCapability: true,
  otherStuff: [1],
};

/** The capability arguments that plugins receive. */
export const RUNTIME_CONFIG = {
  portMappings: PORTS.portMappings,
  somethingElse: PORTS.somethingElse,
};

function encodeText(document: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(document));
}

/** Builds a row from a test, which gets a separate runtime. */
export function row(test: (noop: NoopNetwork) => Promise<void> | void): Row {
  return async () => {
    using noop = new NoopNetwork();
    await test(noop);
  };
}

/** Awaits a failure, and asserts that the message for users contains a text. */
export async function assertFails(
  operation: Promise<unknown>,
  text: string,
): Promise<void> {
  assertStringIncludes(await failureOf(operation), text);
}

/** Awaits a failure, and returns the message for users. */
export async function failureOf(operation: Promise<unknown>): Promise<string> {
  return describeError(await assertRejects(() => operation));
}
