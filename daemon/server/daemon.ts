/**
 * The node daemon: runs whole calls of plugins for other processes.
 *
 * @module
 */

import { enableChangeChecks } from "../../ffi/change_check.ts";
import type { Environment } from "../../base/process/environment.ts";
import { takeLocalCalls } from "../wire/daemon_timeouts.ts";
import {
  HTTP_SOCKET_NAME,
  offFile,
  SOCKET_NAME,
  timeoutsFile,
} from "../wire/daemon_socket.ts";
import { describeError } from "../../base/error.ts";
import { enableYielding } from "../../base/long_wait.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { PluginLookup } from "../../cni/invoke/in_process.ts";
import type { Log } from "../../base/log/log.ts";
import { PLUGINS_VERSION } from "../../base/process/build_identity.ts";
import { fileExists } from "../../ffi/socket/unix_stream.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";
import { removeLeftRecordings } from "../../ffi/packet_events.ts";
import { LinkRemover } from "../../plugins/parts/link/link_remover.ts";
import { Admission, MAX_CONNECTIONS } from "../../base/service/admission.ts";
import { CallHistory } from "./call_history.ts";
import { CallSocket, type CallSocketOptions } from "./call_socket.ts";
import type { EndedCall } from "./call.ts";
import type { Caller } from "./call_progress.ts";
import { Calls, type CallTrace, MAX_BEGUN } from "./calls.ts";
import { DaemonMetrics } from "./daemon_metrics.ts";
import { HttpSocket } from "./http_socket.ts";
import { HeapCollector } from "./heap_collector.ts";
import type { Gauge } from "./metrics.ts";
import { limitByOpenFiles } from "./open_files.ts";
import { ServiceManager } from "../../base/service/notify.ts";
import { openPluginCgroup } from "./plugin_cgroup.ts";
import { listOwnGauges, type OwnState } from "./own_gauges.ts";
import { readOwnAttributes } from "./caller_check.ts";
import { SocketFile } from "../../base/service/socket_file.ts";
import { EventLoopLag } from "./event_loop_lag.ts";
import { answerState, type StateDocument } from "./state_handler.ts";
import { type StateAddress, StateServer } from "./state_server.ts";

/** Most connections over TCP at the same time. */
const MAX_STATE_CONNECTIONS = 64;

/** How often the sockets are checked, in ms. */
const CHECK_MS = 1000;

/** Options of {@linkcode runDaemon}. */
export interface DaemonOptions {
  /** Directory of the sockets. */
  readonly socketDir: string;
  /** How many calls can run at the same time. */
  readonly maxCalls: number;
  /** Where to serve the state over TCP; undefined: only on the socket. */
  readonly metricsAddress?: StateAddress | undefined;
  /** Identifies the code. */
  readonly build: string;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** The environment, for the service manager's socket. */
  readonly env: Environment;
  /** Finds plugins that run in this process. */
  readonly lookup: PluginLookup;
  /** Translates calls of programs that are not plugins. */
  readonly translate?: CallSocketOptions["translate"];
  /** See {@linkcode CallSocketOptions.identify}. */
  readonly identify?: CallSocketOptions["identify"];
  /** Reads the attributes of a caller; from /proc by default. */
  readonly readAttributes?: CallSocketOptions["readAttributes"];
  /** Called after each call. */
  readonly afterCall?: ((call: EndedCall) => void) | undefined;
  /** Describes the daemon's own work for `/state`. */
  readonly describe?: () => Pick<
    StateDocument,
    "leftovers" | "repairs" | "missingNetworks"
  >;
  /** Follows the calls for traces. */
  readonly trace?: CallTrace | undefined;
  /** Further values for the metrics. */
  readonly gauges?: readonly Gauge[];
  /** Reads the values of these gauges. If it fails, the metrics show the previous values. */
  readonly beforeMetrics?: (() => Promise<void>) | undefined;
  /** Answers requests on the HTTP socket, except for the state. */
  readonly handle?:
    | ((
      request: Request,
      daemon: RunningDaemon,
    ) => Promise<Response> | undefined)
    | undefined;
  /** Called when callers can connect. */
  readonly onListening?: (calls: Calls) => void;
  readonly log: Log;
  /** Stops the daemon. */
  readonly signal: AbortSignal;
  /** See {@linkcode CHECK_MS}. */
  readonly checkMs?: number;
  /** Time for calls to finish when the daemon stops, in ms; 10 s by default. */
  readonly graceMs?: number;
}

/** The part of the daemon that {@linkcode DaemonOptions.handle} uses. */
export interface RunningDaemon {
  readonly calls: Calls;
  /** Reports whether the daemon stops. */
  readonly isEnding: () => boolean;
  /** The sender of the request. */
  readonly caller: Caller;
}

