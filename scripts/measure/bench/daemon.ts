/**
 * Processes that run on a node while others are measured: its daemon, that of
 * thick multus, and the API server.
 *
 * @module
 */

import { exists } from "../../../base/files/io.ts";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { CallFailure, PATH } from "./call.ts";
import { pause } from "./isolation.ts";
import { PreparedProgram, waitFor } from "./process.ts";
import { POD } from "./route.ts";
import { OURS, type Subject } from "./subject.ts";

/** The file that exists once the API server listens; it has a {@linkcode ClusterAccess}. */
export const READY = "cluster.json";

/** How to reach the API server. */
export interface ClusterAccess {
  readonly kubeconfig: string;
  /** Directory of a service account. */
  readonly account: string;
  /** The variables by which a pod finds it. */
  readonly environment: Readonly<Record<string, string>>;
}

const POLL_MS = 10, DEADLINE_MS = 60_000;

/** A daemon to start. */
interface DaemonProgram {
  readonly path: string;
  readonly args: readonly string[];
  /** The environment, to which PATH is added. */
  readonly env?: Readonly<Record<string, string>>;
  /** The file that exists once it is ready; its directory exists already. */
  readonly ready: string;
  /** Where its output goes. */
  readonly log: string;
}

/** A daemon that runs. */
export class BenchDaemon implements Disposable {
  readonly #pid: number;

  /**
   * Starts a daemon, and returns once it is ready.
   *
   * @param host The namespace that stands for the host's
   * @throws {CallFailure} If it is not ready in time
   */
  constructor(
    { path, args, ready, log, ...more }: DaemonProgram,
    host: NetNs,
  ) {
    const [stdin, stdout] = ["/dev/null", "/dev/null"];
    const env = { ...more.env, PATH };
    using program = new PreparedProgram(
      { path, args, env, stdin, stdout, stderr: log },
    );
    this.#pid = inNetns(host, () => program.start());
    const deadlineMs = performance.now() + DEADLINE_MS;
    while (!exists(ready)) {
      if (performance.now() < deadlineMs) {
        pause(POLL_MS);
        continue;
      }
      this[Symbol.dispose]();
      const said = Deno.readTextFileSync(log);
      const call = { path, args, env, stdin };
      throw new CallFailure(call, 1, `it is not ready: ${said}`);
    }
  }

  /**
   * Starts the node daemon, with its socket in a directory that is made.
   *
   * @throws {CallFailure} If it is not ready in time
   */
  static startOwn(
    { bin }: Subject,
    directory: string,
    host: NetNs,
  ): BenchDaemon {
    Deno.mkdirSync(directory, { mode: 0o700 });
    return new BenchDaemon({
      path: `${bin}/cni`,
      args: ["daemon", "--socket-dir", directory],
      ready: `${directory}/daemon.sock`,
      log: `${directory}/log`,
    }, host);
  }

  /** The processor time that its threads have used so far. */
  get cpuMs(): number {
    const tasks = `/proc/${this.#pid}/task`;
    return [...Deno.readDirSync(tasks)].reduce((sum, { name }) => {
      const [nanoseconds] = Deno.readTextFileSync(`${tasks}/${name}/schedstat`)
        .split(" ");
      return sum + Number(nanoseconds) / 1e6;
    }, 0);
  }

  /** Ends it, and waits for its end. */
  [Symbol.dispose](): void {
    Deno.kill(this.#pid, "SIGKILL");
    waitFor(this.#pid);
  }
}

/** The parts of thick multus. */
interface ThickParts {
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
