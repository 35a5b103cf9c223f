/**
 * A temporary host and its sandboxes: separate network namespaces, so that the
 * machine's own namespace does not change.
 *
 * ```ts ignore
 * using hosts = TestHosts.create();
 * const config = { name: "net1", type: "ptp", ipam: hosts.hostLocal("10.1.2.0/24") };
 * const { stdout } = await hosts.run("ptp", "ADD", config);
 * ```
 *
 * Disposing of it removes the namespaces and the directory, and fails the test if
 * a descriptor was left open: Deno's own check does not see descriptors of the FFI.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { Environment } from "../base/process/environment.ts";
import { createInvoker, type Dispatch } from "../cni/invoke/in_process.ts";
import type { DispatchOutput } from "../cni/call/context.ts";
import type { Plugin } from "../cni/plugin.ts";
import { dispatch } from "../cni/skel.ts";
import type { LinkDeletion } from "../cni/call/link_deletion.ts";
import type { NetConf } from "../cni/config/types.ts";
import { NetNs } from "../ffi/netns.ts";
import { Rtnl } from "../ffi/rtnl/mod.ts";
import { findPlugin, pluginNames } from "../plugins/registry.ts";
import { execIn } from "./exec_in.ts";

/** Optional input of a call of a plugin. */
export interface CallOptions {
  /** The first one if undefined. */
  readonly sandbox?: NetNs;
  /** `test-container` if undefined. */
  readonly containerId?: string;
  /** `eth0` if undefined. */
  readonly ifName?: string;
  /** Overrides and adds variables. */
  readonly env?: Environment;
  /** The temporary host if undefined. */
  readonly hostNetns?: string;
  /** For DEL in this process, as in a list or in the node daemon. */
  readonly linkDeletion?: LinkDeletion;
  /** When the call began; this process's start if undefined. */
  readonly startedAt?: Date;
  /** Aborts a call in this process. */
  readonly signal?: AbortSignal;
}

/** What a call printed and how it ended; the document decoded, if there is one. */
export interface CallOutput extends DispatchOutput {
  /** The document on stdout; undefined if empty. */
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  readonly json: any;
}

/** A host, its first sandbox, and a directory for leases and the like. */
export class TestHosts implements Disposable {
  /** Runs a plugin on an input. Tests can replace this function. */
  static dispatch: Dispatch = dispatch;
  /**
   * Creates the host's namespace, which the stack disposes of. Tests can replace
   * this function.
   */
  static createHost = (stack: DisposableStack): NetNs =>
    stack.use(NetNs.create());
  readonly #stack = new DisposableStack();
  /** Stands for the host's namespace. */
  readonly host: NetNs;
  /** The first container's namespace. */
  readonly sandbox: NetNs;
  /** An empty directory, removed on disposal. */
  readonly directory: string;
  /** Directory in which our plugins are found as this very executable. */
  readonly path: string;