/** The parts of a daemon, connected to each other. */
class NodeDaemon {
  readonly #options: DaemonOptions;
  /** When this process started; its metrics also report this time. */
  readonly #startedAt = new Date(performance.timeOrigin).toISOString();
  readonly #callPath: string;
  readonly #metrics: DaemonMetrics;
  readonly #history = new CallHistory();
  readonly #heap: HeapCollector;
  readonly #callSocket: CallSocket;
  readonly #httpSocket: HttpSocket;
  readonly #maxStateConnections: number;
  #stateServer: StateServer | undefined;
  readonly lag = new EventLoopLag();
  readonly maxCalls: number;
  readonly #maxBegun: number;
  readonly calls: Calls;
  isEnding = false;

  constructor(options: DaemonOptions, linkRemover: LinkRemover) {
    this.#options = options;
    this.#callPath = `${options.socketDir}/${SOCKET_NAME}`;
    const limits = limitByOpenFiles({
      maxCalls: options.maxCalls,
      maxBegun: MAX_BEGUN,
      maxConnections: MAX_CONNECTIONS,
      maxStateConnections: MAX_STATE_CONNECTIONS,
    });
    const { maxConnections } = limits;
    this.#maxStateConnections = limits.maxStateConnections;
    this.maxCalls = limits.maxCalls;
    this.#maxBegun = limits.maxBegun;
    const admission = new Admission({ maxConnections });
    this.#metrics = new DaemonMetrics([
      ...listOwnGauges(options.build, () => this.#describeSelf(linkRemover)),
      ...options.gauges ?? [],
    ]);
    this.#heap = new HeapCollector({
      isIdle: () => this.calls.running === 0 && this.calls.waiting === 0,
      onFailed: (error) =>
        options.log.warn("Cannot free memory", {
          error: describeError(error),
        }),
    });
    this.calls = this.#makeCalls(linkRemover);
    this.#callSocket = this.#makeCallSocket(admission);
    this.#httpSocket = new HttpSocket({
      respond: async (request, caller) => await this.#respond(request, caller),
      log: options.log,
      admission,
    });
  }

  #describeSelf(linkRemover: LinkRemover): OwnState {
    return {
      running: this.calls.running,
      waiting: this.calls.waiting,
      connections: this.#callSocket.connections,
      unacknowledged: linkRemover.unacknowledged,
      lagSeconds: this.lag.seconds,
    };
  }

  #makeCalls(linkRemover: LinkRemover): Calls {
    const { lookup, hostNetns, log, trace } = this.#options;
    return new Calls({
      lookup,
      hostNetns,
      maxCalls: this.maxCalls,
      maxBegun: this.#maxBegun,
      linkDeletion: trace?.linkDeletion(linkRemover) ?? linkRemover,
      trace,
      log,
      onChild: openPluginCgroup(),
      onConflict: (conflict) => this.#metrics.countConflict(conflict),
      pollSockets: () => this.#pollSockets(),
      onEnded: (call): void => {
        this.#metrics.countCall(call);
        this.#history.addDone(call);
        this.#heap.afterCall();
        this.#options.afterCall?.(call);
      },
    });
  }

  #makeCallSocket(admission: Admission): CallSocket {
    const { lookup, translate, identify, log, build, hostNetns } =
      this.#options;
    const { readAttributes } = this.#options;
    return new CallSocket({
      admission,
      lookup,
      translate,
      identify,
      log,
      calls: this.calls,
      own: readOwnAttributes(build, hostNetns),
      ...readAttributes && { readAttributes },
      onDeclined: (reason, call): void => {
        this.#metrics.countDeclined(reason);
        this.#history.addDeclined(reason, call);
      },
    });
  }

  /** Creates both sockets. */
  async listen(): Promise<SocketFile[]> {
    const { socketDir: directory } = this.#options;
    return [
      await SocketFile.create({
        directory,
        name: SOCKET_NAME,
        listen: (path) => this.#callSocket.listen(path),
      }),
      await SocketFile.create({
        directory,
        name: HTTP_SOCKET_NAME,
        listen: (path) => this.#httpSocket.listen(path),
      }),
    ];
  }

  /** Closes the sockets. */
  async close(): Promise<void> {
    await Promise.all([this.#callSocket.close(), this.#httpSocket.close()]);
  }

  /** Records the calls that have arrived at the socket, and then local calls. */
  #pollSockets(): void {
    this.#callSocket.poll();
    // This daemon has removed its socket: the file is for the daemon that took over.
    if (this.isEnding && fileExists(this.#callPath)) return;
    this.calls.recordLocalCalls(takeLocalCalls(this.#callPath));
  }

  /** Frees memory after work that was not a call. */
  freeMemory(): void {
    this.#heap.look();
  }

  /** Turns the daemon on again for callers. */
  resumeCallers(): void {
    if (fileExists(offFile(this.#callPath))) this.#pollSockets();
  }

  async #respond(request: Request, caller: Caller): Promise<Response> {
    const { calls } = this;
    const isEnding = (): boolean => this.isEnding;
    const running: RunningDaemon = { calls, isEnding, caller };
    return await this.#options.handle?.(request, running) ??
      await this.answerState(request);
  }

  /** Serves the state over TCP until disposal. */
  serveState(address: StateAddress): StateServer {
    const { log } = this.#options;
    const respond = (request: Request): Promise<Response> =>
      this.answerState(request);
    const maxConnections = this.#maxStateConnections;
    const options = { address, respond, log, maxConnections };
    return this.#stateServer = new StateServer(options);
  }

  async #formatMetrics(): Promise<string> {
    try {
      await this.#options.beforeMetrics?.();
    } catch (error) {
      this.#options.log.warn("Cannot read the metrics of pods", {
        error: describeError(error),
      });
    }
    return this.#metrics.format();
  }

  /** Answers requests about the daemon's state. */
  answerState(request: Request): Promise<Response> {
    return answerState(request, {
      isReady: () => !this.isEnding,
      metrics: () => this.#formatMetrics(),
      describe: () => ({
        version: PLUGINS_VERSION,
        build: this.#options.build,
        pid: Deno.pid,
        startedAt: this.#startedAt,
        ready: !this.isEnding,
        ...this.#stateServer && { metrics: this.#stateServer.describe() },
        ...this.#options.describe?.(),
        calls: {
          running: this.calls.running,
          waiting: this.calls.waiting,
          ...this.#history.describe(),
        },
      }),
    });
  }
}

/**
 * Runs the daemon until the signal, or until another daemon has its sockets.
 *
 * @throws {CniError} 5 if it cannot listen
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { log, env, hostNetns, socketDir: directory, metricsAddress } = options;
  const { AsyncLocalStorage } = await import("node:async_hooks");
  enableChangeChecks(new AsyncLocalStorage());
  enableYielding(new AsyncLocalStorage());
  await using linkRemover = new LinkRemover(hostNetns);
  using _nftables = Nftables.keepOpen(hostNetns);
  const daemon = new NodeDaemon(options, linkRemover);
  const { calls, maxCalls } = daemon;
  await using _state = metricsAddress && daemon.serveState(metricsAddress);
  const files = await daemon.listen();
  const manager = new ServiceManager(env, log);
  options.onListening?.(calls);
  manager.notify("READY=1");
  // A `cni probe` that was killed leaves a recording.
  ifPossible(removeLeftRecordings);
  using _watching = manager.watch();
  log.info("listening", { directory, maxCalls });

  // The event loop runs, so the daemon can answer again.
  const onHealthy = (): void => daemon.resumeCallers();
  const rest: EventLoopLag["pause"] = async (ms, signal) => {
    await daemon.lag.pause(ms, signal);
    daemon.freeMemory();
  };
  const reason = await keepInPlace(files, options, onHealthy, rest);
  daemon.isEnding = true;
  manager.notify("STOPPING=1");
  log.info("ending", { reason, running: calls.running });
  await Promise.all([
    // Must be first: a call that arrives during the removal must be declined.
    calls.stop(options.graceMs),
    ...files.map((file) => file.remove()),
  ]);
  for (const file of files) file.close();
  await daemon.close();
}

/**
 * Keeps the sockets in place.
 *
 * @param onHealthy Called each time a socket is found in its place
 * @param rest Waits
 * @returns Why the daemon stops
 */
async function keepInPlace(
  files: readonly SocketFile[],
  { log, signal, checkMs = CHECK_MS }: DaemonOptions,
  onHealthy: () => void,
  rest: EventLoopLag["pause"],
): Promise<string> {
  for (;;) {
    await rest(checkMs, signal);
    if (signal.aborted) return describeError(signal.reason);
    for (const file of files) {
      try {
        const state = await file.keepInPlace();
        if (state === "another daemon's") {
          return `another daemon has taken "${file.path}"`;
        }
        if (state === "ours") {
          onHealthy();
          ifPossible(() => Deno.removeSync(timeoutsFile(file.path)));
          continue;
        }
        log.warn("Restored the socket, which had been removed", {
          path: file.path,
        });
      } catch (error) {
        log.warn("Cannot check the socket", {
          path: file.path,
          error: describeError(error),
        });
      }
    }
  }
}
