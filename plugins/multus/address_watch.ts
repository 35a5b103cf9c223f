/**
 * Follows addresses that change while a pod runs, because its network was renumbered
 * or a lease has expired, and updates the pod's status annotation.
 *
 * Only attachments whose IPAM plugin requests addresses from the network are checked.
 * A socket in the namespace of a deleted pod would keep the namespace alive, and its
 * devices away from the host. So a single socket of the daemon is notified that any
 * namespace has changed, and short checks find out which.
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
import type { Result } from "../../cni/result/result.ts";
import { AddressChanges } from "../../ffi/rtnl/address_changes.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { AnnotationChange, PodKey } from "../../kube/client.ts";
import type { Informer } from "../../kube/resident/informer.ts";
import type { NetworkAttachmentDefinition, Pod } from "../../kube/types.ts";
import { isUsable } from "../parts/address/learned_addresses.ts";
import { typeHas } from "../parts/traits.ts";
import {
  hadRouter,
  readNetworkInterface,
} from "../parts/address/network_interface.ts";
import type { Attachment } from "../../cni/config/types.ts";
import { isOfAnotherResult } from "../parts/sandbox/prev_result.ts";
import { runsType } from "./model/delegate.ts";
import { NETWORK_STATUS } from "./report/network_status.ts";
import {
  type CurrentAddresses,
  listOtherNames,
  updateNetworkStatus,
} from "./report/status_update.ts";

/** An attachment on this node, with its namespace and configuration. */
export interface AddressedAttachment extends Attachment {
  /** The pod, `namespace/name`; undefined if unknown. */
  readonly pod: string | undefined;
  readonly netns: string;
  /** Whether the namespace exists; undefined if unknown. */
  readonly isLive: boolean | undefined;
  /** Name of the multus network that created it; undefined if a runtime created it. */
  readonly via: string | undefined;
  /** When its ADD ended. */
  readonly since: Date;
  /** The configuration of its network. */
  readonly config: Uint8Array;
  /** The result of ADD. */
  readonly result: JsonObject | undefined;
}

/** How often addresses are checked after a change, in ms. */
const LOOK_MS = 5000;
/** How often addresses are checked without a change, in ms. */
const UNHEARD_MS = 300_000;
/**
 * The pause after a check is this many times its duration, up to a limit in ms.
 */
const SHARE = 50, LONGEST_MS = 30_000;
/** For how long sandboxes are read before other calls can run, in ms. */
const TURN_MS = 5;
/** The pause after a pod's status could not be written, in ms. */
const RETRY_MS = 30_000;
/**
 * How many writes for a pod can follow one another, and the interval of further
 * writes in ms: a router that keeps changing its prefix must not keep the API server
 * busy.
 */
const BURST = 10, EVERY_MS = 60_000;

/** Options of an {@linkcode AddressWatch}. */
export interface AddressWatchOptions {
  /** The pods of the node. */
  readonly pods: Pick<Informer<Pod>, "list" | "isCurrent">;
  readonly definitions: Pick<Informer<NetworkAttachmentDefinition>, "find">;
  /** Lists the attachments that are recorded on the node. */
  readonly attachments: () => Promise<readonly AddressedAttachment[]>;
  /**
   * Replaces an annotation of a pod, unless its value has changed in the meantime.
   *
   * @returns Whether the annotation was replaced
   */
  readonly replace: (
    pod: PodKey,
    change: Required<AnnotationChange>,
    signal: AbortSignal,
  ) => Promise<boolean>;
  readonly log: Pick<Log, "info" | "warn">;
  /**
   * Path of the namespace in which to listen for changes; undefined to listen for
   * none.
   */
  readonly hostNetns?: string;
  /** See {@linkcode LOOK_MS}. */
  readonly lookMs?: number;
}

/** A pod when its attachments were looked up. */
interface Known {
  /** The compared part of the pod, as text. */
  readonly text: string;
  readonly pod: PodKey;
  readonly status: string;
  /** The attachments whose addresses can change. */
  readonly followed: readonly Followed[];
  /** Whether changes of all of them are reported. */
  readonly isHeard: boolean;
  /** Whether the status was correct, and no change has been reported since. */
  isSettled: boolean;
  /** When its status can be written again, in ms of the process's clock. */
  notBeforeMs: number;
  /**
   * When its writes would end if they were {@linkcode EVERY_MS} apart, in ms of the
   * process's clock.
   */
  writesEndMs: number;
}

/**
 * An attachment, and the namespace to which its path led at first, if it was its own.
 */
type LocatedAttachment = AddressedAttachment & Pick<Followed, "netnsId">;

/** An attachment whose addresses can change. */
interface Followed {
  readonly netns: string;
  /** The namespace to which the path led at first; undefined for none. */
  readonly netnsId: string | undefined;
  readonly ifName: string;
  readonly result: Result;
}

