/**
 * `multus daemon` on a node, as a process that can be killed and stopped.
 *
 * @module
 */

import { deadline } from "../../cni/deadline.ts";
import { inNetns } from "../../ffi/netns.ts";
import {
  exchangeOverUnix,
  type UnixAnswer,
  type UnixRequest,
} from "../../plugins/multus/pod/unix_http.ts";
import { eventually } from "./eventually.ts";
import { BIN, type MultusHost } from "./multus_host.ts";

/** Longest response time on the slowest machine, in ms. */
const PATIENCE_MS = 60_000;

/** The daemon's responses, from its log. */
export interface DaemonAnswer {
  readonly method: string;
  readonly path: string;
  /** `cache`, `api` or `queue`; "" if it was of no use. */
  readonly origin: string;
}

/** A daemon. */
export class MultusDaemon implements AsyncDisposable {
  /** The `daemonSocketDir` for plugins that use it. */
  readonly socketDir: string;
  readonly socketPath: string;
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  /** Its log so far. */
  log = "";

  private constructor(socketDir: string, child: Deno.ChildProcess) {
    this.socketDir = socketDir;
    this.socketPath = `${socketDir}/api.sock`;
    this.#child = child;
    this.#reading = this.#read();
  }

  /** Starts one for the pods of `node1`, and waits until it is ready. */
  static async start(
    host: MultusHost,
    kubeconfig: string = host.kubeconfig,
  ): Promise<MultusDaemon> {
    const daemon = MultusDaemon.spawn(host, kubeconfig);
    await eventually("the daemon is ready", () => daemon.isReady());
    return daemon;
  }

  /** Starts one. */
  static spawn(
    host: MultusHost,
    kubeconfig: string = host.kubeconfig,
  ): MultusDaemon {
    const socketDir = `${host.hosts.folder}/run`;
    const command = new Deno.Command(`${BIN}/multus`, {
      args: [
        "daemon",
        `--kubeconfig=${kubeconfig}`,
        `--socket-dir=${socketDir}`,
        "--log-level=debug",
      ],
      clearEnv: true,
      env: { MULTUS_NODE_NAME: "node1" },
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

  /** Reports whether it responds, and watches for changes. */
  async isReady(): Promise<boolean> {
    try {
      return (await this.ask({ path: "/readyz" })).status === 200;
    } catch {
      return false;
    }
  }

  /** Sends a request as root, by default a GET. */
  async ask(
    request: Partial<UnixRequest> & Pick<UnixRequest, "path">,
  ): Promise<UnixAnswer> {
    const complete = { method: "GET", headers: [], ...request };
    return await exchangeOverUnix(
      this.socketPath,
      complete,
      deadline(PATIENCE_MS),
    );
  }

  /** Lists its responses about pods, networks and events. */
  get answers(): DaemonAnswer[] {
    const lines = this.log.split("\n");
    return lines.flatMap((line) => {
      const [, method = "", path = "", rest = ""] =
        /msg=answered method=(\S+) path=(\/api\S+) (.*)$/.exec(line) ?? [];
      const [, origin = ""] = /origin=(\S+)/.exec(rest) ?? [];
      const isAnswer = method !== "";
      return isAnswer ? [{ method, path, origin }] : [];
    });
  }

  /** Sends a signal. */
  signal(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Kills it, and waits until it is gone. */
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

  /** Kills it if it still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.signal("SIGKILL");
    } catch {
      // It has ended.
    }
    await this.#child.status;
    await this.#reading;
  }
}
