/**
 * Addresses that change while a pod runs: its network has renumbered, or a lease
 * has expired. The status annotation of the pod follows.
 *
 * Only attachments are looked at whose IPAM plugin asks the network for addresses.
 * A socket that hears of changes would keep the namespace of a deleted pod alive,
 * and the devices in it away from the host, so there are short looks instead.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { findFileId } from "../../base/files/same_file.ts";
import {
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../base/json/json.ts";
import type { Log } from "../../base/log/log.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { isLearned } from "../../cni/result/learned.ts";
import type { Result } from "../../cni/result/result.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { AnnotationChange, PodKey } from "../../kube/client.ts";
import type { Informer } from "../../kube/resident/informer.ts";
import type { NetworkAttachmentDefinition, Pod } from "../../kube/types.ts";
import { isUsable, listGiven } from "../parts/address/learned_addresses.ts";
import { typeHas } from "../parts/address/ipam_traits.ts";
import { listRouters } from "../parts/address/router_advertisements.ts";
import { runsType } from "./model/delegate.ts";
import { NETWORK_STATUS } from "./report/network_status.ts";
import {
  type CurrentAddresses,
  listOtherNames,
  updateNetworkStatus,
} from "./report/status_update.ts";

/** An attachment on this node, as far as it says where its addresses are. */
export interface AddressedAttachment {
  /** `namespace/name`; undefined if unknown. */
  readonly pod: string | undefined;
  readonly ifName: string;
  readonly netns: string;
  /** Whether the namespace exists; undefined if unknown. */
  readonly isLive: boolean | undefined;
  /** Name of the multus network that made it; undefined if a runtime made it. */
  readonly via: string | undefined;
  /** When its ADD ended. */
  readonly since: Date;
  /** The configuration of its network. */
  readonly config: Uint8Array;
  /** The result of ADD. */
  readonly result: JsonObject | undefined;
}

/** How often addresses are looked at, in ms. */
const LOOK_MS = 5000;
/**
 * A pause takes so many times as long as the work of the look before it, up to a
 * limit in ms.
 */
const SHARE = 50, LONGEST_MS = 30_000;
/** How long sandboxes are read before calls get their turn, in ms. */
const TURN_MS = 5;
/** How long a pod is left alone after its status could not be written, in ms. */
const RETRY_MS = 30_000;
/**
 * How many writes for a pod may follow one another, and then one in so many ms: a
 * router that keeps changing its prefix must not keep the API server busy.
 */
const BURST = 10, EVERY_MS = 60_000;

/** Options of an {@linkcode AddressWatch}. */
export interface AddressWatchOptions {
  /** The pods of the node. */
  readonly pods: Pick<Informer<Pod>, "list" | "isCurrent">;
  readonly definitions: Pick<Informer<NetworkAttachmentDefinition>, "find">;
  /** Lists what is recorded on the node. */
  readonly attachments: () => Promise<readonly AddressedAttachment[]>;
  /**
   * Replaces an annotation of a pod, unless its value has changed.
   *
   * @returns Whether it is replaced
   */
  readonly replace: (
    pod: PodKey,
    change: Required<AnnotationChange>,
    signal: AbortSignal,
  ) => Promise<boolean>;
  readonly log: Pick<Log, "info" | "warn">;
  /** See {@linkcode LOOK_MS}. */
  readonly lookMs?: number;
}

/** A pod as it was when its attachments were looked up. */
interface Known {
  /** Its cached part. */
  readonly text: string;
  readonly pod: PodKey;
  readonly status: string;
  /** Those whose addresses may change. */
  readonly followed: readonly Followed[];
  /** When its status may be written again, in ms of the process's clock. */
  notBeforeMs: number;
  /** When its writes would end if they came every {@linkcode EVERY_MS}, likewise. */
  writesEndMs: number;
}

/** An attachment whose addresses may change. */
interface Followed {
  readonly netns: string;
  readonly ifName: string;
  readonly result: Result;
}

/** Looks at the addresses of pods, and brings their status up to date. */
export class AddressWatch {
  readonly #options: AddressWatchOptions;
  /** By UID. */
  #known: ReadonlyMap<string, Known> = new Map();
  /** How often a status was replaced. */
  updates = 0;
  #problem = "";
  /** How long the last look has waited for the API server and for calls, in ms. */
  #waitedMs = 0;

  /** Starts without pods. */
  constructor(options: AddressWatchOptions) {
    this.#options = options;
  }

