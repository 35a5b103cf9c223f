/**
 * multus in the node daemon: the plugin, which reads pods and definitions from
 * memory, the calls of `multus-shim` and of hot-plug controllers, the detection of
 * pods that lack networks, and the update of changed addresses.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json/json.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import type { PluginLookup } from "../../cni/invoke/in_process.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { CallProgress } from "../../daemon/server/call_progress.ts";
import type {
  DaemonOptions,
  RunningDaemon,
} from "../../daemon/server/daemon.ts";
import type { Gauge } from "../../daemon/server/metrics.ts";
import type { WarmUpNetwork } from "../../daemon/server/warm_up.ts";
import {
  type MultusLogLevel,
  OperationLog,
} from "./operations/operation_log.ts";
import {
  type DefinedAttachment,
  type MissingNetworks,
  MissingNetworksWatch,
} from "./missing_networks.ts";
import { type AddressedAttachment, AddressWatch } from "./address_watch.ts";
import { createMultus } from "./plugin.ts";
import {
  ResidentCluster,
  type ResidentOptions,
} from "./pod/resident_cluster.ts";
import { answerThick, type ThickCall } from "./thick/handler.ts";
import { identifyShimCall, translateShimCall } from "./thick/shim_call.ts";

/** Options of {@linkcode MultusService}. */
export interface MultusServiceOptions extends ResidentOptions {
  /** Path of the configuration for calls over multus.sock; "" for none. */
  readonly config: string;
  /** Receives log text of multus. */
  readonly onStderr: (text: string) => void;
  /** Lists the attachments that are recorded on the node. */
  readonly attachments: () => Promise<
    readonly (DefinedAttachment & AddressedAttachment)[]
  >;
}

/**
 * The network to which a new daemon attaches pods, so that its code is compiled. It
 * runs most of the code that an ordinary pod needs, and no kernel module except veth.
 */
export const WARM_UP_NETWORK: WarmUpNetwork = {
  types: ["ptp", "host-local", "sbr"],
  confOf: (directory) => {
    const ipam = {
      type: "host-local",
      subnet: "198.18.0.0/24",
      dataDir: `${directory}/leases`,
    };
    const network = { cniVersion: "1.0.0", name: "warm-up" };
    const plugins = [{ type: "ptp", ipam }, { type: "sbr" }];
    return {
      ...network,
      type: "multus",
      cniDir: `${directory}/multus`,
      binDir: directory,
      delegates: [{ ...network, plugins }],
    };
  },
};

/** multus in a daemon, which disposes of it on exit. */
export class MultusService implements Disposable {
  /** multus with the daemon's connection to the API server, if it has one. */
  readonly plugin: Plugin;
  readonly #options: MultusServiceOptions;
  readonly #overlay: JsonObject;
  readonly #cluster: ResidentCluster | undefined;
  readonly #missing: MissingNetworksWatch | undefined;
  readonly #addresses: AddressWatch | undefined;

