/**
 * The node that `cni doctor` inspects. Everything is read at most once.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import type { Environment } from "../../base/process/environment.ts";
import { type CniError, toCniError } from "../../base/error.ts";
import { DEFAULT_SOCKET } from "../../daemon/wire/daemon_socket.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import { decodePluginConfs } from "../../libcni/conf.ts";
import {
  type NetworkConfList,
  NetworkRuntime,
  type PluginConf,
  readNetworks,
} from "../../libcni/mod.ts";
import { dispatch } from "../../cni/skel.ts";
import { OWN_NETNS } from "../../ffi/own_netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { findPlugin } from "../../plugins/registry.ts";
import {
  isLoopbackOnly,
  listInterfaces,
  listNodeAttachments,
  type NodeAttachment,
} from "./node_attachments.ts";
import { unfoldChains } from "./chain_form.ts";
import {
  type Directories,
  type DirectoryFlag,
  toolCommand,
} from "./network.ts";
import { type NodeDaemon, readNodeDaemon } from "./node_daemon.ts";
import { type CniPathFile, listPluginFiles } from "./plugin_file.ts";
import { typesWithIpam } from "../../cni/config/ipam.ts";

/** Where to look. */
export interface NodeReaderOptions {
  readonly directories: Directories;
  readonly env: Environment;
  /** Aborted when time is up. */
  readonly signal: AbortSignal;
  /** The host's network namespace; the thread's by default. */
  readonly hostNetns?: string;
  /** Where processes are; /proc by default. */
  readonly proc?: string;
  /** The node daemon's socket; by default, where plugins look for it. */
  readonly daemonSocket?: string;
  /** The node's file of name servers; /etc/resolv.conf by default. */
  readonly resolvConf?: string;
}

/** Parts of the node that tests replace. */
export type Replaced = Pick<
  NodeReaderOptions,
  "hostNetns" | "proc" | "daemonSocket" | "resolvConf"
>;

/** A network that is configured. */
export interface ConfiguredNetwork {
  readonly name: string;
  readonly path: string;
  /** The file's name. */
  readonly file: string;
  readonly list: NetworkConfList;
  /** The plugins in their order, including the plugins of chains. */
  readonly plugins: readonly PluginConf[];
}

/** A file that cannot be used. */
export interface UnusableFile {
  readonly path: string;
  readonly file: string;
  readonly error: CniError;
  /** The network's name, if runtimes can read the file and only ADD fails. */
  readonly name?: string;
}

/** The files of the configuration directory, in the order of runtimes. */
export interface ConfigurationFiles {
  readonly networks: readonly ConfiguredNetwork[];
  readonly unusable: readonly UnusableFile[];
}

/** Time limit for a plugin to print its versions, in ms. */
const VERSION_TIMEOUT_MS = 5_000;

/** A node. Dispose of it to close its sockets. */
export class NodeReader implements Disposable {
  readonly directories: Directories;
  readonly env: Environment;
  readonly signal: AbortSignal;
  /** Path of the host's network namespace. */
  readonly hostNetns: string;
  /** The directory with processes. */
  readonly proc: string;
  /** The node daemon's socket. */
  readonly daemonSocket: string;
  /** The node's file of name servers. */
  readonly resolvConf: string;
  /** Runs plugins. Their log is not shown. */
  readonly runtime: NetworkRuntime;
  #host: Rtnl | undefined;
  #configuration: ConfigurationFiles | undefined;
  #attachments: readonly NodeAttachment[] | undefined;
  #plugins: Promise<readonly CniPathFile[]> | undefined;
  readonly #daemons = new Map<string, Promise<NodeDaemon>>();

  /** Opens nothing yet. */
  constructor(options: NodeReaderOptions) {
    const { directories, env } = options;
    this.directories = directories;
    this.env = env;
    this.signal = options.signal;
    this.hostNetns = options.hostNetns ?? OWN_NETNS;
    this.proc = options.proc ?? "/proc";
    this.daemonSocket = options.daemonSocket ?? DEFAULT_SOCKET;
    this.resolvConf = options.resolvConf ?? "/etc/resolv.conf";
    this.runtime = new NetworkRuntime({
      pluginDirs: directories.pluginDirs,
      cacheDir: directories.cacheDir,
      env,
      hostNetns: this.hostNetns,
      invoker: createInvoker(dispatch, findPlugin),
      onStderr(): void {},
    });
  }