/** Checks the addresses of pods, and updates their status. */
export class AddressWatch {
  readonly #options: AddressWatchOptions;
  /** The pods by UID. */
  #known: ReadonlyMap<string, Known> = new Map();
  /** The results of {@linkcode findOwnNetns} when attachments were first seen. */
  #netnsIds: ReadonlyMap<string, string | undefined> = new Map();
  /** How often a status was replaced. */
  updates = 0;
  #problem = "";
  /** How long the last check waited for the API server and for calls, in ms. */
  #waitedMs = 0;
  #changes: AddressChanges | undefined;
  /**
   * When all addresses were last checked without a change, in ms of the process's
   * clock.
   */
  #wholeMs = 0;
  /** Whether the records of earlier pods than this process were read. */
  #hasLookedUp = false;

  /** Starts without pods. */
  constructor(options: AddressWatchOptions) {
    this.#options = options;
  }

  /** Checks the pods until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { pods, lookMs = LOOK_MS, hostNetns } = this.#options;
    // Without the permission, all addresses are checked each time.
    using changes = hostNetns === undefined
      ? undefined
      : ifPossible(() => AddressChanges.open(hostNetns));
    this.#changes = changes;
    while (!signal.aborted) {
      const startMs = performance.now();
      this.#waitedMs = 0;
      try {
        // An outdated informer does not show the current pods.
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
    this.#unsettle(known);
    let turnMs = performance.now();
    for (const [uid, one] of known) {
      // A write to an unreachable server takes its whole time limit.
      if (signal.aborted || !this.#options.pods.isCurrent) return;
      // The sandbox was replaced or deleted, so its attachments are looked up again.
      if (one.followed.some(isReplaced)) known.delete(uid);
      else if (one.followed.length === 0 || one.isSettled) continue;
      else {
        const read = one.followed.map((each) => this.#read(each));
        const hasFailed = read.includes("failed");
        const current = read.flatMap((each) => each === "failed" ? [] : each);
        await this.#update(one, { current, hasFailed }, signal);
      }
      if (performance.now() - turnMs < TURN_MS) continue;
      await this.#waitFor(pause(0));
      turnMs = performance.now();
    }
  }

  /**
   * Marks all pods for a check after a change, or after a long time without changes.
   */
  #unsettle(known: ReadonlyMap<string, Known>): void {
    const nowMs = performance.now();
    const isHeard = this.#changes?.take() ?? true;
    if (!isHeard && nowMs - this.#wholeMs < UNHEARD_MS) return;
    this.#wholeMs = nowMs;
    for (const one of known.values()) one.isSettled = false;
  }

