/**
 * `multus daemon` on a node, as a process that can be killed and stopped.
 *
 * @module
 */

import { exists } from "../../../base/files/io.ts";
import { inNetns } from "../../../ffi/netns.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { BIN, type MultusHost } from "./host.ts";

/** The node of a daemon. */
type DaemonNode = Pick<MultusHost, "hosts" | "kubeconfig">;

/** A daemon. */
export class MultusDaemon implements AsyncDisposable {
  /** The `daemonSocketDir` for plugins that use it. */
  readonly socketDir: string;
  /** The socket of the daemon's own protocol. */
  readonly socketPath: string;
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  /** Its log so far. */
  log = "";

  private constructor(socketDir: string, child: Deno.ChildProcess) {
    this.socketDir = socketDir;
    this.socketPath = `${socketDir}/daemon.sock`;
    this.#child = child;
    this.#reading = this.#read();
  }

  /**
   * Starts a daemon for the pods of `node1`, and waits until the cluster's objects
   * are in memory.
   */
  static async start(
    host: DaemonNode,
    kubeconfig: string = host.kubeconfig,
    flags: readonly string[] = [],
  ): Promise<MultusDaemon> {
    const daemon = MultusDaemon.spawn(host, kubeconfig, flags);
    await eventually("it watches", () => daemon.isWatching());
    return daemon;
  }

  /** Starts a daemon. */
  static spawn(
    host: DaemonNode,
    kubeconfig: string = host.kubeconfig,
    flags: readonly string[] = [],
  ): MultusDaemon {
    const socketDir = `${host.hosts.directory}/run`;
    const command = new Deno.Command(`${BIN}/multus`, {
      args: [
        "daemon",
        `--kubeconfig=${kubeconfig}`,
        `--socket-dir=${socketDir}`,
        "--log-level=debug",
        "--no-heal",
        ...flags,
      ],
      clearEnv: true,
      env: { MULTUS_NODE_NAME: "node1", CNI_LOG_FILE: "stderr" },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    });
    const child = inNetns(host.hosts.host, () => command.spawn());
    return new MultusDaemon(socketDir, child);
  }

  async #read(): Promise<void> {
    const text = this.#child.stderr.pipeThrough(new TextDecoderStream());
    for await (const chunk of text) this.log += chunk;
  }

  /** Returns a metric with these labels; undefined if it does not respond. */
  async metric(name: string, labels = ""): Promise<number | undefined> {
    const path = `${this.socketDir}/multus.sock`;
    // fetch() might try for 5 s to connect to a missing socket.
    if (!exists(path)) return undefined;
    const proxy = { transport: "unix", path } as const;
    using client = Deno.createHttpClient({ proxy });
    try {
      const answer = await fetch("http://daemon/metrics", { client });
      const lines = (await answer.text()).split("\n");
      const line = lines.find((line) => line.startsWith(`${name}${labels} `));
      return line === undefined ? undefined : Number(line.split(" ").at(-1));
    } catch {
      return undefined;
    }
  }

  /** Reports whether all its watches are current. */
  async isWatching(): Promise<boolean> {
    const kinds = ["pods", "network attachment definitions"];
    const values = await Promise.all(
      kinds.map((kind) =>
        this.metric("cni_daemon_watch_current", `{objects="${kind}"}`)
      ),
    );
    return values.every((value) => value === 1);
  }

  /** Returns how many pods it has in memory. */
  async countPods(): Promise<number> {
    return await this.metric("cni_daemon_objects", '{objects="pods"}') ?? 0;
  }

  /** Sends a signal. */
  signal(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Kills it, and waits until it has exited. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.#child.status;
    await this.#reading;
  }

  /** Stops it; returns its exit code and how long that took, in ms. */
  async end(): Promise<{ code: number; tookMs: number }> {
    const startMs = performance.now();
    this.signal("SIGTERM");
    const { code } = await this.#child.status;
    const tookMs = performance.now() - startMs;
    await this.#reading;
    return { code, tookMs };
  }

  /** Kills it if it is still running. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.signal("SIGKILL");
    } catch {
      // It has exited.
    }
    await this.#child.status;
    await this.#reading;
  }
}