  private constructor() {
    NetNs.create()[Symbol.dispose](); // opens what stays open for the thread
    const before = openDescriptors();
    // Descriptors that others close in between, such as idle connections, do
    // not count.
    this.#stack.defer(() =>
      assertEquals(listMore(openDescriptors(), before), [])
    );
    this.directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
    this.#stack.defer(() =>
      Deno.removeSync(this.directory, { recursive: true })
    );
    this.path = `${this.directory}/bin`;
    linkPlugins(this.path);
    this.host = raiseLoopback(TestHosts.createHost(this.#stack));
    this.sandbox = this.addNetns();
  }

  /** Creates a host with one sandbox. */
  static create(): TestHosts {
    return new TestHosts();
  }

  /** Creates one more namespace, with its loopback up. */
  addNetns(): NetNs {
    return raiseLoopback(this.#stack.use(NetNs.create()));
  }

  /** Returns an IPAM configuration whose leases are in this directory. */
  hostLocal(...subnets: string[]): {
    type: string;
    dataDir: string;
    ranges: { subnet: string }[][];
  } {
    const ranges = subnets.map((subnet) => [{ subnet }]);
    return { type: "host-local", dataDir: `${this.directory}/leases`, ranges };
  }

  /** Lists the addresses that are leased in this directory. */
  leases(network = "net1"): string[] {
    return listDirectory(`${this.directory}/leases/${network}`)
      .filter((name) => name !== "lock" && !name.startsWith("last_reserved_"))
      .sort();
  }

  /**
   * Runs a plugin in this process, on the temporary host.
   *
   * @param called A plugin, or the type of one of this project's
   */
  async run<Config extends NetConf>(
    called: string | Plugin<Config>,
    command: string,
    config: unknown,
    options: CallOptions = {},
  ): Promise<CallOutput> {
    const plugin = typeof called === "string"
      ? await findPlugin(called)
      : called;
    if (plugin === undefined) throw new Error(`No plugin is named "${called}"`);
    const output = await TestHosts.dispatch(plugin, {
      env: this.environment(command, options),
      stdin: () => new TextEncoder().encode(JSON.stringify(config)),
      invoker: createInvoker(dispatch, findPlugin),
      hostNetns: options.hostNetns ?? this.host.path,
      linkDeletion: options.linkDeletion,
      startedAt: options.startedAt,
      signal: options.signal,
    });
    return { ...output, json: parseJson(output.stdout) };
  }

  /**
   * Runs an executable on the temporary host.
   *
   * @param path Its path
   */
  exec(
    path: string,
    command: string,
    config: unknown,
    options: CallOptions = {},
  ): CallOutput {
    const { code, stdout, stderr } = execIn(this.host, {
      path,
      env: {
        PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
        ...this.environment(command, options),
      },
      stdin: JSON.stringify(config),
    });
    const exitCode = code === 0 ? 0 : 1;
    return { exitCode, stdout, stderr, json: parseJson(stdout) };
  }

  /** Returns the variables of a call. */
  environment(
    command: string,
    { sandbox = this.sandbox, containerId, ifName, env }: CallOptions = {},
  ): Record<string, string> {
    return {
      CNI_COMMAND: command,
      CNI_CONTAINERID: containerId ?? "test-container",
      CNI_NETNS: sandbox.path,
      CNI_IFNAME: ifName ?? "eth0",
      CNI_PATH: this.path,
      // Never the machine's own networks.
      NETCONFPATH: `${this.directory}/net.d`,
      // Never the machine's own log.
      CNI_LOG_FILE: "stderr",
      // Never the machine's own bus.
      DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${this.directory}/no-bus`,
      ...env,
    };
  }

  /** Removes everything, and fails if a descriptor was left open. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

function raiseLoopback(netns: NetNs): NetNs {
  using rtnl = Rtnl.open(netns.path);
  rtnl.link.set(rtnl.link.get("lo").index, { isUp: true });
  return netns;
}

/** Lists the names in a directory; empty if it does not exist. */
function listDirectory(path: string): string[] {
  try {
    return [...Deno.readDirSync(path)].map(({ name }) => name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** In tests our own executable is deno: plugins found as it run in this process. */
function linkPlugins(directory: string): void {
  Deno.mkdirSync(directory);
  for (const type of pluginNames) {
    Deno.symlinkSync("/proc/self/exe", `${directory}/${type}`);
  }
}

// deno-lint-ignore no-explicit-any -- as above
function parseJson(text: string): any {
  return text === "" ? undefined : JSON.parse(text);
}

/** Lists what the open descriptors lead to, Deno's own plumbing aside. */
function openDescriptors(): string[] {
  const plumbing = listUnixSockets();
  return [...Deno.readDirSync("/proc/self/fd")].flatMap(({ name }) => {
    try {
      const target = Deno.readLinkSync(`/proc/self/fd/${name}`);
      const isOurs = /^(net:|socket:|\/)/.test(target) &&
        !target.startsWith("/proc/") && !target.startsWith("/dev/") &&
        !plumbing.has(target);
      return isOurs ? [target.replace(/^(socket):.*/, "$1")] : [];
    } catch {
      return []; // the descriptor with which the directory is read
    }
  }).sort();
}

/** Lists the sockets that Deno opens when it likes, for signals and the like. */
function listUnixSockets(): Set<string> {
  const lines = Deno.readTextFileSync("/proc/self/net/unix").split("\n");
  const inodes = lines.map((line) => line.trim().split(/\s+/)[6]);
  return new Set(inodes.map((inode) => `socket:[${inode}]`));
}

/** Lists what is in a list more often than in another. */
function listMore(list: readonly string[], other: readonly string[]): string[] {
  const rest = [...other];
  return list.filter((item) => {
    const at = rest.indexOf(item);
    if (at !== -1) rest.splice(at, 1);
    return at === -1;
  });
}
