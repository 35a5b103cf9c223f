/**
 * Daemons with thick multus' protocol: this project's daemon and the Go version.
 *
 * @module
 */

import type { JsonObject } from "../../../base/json/json.ts";
import {
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../../../testing/capabilities.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { BIN, type MultusHost } from "./host.ts";
import { type Spawned, spawnIn } from "../../../tests/_harness/spawn_in.ts";

/**
 * Directory with multus, multus-daemon and multus-shim of the Go version, which
 * cannot be built from the module proxy; "" without such a directory.
 */
export const GO_MULTUS: string = Deno.env.get("CNI_GO_MULTUS") ?? "";

/** Skips tests of the Go version if it is missing. */
export const needsGoMultus: Needs = ignoreUnless(
  GO_MULTUS !== "" && isExecutable(`${GO_MULTUS}/multus-daemon`),
  "needs CNI_GO_MULTUS, a directory with multus-daemon and multus-shim",
);

/** A response. */
export interface Reply {
  readonly status: number;
  readonly type: string | null;
  readonly text: string;
}

/** A daemon on a node. */
export class ThickDaemon implements AsyncDisposable {
  /** The directory of its socket. */
  readonly socketDir: string;
  readonly #spawned: Spawned;

  private constructor(socketDir: string, spawned: Spawned) {
    this.socketDir = socketDir;
    this.#spawned = spawned;
  }

  /**
   * Starts this project's daemon, and waits until it is ready.
   *
   * @param keys Additional keys of its configuration
   */
  static async start(
    host: MultusHost,
    keys: JsonObject = {},
  ): Promise<ThickDaemon> {
    const socketDir = `${host.hosts.directory}/ours`;
    const config = `${host.hosts.directory}/ours.json`;
    const own = { ...ownConfig(host), ...keys };
    Deno.writeTextFileSync(config, JSON.stringify(own));
    return await ThickDaemon.#ready(
      socketDir,
      spawnIn(host.hosts.host, {
        path: `${BIN}/cni`,
        args: [
          "daemon",
          `--socket-dir=${socketDir}`,
          `--config=${config}`,
          "--no-warm-up",
          "--no-heal",
        ],
        env: {
          PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
          CNI_LOG_FILE: "stderr",
        },
        stdin: "",
      }),
    );
  }

  /** Starts the Go version's daemon, and waits until it is ready. */
  static async startGo(host: MultusHost): Promise<ThickDaemon> {
    const { directory, host: netns } = host.hosts;
    const socketDir = `${directory}/go`;
    const account = `${directory}/account`;
    for (const name of [account, `${directory}/net.d`, `${directory}/out.d`]) {
      Deno.mkdirSync(name, { recursive: true });
    }
    Deno.writeTextFileSync(`${account}/token`, host.api.token);
    Deno.writeTextFileSync(`${account}/ca.crt`, host.api.caPem);
    Deno.writeTextFileSync(
      `${directory}/net.d/10-pods.conflist`,
      JSON.stringify(host.master()),
    );
    Deno.writeTextFileSync(
      `${directory}/go.json`,
      JSON.stringify({
        ...ownConfig(host),
        socketDir,
        cniVersion: "1.0.0",
        multusConfigFile: "auto",
        multusAutoconfigDir: `${directory}/net.d`,
        cniConfigDir: `${directory}/out.d`,
        // It writes no status for these pods, because it would encode it as protobuf.
        systemNamespaces: ["web", "lost"],
        logToStderr: true,
        logLevel: "error",
      }),
    );
    // It reads its service account at a fixed path.
    const script = `set -e
      mount -t tmpfs none /run
      mkdir -p /run/secrets/kubernetes.io
      cp -r ${account} /run/secrets/kubernetes.io/serviceaccount
      exec ${GO_MULTUS}/multus-daemon --config ${directory}/go.json`;
    return await ThickDaemon.#ready(
      socketDir,
      spawnIn(netns, {
        path: "/usr/bin/unshare",
        args: ["--mount", "--propagation=private", "sh", "-c", script],
        env: {
          PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
          KUBERNETES_SERVICE_HOST: "127.0.0.1",
          KUBERNETES_SERVICE_PORT: String(host.api.port),
          MULTUS_NODE_NAME: "node1",
          CNI_LOG_FILE: "stderr",
        },
        stdin: "",
      }),
    );
  }

  static async #ready(
    socketDir: string,
    spawned: Spawned,
  ): Promise<ThickDaemon> {
    const daemon = new ThickDaemon(socketDir, spawned);
    const ended = spawned.output.then(({ code, stderr }) => {
      throw new Error(`the daemon ended with ${code}: ${stderr}`);
    });
    ended.catch(() => {});
    await Promise.race([
      ended,
      eventually("the daemon is ready", () => daemon.#isReady()),
    ]);
    return daemon;
  }

  async #isReady(): Promise<boolean> {
    try {
      return (await this.ask("/readyz", null)).status === 200;
    } catch {
      return false;
    }
  }

  /** Sends a request. */
  async ask(
    path: string,
    body: JsonObject | string | null,
    method = "POST",
  ): Promise<Reply> {
    using client = Deno.createHttpClient({
      proxy: { transport: "unix", path: `${this.socketDir}/multus.sock` },
    });
    const response = await fetch(`http://dummy${path}`, {
      client,
      method,
      ...method === "POST" && {
        body: typeof body === "string" ? body : JSON.stringify(body),
      },
    });
    return {
      status: response.status,
      type: response.headers.get("content-type"),
      text: await response.text(),
    };
  }

  /** Kills it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#spawned.kill();
    await this.#spawned.output;
  }
}

/**
 * The configuration for calls of a running pod, because they contain no configuration
 * of multus.
 */
function ownConfig({ cniDir, kubeconfig }: MultusHost): JsonObject {
  return { cniDir, kubeconfig, binDir: BIN };
}
