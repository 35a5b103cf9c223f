/**
 * Pods that run without networks that their annotations request: the runtime attached
 * them with a different configuration while multus' configuration was missing, or the
 * annotation was changed later.
 *
 * A pod with an address has a sandbox, and ADD has ended. Multus' status is complete
 * only then, so a pod that is being created is never reported.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { CniError, describeError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { isObject, parseJson } from "../../base/json/json.ts";
import type { Log } from "../../base/log/log.ts";
import type { Event, Pod } from "../../kube/types.ts";
import type { Informer } from "../../kube/resident/informer.ts";
import { networkFailed } from "./report/events.ts";
import { NETWORK_STATUS } from "./report/network_status.ts";
import { DEFAULT_NETWORK, NETWORKS } from "./select/select.ts";

/** A pod that lacks networks. */
export interface MissingNetworks {
  /** The pod, `namespace/name`. */
  readonly pod: string;
  /**
   * The networks, `namespace/name`; or the reason why the annotation cannot be read.
   */
  readonly networks: readonly string[];
}

/** An attachment on this node, with its pod and network definition. */
export interface DefinedAttachment {
  /** The pod, `namespace/name`; undefined if unknown. */
  readonly pod: string | undefined;
  readonly ifName: string;
  /** Whether the namespace exists; undefined if unknown. */
  readonly isLive: boolean | undefined;
  /** The definition, `namespace/name`; undefined if unknown. */
  readonly definition: string | undefined;
}

/** A requested or attached network of a pod. */
interface PodNetwork {
  /** The network, `namespace/name`; only the name of the default network. */
  readonly name: string;
  readonly ifName?: string | undefined;
}

/**
 * Lists the requested networks that a pod lacks. `attachments` is called only if
 * networks are missing from the pod's status.
 *
 * @returns None for a pod without requests, on the host network, that has ended or is
 * being deleted, or without an address
 */
export async function findMissingNetworks(
  pod: Pod,
  attachments: () => Promise<readonly DefinedAttachment[]>,
): Promise<string[]> {
  if (!mayLack(pod)) return [];
  const { namespace = "", name = "" } = pod.metadata ?? {};
  try {
    const lacking = subtract(await listRequested(pod), listStatus(pod));
    if (lacking.length === 0) return [];
    const own = (await attachments()).filter((one) =>
      one.isLive !== false && one.pod === `${namespace}/${name}`
    );
    // An attachment without interfaces has no entry in the status.
    const recorded = own.flatMap(({ definition: name = "", ifName }) =>
      name === "" ? [] : [{ name, ifName }]
    );
    return subtract(lacking, recorded).map(({ name }) => name);
  } catch (error) {
    if (error instanceof CniError) return [error.message];
    throw error;
  }
}

/** Reports whether a pod requests networks, and its ADD must have ended. */
function mayLack({ metadata, spec, status }: Pod): boolean {
  const { annotations = {}, deletionTimestamp } = metadata ?? {};
  const { phase = "", podIP = "" } = status ?? {};
  return Boolean(annotations[NETWORKS] || annotations[DEFAULT_NETWORK]) &&
    !spec?.hostNetwork && deletionTimestamp === undefined && podIP !== "" &&
    !["Succeeded", "Failed"].includes(phase);
}

/** @throws {CniError} 7 If an annotation is malformed */
async function listRequested({ metadata }: Pod): Promise<PodNetwork[]> {
  const { annotations = {}, namespace = "" } = metadata ?? {};
  const { [NETWORKS]: networks = "", [DEFAULT_NETWORK]: master } = annotations;
  // Lazy: nodes without such pods do not need it.
  const { parseDefaultNetwork, parseNetworks } = await import(
    "./select/annotations.ts"
  );
  const others = parseNetworks(networks, namespace).map((network) => ({
    name: `${network.namespace}/${network.name}`,
    ifName: network.request.ifName,
  }));
  if (!master) return others;
  // Its default namespace is a key of multus' configuration.
  const { name } = parseDefaultNetwork(master, namespace);
  return [{ name }, ...others];
}

/**
 * Lists the networks in the status. If the default interface in the status has none
 * of the pod's addresses, the status describes an earlier sandbox, before a reboot.
 */
function listStatus({ metadata, status }: Pod): PodNetwork[] {
  const text = metadata?.annotations?.[NETWORK_STATUS] ?? "";
  const entries = ifPossible(() => parseJson(text));
  if (!Array.isArray(entries)) return [];
  const own = [
    status?.podIP,
    ...status?.podIPs?.map(({ ip }) => ip) ?? [],
  ];
  const found = entries.filter(isObject);
  const isOld = found.some(({ default: isDefault, ips }) =>
    isDefault === true && Array.isArray(ips) && ips.length > 0 &&
    !ips.some((ip) => own.some((one) => one === ip))
  );
  if (isOld) return [];
  return found.flatMap(({ name, interface: ifName }) =>
    typeof name === "string"
      ? [{ name, ifName: typeof ifName === "string" ? ifName : undefined }]
      : []
  );
}

