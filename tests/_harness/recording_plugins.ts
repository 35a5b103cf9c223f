/**
 * A runtime with shell scripts as plugins, which record their calls.
 *
 * ```ts ignore
 * using host = new RecordingPlugins();
 * host.add("a", { ADD: `echo '{"cniVersion":"1.1.0"}'` });
 * await host.runtime().addNetworkList(host.list(["a"]), host.conf());
 * assertEquals(host.calls.map(({ command }) => command), ["ADD"]);
 * ```
 *
 * @module
 */

import type {
  NetworkRuntimeOptions,
  RuntimeConf,
} from "../../libcni/operation.ts";
import { NetworkRuntime } from "../../libcni/api.ts";
import {
  type NetworkConfList,
  parseNetworkConfList,
} from "../../libcni/conf.ts";
import { PluginDirectory } from "./plugin_directory.ts";

/** One call of a plugin. */
export interface PluginCall {
  readonly type: string;
  readonly command: string;
  readonly containerId: string;
  readonly netns: string;
  readonly ifName: string;
  readonly args: string;
  readonly path: string;
  /** The request. */
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  readonly stdin: any;
}

/** The script for a command, after the call is recorded. */
export type Answers = Readonly<Record<string, string>>;

/** Plugins, a cache and a log, all gone in the end. */
export class RecordingPlugins implements Disposable {
  /** Where the plugins are. */
  readonly directory: PluginDirectory = new PluginDirectory();
  /** Where attachments are remembered. */
  readonly cacheDir: string = `${this.directory.path}/cache`;
  /** All that was logged. */
  logged = "";

  /** Adds plugins that succeed, except for the given answers. */
  add(type: string, answers: Answers = {}): void {
    const cases = Object.entries({ ADD: "echo {}", ...answers })
      .map(([command, script]) => `${command}) ${script} ;;`);
    this.directory.add(
      type,
      `IFS= read -r stdin || :
      printf '{"type":"%s","command":"%s","containerId":"%s","netns":"%s","ifName":"%s","args":"%s","path":"%s","stdin":%s}\\n' \
        "\${0##*/}" "$CNI_COMMAND" "$CNI_CONTAINERID" "$CNI_NETNS" \
        "$CNI_IFNAME" "$CNI_ARGS" "$CNI_PATH" "\${stdin:-null}" >> "${this.#log}"
      case "$CNI_COMMAND" in
      ${cases.join("\n")}
      esac`,
    );
  }

  get #log(): string {
    return `${this.directory.path}/calls`;
  }

  /** All complete calls, in order. */
  get calls(): PluginCall[] {
    try {
      return Deno.readTextFileSync(this.#log).split("\n").slice(0, -1)
        .map((line) => JSON.parse(line));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  /** All calls in a few words, as `a ADD`. */
  get story(): string[] {
    return this.calls.map(({ type, command }) => `${type} ${command}`);
  }

  /** Creates a runtime with these plugins. */
  runtime(options: Partial<NetworkRuntimeOptions> = {}): NetworkRuntime {
    return new NetworkRuntime({
      pluginDirs: [this.directory.path],
      env: {
        PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin",
        // Never the log of the machine.
        CNI_LOG_FILE: "stderr",
      },
      cacheDir: this.cacheDir,
      onStderr: (text) => void (this.logged += text),
      ...options,
    });
  }

  /** Builds a network, by default `net1` of version 1.1.0. */
  list(
    types: readonly (string | Readonly<Record<string, unknown>>)[],
    keys: Readonly<Record<string, unknown>> = {},
  ): NetworkConfList {
    const plugins = types.map((type) =>
      typeof type === "string" ? { type } : type
    );
    const document = { name: "net1", cniVersion: "1.1.0", ...keys, plugins };
    return parseNetworkConfList(encodeText(document));
  }

  /** Describes an attachment: `eth0` of the container `c1`. */
  conf(keys: Partial<RuntimeConf> = {}): RuntimeConf {
    return {
      containerId: "c1",
      netns: "/run/netns/c1",
      ifName: "eth0",
      ...keys,
    };
  }

  /** Names of the files in the cache, in order. */
  get cached(): string[] {
    try {
      return [...Deno.readDirSync(`${this.cacheDir}/results`)]
        .map(({ name }) => name).sort();
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      if (error instanceof Deno.errors.NotADirectory) return [];
      throw error;
    }
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.directory[Symbol.dispose]();
  }
}

function encodeText(document: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(document));
}