  /** The host's namespace. */
  get host(): Rtnl {
    return this.#host ??= Rtnl.open(this.hostNetns);
  }

  /** The configuration directory. An unreadable directory is an unusable file. */
  get configuration(): ConfigurationFiles {
    return this.#configuration ??= readConfiguration(this.directories.confDir);
  }

  /** The networks that are configured, in the order of runtimes. */
  get networks(): readonly ConfiguredNetwork[] {
    return this.configuration.networks;
  }

  /**
   * The attachments in the cache.
   *
   * @throws {CniError} 5 If the cache cannot be read
   */
  get attachments(): readonly NodeAttachment[] {
    return this.#attachments ??= listNodeAttachments(this.directories);
  }

  /** The attachments with a namespace that exists. */
  get liveAttachments(): readonly NodeAttachment[] {
    return this.attachments.filter(({ isLive }) => isLive === true);
  }

  /** The live attachments to networks, each interface once. */
  get liveInterfaces(): readonly NodeAttachment[] {
    return listInterfaces(this.liveAttachments)
      .filter((attachment) => !isLoopbackOnly(attachment));
  }

  /**
   * Asks the daemon at a socket.
   *
   * @throws {SyscallError} EACCES If the user may not connect
   */
  daemonAt(socket: string): Promise<NodeDaemon> {
    const { signal, proc } = this;
    const daemon = this.#daemons.get(socket) ??
      readNodeDaemon({ socket, signal, proc });
    this.#daemons.set(socket, daemon);
    return daemon;
  }

  /** The plugins in CNI_PATH, with their versions. */
  plugins(): Promise<readonly CniPathFile[]> {
    const { env, signal: interrupt, directories } = this;
    const timeoutMs = VERSION_TIMEOUT_MS;
    return this.#plugins ??= listPluginFiles(directories.pluginDirs, {
      env,
      interrupt,
      timeoutMs,
    });
  }

  /** Returns a test whether the executable of a type can be started. */
  async findUsable(): Promise<(type: string) => boolean> {
    const files = await this.plugins();
    const first = files.filter(({ shadowedBy }) => shadowedBy === undefined);
    return (type) =>
      first.some(({ name, problem }) => name === type && problem === undefined);
  }

  /** Writes a command of this tool that acts on this node's directories. */
  cni(command: string, accepted?: readonly DirectoryFlag[]): string {
    return toolCommand(this.directories, command, accepted);
  }

  /** Closes the sockets. */
  [Symbol.dispose](): void {
    this.#host?.[Symbol.dispose]();
  }
}

/** Returns a function that reads a value of each node once. */
export function oncePerNode<T>(
  read: (node: NodeReader) => T,
): (node: NodeReader) => T {
  const values = new WeakMap<NodeReader, T>();
  return (node) => {
    const found = values.get(node) ?? read(node);
    values.set(node, found);
    return found;
  };
}

/** A plugin of a configured network. */
export interface PlacedConf {
  readonly network: ConfiguredNetwork;
  readonly conf: PluginConf;
}

function readConfiguration(confDir: string): ConfigurationFiles {
  const unusable: UnusableFile[] = [];
  const skip = (path: string, error: CniError): void => {
    unusable.push({ path, file: basename(path), error });
  };
  const networks: ConfiguredNetwork[] = [];
  for (const { path, list } of readNetworks(confDir, skip)) {
    try {
      const { name } = list;
      const plugins = unfoldChains(list.plugins)
        .flatMap((conf) => [conf, ...listRunOnNode(conf, name)]);
      networks.push({ name, path, file: basename(path), list, plugins });
    } catch (error) {
      // A chain has a malformed plugin, which the runtime does not see.
      const file = basename(path);
      unusable.push({ path, file, error: toCniError(error), name: list.name });
    }
  }
  return { networks, unusable };
}

/** Lists what a plugin such as flannel runs in its place, as this node has it. */
function listRunOnNode(
  { type, document }: PluginConf,
  network: string,
): PluginConf[] {
  const run = METADATA.get(type)?.onNode?.(document, network);
  return run === undefined ? [] : decodePluginConfs([run]);
}

/** Lists the types of plugins that a network runs, IPAM plugins included. */
export function typesOf({ plugins }: ConfiguredNetwork): string[] {
  return typesWithIpam(plugins);
}