  /** Looks at the pods until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { pods, lookMs = LOOK_MS } = this.#options;
    while (!signal.aborted) {
      const startMs = performance.now();
      this.#waitedMs = 0;
      try {
        // What is old in memory says nothing about pods of now.
        if (pods.isCurrent) await this.#look(signal);
      } catch (error) {
        this.#warn(error);
      }
      const workMs = performance.now() - startMs - this.#waitedMs;
      const restMs = Math.min(SHARE * workMs, LONGEST_MS);
      await pause(Math.max(lookMs, restMs), signal);
    }
  }

  async #waitFor<T>(promise: Promise<T>): Promise<T> {
    const startMs = performance.now();
    try {
      return await promise;
    } finally {
      this.#waitedMs += performance.now() - startMs;
    }
  }

  #warn(error: unknown): void {
    const text = describeError(error);
    if (text !== this.#problem) {
      const message = "Cannot bring the network status of pods up to date";
      this.#options.log.warn(message, { error: text });
    }
    this.#problem = text;
  }

  async #look(signal: AbortSignal): Promise<void> {
    const known = await this.#lookUp();
    this.#known = known;
    let turnMs = performance.now();
    for (const [uid, one] of known) {
      // A write to a server that is away takes its whole time limit.
      if (signal.aborted || !this.#options.pods.isCurrent) return;
      if (one.followed.length === 0) continue;
      const current = one.followed.map(readCurrent);
      // The sandbox was replaced or deleted: its attachments are looked up again.
      if (current.includes("gone")) known.delete(uid);
      else await this.#update(one, current.filter(isPresent), signal);
      if (performance.now() - turnMs < TURN_MS) continue;
      await this.#waitFor(pause(0));
      turnMs = performance.now();
    }
  }

  /** Looks up the attachments of pods that are new or have changed. */
  async #lookUp(): Promise<Map<string, Known>> {
    const known = new Map<string, Known>();
    let attachments: readonly AddressedAttachment[] | undefined;
    for (const { text, uids: [uid = ""] } of this.#options.pods.list()) {
      const before = this.#known.get(uid);
      if (before?.text === text) {
        known.set(uid, before);
        continue;
      }
      if (!text.includes(NETWORK_STATUS)) continue;
      const { metadata: { namespace = "", name = "", annotations = {} } = {} } =
        JSON.parse(text) as Pod;
      const { [NETWORK_STATUS]: status = "" } = annotations;
      const mayChange = listOtherNames(status)
        .some((name) => this.#mayChange(name));
      attachments ??= mayChange ? await this.#options.attachments() : undefined;
      known.set(uid, {
        text,
        pod: { namespace, name, uid },
        status,
        followed: mayChange
          ? listFollowed(`${namespace}/${name}`, attachments ?? [])
          : [],
        notBeforeMs: before?.notBeforeMs ?? 0,
        writesEndMs: before?.writesEndMs ?? 0,
      });
    }
    return known;
  }

  /** Reports whether a network may give addresses, by its definition in memory. */
  #mayChange(name: string): boolean {
    const [namespace = "", definition = ""] = name.split("/");
    const text = this.#options.definitions.find(namespace, definition)?.text;
    const { spec }: NetworkAttachmentDefinition = JSON.parse(text ?? "{}");
    // Without a configuration there, a file has it.
    if (!spec?.config) return true;
    return asksNetwork(new TextEncoder().encode(spec.config));
  }

  async #update(
    one: Known,
    current: readonly CurrentAddresses[],
    signal: AbortSignal,
  ): Promise<void> {
    const { pod, status: value } = one;
    const next = updateNetworkStatus(value, current);
    const nowMs = performance.now();
    const isEarly = nowMs < one.notBeforeMs ||
      one.writesEndMs - nowMs > (BURST - 1) * EVERY_MS;
    if (next === undefined || isEarly) return;
    one.writesEndMs = Math.max(one.writesEndMs, nowMs) + EVERY_MS;
    const { replace, log } = this.#options;
    try {
      const change = { key: NETWORK_STATUS, value, next };
      // Otherwise, what another program wrote arrives by the watch.
      if (!await this.#waitFor(replace(pod, change, signal))) return;
      this.updates++;
      this.#problem = "";
      log.info("A network has changed the addresses of a pod", {
        pod: `${pod.namespace}/${pod.name}`,
        now: current.map(({ ifName, ips }) => `${ifName}: ${ips.join(", ")}`)
          .join("; "),
      });
    } catch (error) {
      one.notBeforeMs = performance.now() + RETRY_MS;
      if (!signal.aborted) this.#warn(error);
    }
  }
}

/** Reports whether a configuration's IPAM plugin gets addresses from the network. */
function asksNetwork(config: Uint8Array): boolean {
  const document = ifPossible(() => parseJson(config)) as JsonValue | undefined;
  return document !== undefined &&
    runsType(document, (type) => typeHas(type, "asks over link"));
}

/** Lists the interfaces of a pod whose addresses may change; of several sandboxes, those of the last. */
function listFollowed(
  pod: string,
  attachments: readonly AddressedAttachment[],
): Followed[] {
  const own = attachments
    .filter((one) =>
      one.pod === pod && one.isLive === true && one.via !== undefined &&
      !isGone(one)
    )
    .toSorted((left, right) => left.since.getTime() - right.since.getTime());
  const newest = new Map(own.map((one) => [one.ifName, one]));
  return [...newest.values()].flatMap(({ netns, ifName, config, result }) => {
    const decoded = ifPossible(() => result && decodeResult(result));
    return decoded !== undefined && asksNetwork(config)
      ? [{ netns, ifName, result: decoded }]
      : [];
  });
}

/** Reports whether a namespace is deleted. The path of a process that has ended may be another's. */
function isGone({ netns }: Pick<Followed, "netns">): boolean {
  const id = findFileId(netns);
  return id === undefined || id === findFileId(OWN_NETNS);
}

function isPresent(
  one: CurrentAddresses | "gone" | undefined,
): one is CurrentAddresses {
  return typeof one === "object";
}

/**
 * Reads what an interface has now.
 *
 * @returns `gone` without the namespace; undefined without the interface, or while
 *   its addresses are checked for duplicates
 */
function readCurrent(
  { netns, ifName, result }: Followed,
): CurrentAddresses | "gone" | undefined {
  if (isGone({ netns })) return "gone";
  return ifPossible(() => {
    using sandbox = Rtnl.open(netns);
    const link = sandbox.link.find(ifName);
    if (link === undefined) return undefined;
    const given = listGiven(sandbox, link, result);
    if (given.some((one) => one.isTentative && !one.hasDadFailed)) {
      return undefined;
    }
    const hasRouters = result.routes.some((route) =>
      isLearned(route) && route.dst.prefixLength === 0
    );
    return {
      ifName,
      mac: link.mac?.toString(),
      ips: given.filter(isUsable).map(({ address }) => `${address.ip}`),
      routers: hasRouters ? listRouters(sandbox, link).map(String) : undefined,
    };
  });
}