/** Lists the requested networks that are not in a second list, each counted once. */
function subtract(
  requested: readonly PodNetwork[],
  others: readonly PodNetwork[],
): PodNetwork[] {
  const left = [...others];
  const isNamed = ({ ifName }: PodNetwork): number => ifName ? 0 : 1;
  const missing = new Set(requested);
  // Requests that name their interface choose first.
  for (
    const one of requested.toSorted((a, b) => isNamed(a) - isNamed(b))
  ) {
    const at = left.findIndex(({ name, ifName }) =>
      (one.name.includes("/") ? name : name.split("/").at(-1)) === one.name &&
      (!one.ifName || ifName === undefined || ifName === one.ifName)
    );
    if (at === -1) continue;
    left.splice(at, 1);
    missing.delete(one);
  }
  return [...missing];
}

/**
 * How often pods are checked, and how often to check whether pods are in memory, in
 * ms.
 */
const LOOK_MS = 30_000, WAIT_MS = 1000;

/** The most pods that are described. */
const MOST_SHOWN = 100;

/** Options of a {@linkcode MissingNetworksWatch}. */
export interface MissingNetworksOptions {
  /** The pods of the node. */
  readonly pods: Pick<Informer<Pod>, "list" | "isCurrent">;
  /** Lists the attachments that are recorded on the node. */
  readonly attachments: () => Promise<readonly DefinedAttachment[]>;
  /** Posts an event, in the background. */
  readonly post: (event: Event) => void;
  readonly log: Pick<Log, "warn">;
  /** See {@linkcode LOOK_MS}. */
  readonly lookMs?: number;
}

/** A pod that lacked networks in the last check. */
interface Lacking extends MissingNetworks {
  /** Whether it also lacked them in the check before, and was reported. */
  readonly isReported: boolean;
}

/**
 * Checks the node's pods, and reports each pod that lacks a network in two
 * consecutive checks, because attaching a network to a running pod takes time.
 */
export class MissingNetworksWatch {
  readonly #options: MissingNetworksOptions;
  /** Pods without missing networks, by UID, as compared text. */
  #complete: ReadonlyMap<string, string> = new Map();
  /** Pods with missing networks, by UID. */
  #lacking: ReadonlyMap<string, Lacking> = new Map();

  /** Starts without pods. */
  constructor(options: MissingNetworksOptions) {
    this.#options = options;
  }

  /** The pods that lack networks; at most 100. */
  get pods(): MissingNetworks[] {
    return this.#reported.slice(0, MOST_SHOWN)
      .map(({ pod, networks }) => ({ pod, networks }));
  }

  /** How many pods lack networks. */
  get count(): number {
    return this.#reported.length;
  }

  get #reported(): Lacking[] {
    return [...this.#lacking.values()].filter(({ isReported }) => isReported);
  }

  /** Checks the pods until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { pods, log, lookMs = LOOK_MS } = this.#options;
    let problem = "";
    while (!signal.aborted) {
      try {
        // An outdated informer does not show the current pods.
        if (pods.isCurrent) await this.#look();
        problem = "";
      } catch (error) {
        const text = describeError(error);
        if (text !== problem) {
          log.warn("Cannot look for missing networks", { error: text });
        }
        problem = text;
      }
      const isWaiting = !pods.isCurrent && this.#complete.size === 0;
      await pause(isWaiting ? Math.min(lookMs, WAIT_MS) : lookMs, signal);
    }
  }

  async #look(): Promise<void> {
    let read: Promise<readonly DefinedAttachment[]> | undefined;
    const attachments = (): Promise<readonly DefinedAttachment[]> =>
      read ??= this.#options.attachments();
    const complete = new Map<string, string>();
    const lacking = new Map<string, Lacking>();
    for (const { text, uids: [uid = ""] } of this.#options.pods.list()) {
      if (!text.includes(`"${NETWORKS}"`) && !text.includes(DEFAULT_NETWORK)) {
        continue;
      }
      const isKnown = this.#complete.get(uid) === text;
      const pod: Pod | undefined = isKnown ? undefined : JSON.parse(text);
      const networks = pod && await findMissingNetworks(pod, attachments);
      if (!networks?.length) complete.set(uid, text);
      else lacking.set(uid, this.#judge(uid, pod as Pod, networks));
    }
    this.#complete = complete;
    this.#lacking = lacking;
  }

  #judge(uid: string, object: Pod, networks: string[]): Lacking {
    const { namespace = "", name = "" } = object.metadata ?? {};
    const pod = `${namespace}/${name}`;
    const before = this.#lacking.get(uid);
    if (before === undefined) return { pod, networks, isReported: false };
    const isSame = before.networks.join() === networks.join();
    if (before.isReported && isSame) return before;
    const { post, log } = this.#options;
    log.warn("A pod runs without networks that it requests", {
      pod,
      networks: networks.join(", "),
    });
    post(networkFailed({ namespace, name, uid, object }, {
      reason: "NetworkMissing",
      message: `The pod runs without ${networks.join(", ")}. To attach what ` +
        "it requests, delete the pod and create it again",
    }));
    return { pod, networks, isReported: true };
  }
}