  /**
   * Opens it. It sends requests to the API server only when it runs.
   *
   * @throws {CniError} 5 if the configuration cannot be read, 6 if it is not a
   *   JSON object
   */
  constructor(options: MultusServiceOptions) {
    this.#options = options;
    this.#overlay = readOverlay(options.config);
    this.#cluster = ResidentCluster.open(options);
    const { openCluster, pods, definitions } = this.#cluster ?? {};
    this.#addresses = pods && definitions && new AddressWatch({
      ...options,
      hostNetns: OWN_NETNS,
      pods,
      definitions,
      replace: async (pod, change, signal) =>
        await this.#cluster?.replaceAnnotation(pod, change, signal) ?? false,
    });
    this.#missing = pods && new MissingNetworksWatch({
      ...options,
      pods,
      post: (event) => this.#cluster?.post(event),
    });
    this.plugin = createMultus({ openCluster }) as Plugin;
  }

  /** Returns the handler of calls that are not the plugin's own. */
  serve(
    lookup: PluginLookup,
  ): Pick<DaemonOptions, "handle" | "translate" | "identify"> {
    const { env, onStderr } = this.#options;
    const overlay = this.#overlay;
    const scene = { lookup, env, overlay, onStderr };
    return {
      handle: (request, daemon) => this.#answer(request, daemon, lookup),
      translate: (request) => translateShimCall(request, scene),
      identify: (request) => identifyShimCall(request, overlay),
    };
  }

  #answer(
    request: Request,
    { calls, isEnding, caller }: RunningDaemon,
    lookup: PluginLookup,
  ): Promise<Response> | undefined {
    const { env, onStderr } = this.#options;
    const { openCluster } = this.#cluster ?? {};
    const from = new URL(request.url).pathname;
    const run = async (
      { hotPlug, ...call }: ThickCall,
    ): Promise<{ stdout: string; exitCode: 0 | 1 }> => {
      const plugin = hotPlug === undefined
        ? await lookup("multus")
        : (await import("./operations/hot_plug.ts"))
          .createHotPlug(hotPlug, { openCluster });
      if (plugin === undefined) {
        throw new Error("this daemon does not include multus");
      }
      const progress = new CallProgress(caller, "waiting");
      const entry = { ...call, progress, plugin, onStderr, from };
      const ended = await calls.run(entry);
      calls.report(ended);
      const { outcome } = ended;
      if ("declined" in outcome) throw new Error(outcome.declined);
      return outcome;
    };
    const overlay = this.#overlay;
    return answerThick(request, { run, overlay, env, isEnding });
  }

  /** Watches the objects of the cluster, and posts events, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([
      this.#cluster?.run(signal),
      this.#missing?.run(signal),
      this.#addresses?.run(signal),
    ]);
  }

  /** Posts the remaining events after `run()`, within a time limit. */
  async finish(withinMs: number): Promise<void> {
    await this.#cluster?.finish(withinMs);
  }

  /** Describes pods that lack networks, if the node's pods are in memory. */
  describe(): { readonly missingNetworks?: readonly MissingNetworks[] } {
    const { pods: missingNetworks } = this.#missing ?? {};
    return missingNetworks === undefined ? {} : { missingNetworks };
  }

  /** Values for the daemon's metrics. */
  listGauges(): Gauge[] {
    const cluster = this.#cluster, missing = this.#missing;
    const addresses = this.#addresses;
    if (cluster === undefined) return [];
    return [
      ...addresses === undefined ? [] : [{
        name: "cni_daemon_network_status_updates_total",
        type: "counter" as const,
        help: "Statuses of pods written because a network changed addresses.",
        read: (): ReturnType<Gauge["read"]> => [[{}, addresses.updates]],
      }],
      ...missing === undefined ? [] : [{
        name: "cni_daemon_pods_missing_networks",
        help: "Pods that run without a network that they request.",
        read: (): ReturnType<Gauge["read"]> => [[{}, missing.count]],
      }],
      {
        name: "cni_daemon_watch_current",
        help: "Whether a watch of the API server works.",
        read: () =>
          cluster.watches.map(({ what, isCurrent }) =>
            [{ objects: what }, Number(isCurrent)] as const
          ),
      },
      {
        name: "cni_daemon_objects",
        help: "Kubernetes objects in memory.",
        read: () =>
          cluster.watches.map(({ what, size }) =>
            [{ objects: what }, size] as const
          ),
      },
      {
        name: "cni_daemon_events_waiting",
        help: "Kubernetes events that are not posted yet.",
        read: () => [[{}, cluster.waitingEvents]],
      },
    ];
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    this.#cluster?.[Symbol.dispose]();
  }
}

/** Reads the configuration for calls over multus.sock. */
function readOverlay(path: string): JsonObject {
  if (path === "") return {};
  const value = parseJson(readText(path), `"${path}"`);
  if (isObject(value)) return value as JsonObject;
  throw new CniError(
    ErrorCode.DecodingFailure,
    `Cannot use "${path}": it is not a JSON object`,
  );
}

function readText(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw new CniError(
      ErrorCode.IoFailure,
      `Cannot read "${path}": ${describeError(error)}`,
    );
  }
}

/** Opens a daemon's log, in multus' format: to stderr, which its supervisor collects. */
export function openDaemonLog(
  logLevel: MultusLogLevel,
  onStderr: (text: string) => void,
): OperationLog {
  const logOptions = {
    maxAgeDays: 0,
    maxSizeMegabytes: 0,
    maxBackups: 0,
    compress: false,
  };
  return new OperationLog(
    { logLevel, logToStderr: true, logOptions },
    onStderr,
  );
}
