/**
 * Thick multus on a node: its daemon, and the API server that it asks.
 *
 * @module
 */

import type { NetNs } from "../../../ffi/netns.ts";
import { BenchDaemon, type DaemonProgram } from "./daemon.ts";
import { type ClusterAccess, READY } from "./cluster.ts";
import { POD } from "./route.ts";
import { OURS, type Subject } from "./subject.ts";

/** The parts of thick multus. */
export interface ThickParts {
  /** The owner of the daemon. */
  readonly subject: Subject;
  /** The command that runs a script of this project. */
  readonly deno: readonly string[];
  /** Its directory, which is made; the socket is in `run` there. */
  readonly directory: string;
  /** The namespace that stands for the host's. */
  readonly host: NetNs;
}

/** The daemon of thick multus, and its API server. */
export class ThickMultus implements Disposable {
  readonly #cluster: BenchDaemon;
  readonly #daemon: BenchDaemon;

  /**
   * Starts both, and returns once they are ready.
   *
   * @throws {CallFailure} If one is not ready in time
   */
  constructor({ subject, deno, directory, host }: ThickParts) {
    Deno.mkdirSync(directory, { mode: 0o700 });
    using stack = new DisposableStack();
    const cluster = stack.use(
      new BenchDaemon(runCluster(deno, directory), host),
    );
    const access = JSON.parse(
      Deno.readTextFileSync(`${directory}/${READY}`),
    ) as ClusterAccess;
    const program = subject.name === OURS
      ? runOurs(subject, directory, access)
      : runTheirs(subject, directory, access);
    this.#daemon = new BenchDaemon(program, host);
    stack.move();
    this.#cluster = cluster;
  }

  /** The processor time that the daemon has used so far, in ms. */
  get cpuMs(): number {
    return this.#daemon.cpuMs;
  }

  /** Ends both. */
  [Symbol.dispose](): void {
    this.#daemon[Symbol.dispose]();
    this.#cluster[Symbol.dispose]();
  }
}

function runCluster(deno: readonly string[], directory: string): DaemonProgram {
  const [path = "", ...args] = deno;
  const script = new URL("cluster_main.ts", import.meta.url).pathname;
  return {
    path,
    args: [...args, script, directory],
    env: Deno.env.toObject(),
    ready: `${directory}/${READY}`,
    log: `${directory}/cluster.log`,
  };
}

function runOurs(
  { bin, thickDaemon = "" }: Subject,
  directory: string,
  { kubeconfig }: ClusterAccess,
): DaemonProgram {
  const config = `${directory}/daemon.json`;
  Deno.writeTextFileSync(
    config,
    JSON.stringify({ ...configOf(bin, directory), kubeconfig }),
  );
  return {
    path: thickDaemon,
    args: ["daemon", `--socket-dir=${directory}/run`, `--config=${config}`],
    ready: `${directory}/run/multus.sock`,
    log: `${directory}/log`,
  };
}

/** Theirs reads its service account at a fixed path, and empties the socket's directory. */
function runTheirs(
  { bin, thickDaemon }: Subject,
  directory: string,
  { account, environment }: ClusterAccess,
): DaemonProgram {
  const config = `${directory}/daemon.json`;
  for (const name of ["net.d", "out.d"]) Deno.mkdirSync(`${directory}/${name}`);
  Deno.writeTextFileSync(
    `${directory}/net.d/10-none.conflist`,
    JSON.stringify({
      cniVersion: "1.0.0",
      name: "none",
      plugins: [{ type: "ptp" }],
    }),
  );
  Deno.writeTextFileSync(
    config,
    JSON.stringify({
      ...configOf(bin, directory),
      socketDir: `${directory}/run`,
      cniVersion: "1.0.0",
      multusConfigFile: "auto",
      multusAutoconfigDir: `${directory}/net.d`,
      cniConfigDir: `${directory}/out.d`,
      logToStderr: true,
      logLevel: "error",
    }),
  );
  const script = `set -e
    mount -t tmpfs none /run
    mkdir -p /run/secrets/kubernetes.io
    cp -r ${account} /run/secrets/kubernetes.io/serviceaccount
    exec ${thickDaemon} --config ${config}`;
  return {
    path: "/usr/bin/unshare",
    args: ["--mount", "--propagation=private", "sh", "-c", script],
    env: { ...environment, MULTUS_NODE_NAME: "bench" },
    ready: `${directory}/run/multus.sock`,
    log: `${directory}/log`,
  };
}

/**
 * Neither daemon writes the pod's status: theirs writes protobuf, which the API
 * server of the tests does not read.
 */
function configOf(bin: string, directory: string): object {
  return {
    binDir: bin,
    cniDir: `${directory}/cni`,
    systemNamespaces: [POD.namespace, POD.name],
  };
}