  /** Reads the current addresses of an interface, if they can be determined. */
  #read(followed: Followed): readonly CurrentAddresses[] | "failed" {
    try {
      const current = readCurrent(followed);
      return current === undefined ? [] : [current];
    } catch (error) {
      // The deletion of a sandbox is not a problem.
      if (!isReplaced(followed)) this.#warn(error);
      return "failed";
    }
  }

  /** Starts to listen for changes of an attachment. @returns Whether it does */
  #follow({ netns }: Followed): boolean {
    return ifPossible(() => {
      this.#changes?.follow(netns);
      return this.#changes !== undefined;
    }) ?? false;
  }

  /** Looks up the attachments of new and changed pods. */
  async #lookUp(): Promise<Map<string, Known>> {
    const known = new Map<string, Known>();
    let attachments: readonly LocatedAttachment[] | undefined;
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
      // A definition might have been edited in the meantime.
      const isOld = before === undefined
        ? !this.#hasLookedUp
        : before.followed.length > 0;
      const mayChange = listOtherNames(status)
        .some((name) => isOld || this.#mayChange(name));
      attachments ??= mayChange ? await this.#locate() : undefined;
      const followed = mayChange
        ? listFollowed(`${namespace}/${name}`, attachments ?? [])
        : [];
      known.set(uid, {
        text,
        pod: { namespace, name, uid },
        status,
        followed,
        isHeard: followed.map((one) => this.#follow(one)).every(Boolean),
        isSettled: false,
        notBeforeMs: before?.notBeforeMs ?? 0,
        writesEndMs: before?.writesEndMs ?? 0,
      });
    }
    this.#hasLookedUp = true;
    return known;
  }

  /**
   * Reads the attachments and their namespaces. After a process has ended, its path
   * can lead to a different container's namespace.
   */
  async #locate(): Promise<LocatedAttachment[]> {
    const attachments = await this.#options.attachments();
    const keyOf = ({ netns, ifName, since }: AddressedAttachment): string =>
      `${since.getTime()} ${ifName} ${netns}`;
    const known = this.#netnsIds;
    this.#netnsIds = new Map(attachments.map((one) => {
      const key = keyOf(one);
      return [key, known.has(key) ? known.get(key) : findOwnNetns(one)];
    }));
    return attachments.map((one) => ({
      ...one,
      netnsId: this.#netnsIds.get(keyOf(one)),
    }));
  }

  /**
   * Reports whether a network's addresses can change, according to its cached
   * definition.
   */
  #mayChange(name: string): boolean {
    const [namespace = "", definition = ""] = name.split("/");
    const text = this.#options.definitions.find(namespace, definition)?.text;
    const { spec }: NetworkAttachmentDefinition = JSON.parse(text ?? "{}");
    // Without `config`, the configuration is in a file.
    if (!spec?.config) return true;
    return asksNetwork(new TextEncoder().encode(spec.config));
  }

  async #update(
    one: Known,
    { current, hasFailed }: {
      readonly current: readonly CurrentAddresses[];
      readonly hasFailed: boolean;
    },
    signal: AbortSignal,
  ): Promise<void> {
    const { pod, status: value } = one;
    const next = updateNetworkStatus(value, current);
    // If a read fails, the same change is not reported again.
    one.isSettled = next === undefined && one.isHeard && !hasFailed;
    const nowMs = performance.now();
    const isEarly = nowMs < one.notBeforeMs ||
      one.writesEndMs - nowMs > (BURST - 1) * EVERY_MS;
    if (next === undefined || isEarly) return;
    one.writesEndMs = Math.max(one.writesEndMs, nowMs) + EVERY_MS;
    const { replace, log } = this.#options;
    try {
      const change = { key: NETWORK_STATUS, value, next };
      // Otherwise, the other program's write arrives through the informer.
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

/**
 * Reports whether a configuration's IPAM plugin requests addresses from the network.
 */
function asksNetwork(config: Uint8Array): boolean {
  const document = ifPossible(() => parseJson(config)) as JsonValue | undefined;
  return document !== undefined &&
    runsType(document, (type) => typeHas(type, "asks over link"));
}

/**
 * Lists the interfaces of a pod whose addresses can change; in the newest of several
 * sandboxes.
 */
function listFollowed(
  pod: string,
  attachments: readonly LocatedAttachment[],
): Followed[] {
  const own = attachments
    .filter((one) =>
      one.pod === pod && one.isLive === true && one.via !== undefined &&
      !isGone(one)
    )
    .toSorted((left, right) => left.since.getTime() - right.since.getTime());
  const newest = new Map(own.map((one) => [one.ifName, one]));
  return [...newest.values()].flatMap(({ config, result, ...one }) => {
    const { netns, netnsId, ifName } = one;
    const decoded = ifPossible(() => result && decodeResult(result));
    return decoded !== undefined && asksNetwork(config)
      ? [{ netns, netnsId, ifName, result: decoded }]
      : [];
  });
}

/**
 * Reports whether a namespace was deleted. Its path can lead to a different namespace
 * now.
 */
function isGone(
  { netns, netnsId }: Pick<Followed, "netns" | "netnsId">,
): boolean {
  const id = findFileId(netns);
  return id === undefined || id !== netnsId || id === findFileId(OWN_NETNS);
}

/**
 * Returns the namespace to which the path of an attachment leads. The path might have
 * led to a different container's namespace long before it was first seen here.
 *
 * @returns Undefined if the namespace belongs to a different container, or does not
 * exist
 */
function findOwnNetns(attachment: AddressedAttachment): string | undefined {
  const { netns, isLive, config, result } = attachment;
  const id = findFileId(netns);
  if (id === undefined || isLive !== true || !asksNetwork(config)) return id;
  const isAnother = ifPossible(() => {
    using sandbox = Rtnl.open(netns);
    return result !== undefined &&
      isOfAnotherResult(sandbox, decodeResult(result), attachment);
  });
  return isAnother ? undefined : id;
}

function isReplaced({ netns, netnsId }: Followed): boolean {
  return findFileId(netns) !== netnsId;
}

/**
 * Reads the current addresses of an interface.
 *
 * @returns Undefined without the interface, or during duplicate address detection
 * @throws {Error} If the addresses cannot be read
 */
function readCurrent(
  { netns, ifName, result }: Followed,
): CurrentAddresses | undefined {
  return readNetworkInterface(
    { netns, ifName },
    result,
    ({ link, given, listRouters }): CurrentAddresses | undefined =>
      given.some((one) => one.isTentative && !one.hasDadFailed) ? undefined : {
        ifName,
        mac: link.mac?.toString(),
        ips: given.filter(isUsable).map(({ address }) => `${address.ip}`),
        routers: hadRouter(result) ? listRouters().map(String) : undefined,
      },
  );
}
