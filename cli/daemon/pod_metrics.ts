/**
 * Traffic of pods, counted when the daemon's metrics are read: one socket for each
 * sandbox, and one request for each interface. Reading inside the sandbox gives the
 * pod's own direction for every kind of link.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { ifPossible } from "../../base/files/io.ts";
import { findFileId } from "../../base/files/same_file.ts";
import type { Gauge, Labels } from "../../daemon/server/metrics.ts";
import { NetlinkSocket, Protocol } from "../../ffi/netlink/socket.ts";
import { NetNs } from "../../ffi/netns.ts";
import {
  type LinkStatistics,
  readLinkStatistics,
} from "../../ffi/rtnl/link_statistics.ts";
import {
  listInterfaces,
  listNodeAttachments,
  type NodeAttachment,
} from "../node/node_attachments.ts";
import type { Directories } from "../node/network.ts";

/** How many interfaces have samples, each of them 10. */
const MOST_INTERFACES = 1000;
/** Shortest time between two reads of the counters, in ms. */
const REST_MS = 1000;
/** How long to read sandboxes before calls can run, in ms. */
const TURN_MS = 5;
/** A directory that changed this shortly before the read may change again with the same time, in ms. */
const CLOCK_TICK_MS = 50;

/** Options of {@linkcode PodMetrics}. */
export interface PodMetricsOptions {
  readonly directories: Pick<Directories, "cacheDir">;
  /** Path of the host's namespace, which is no sandbox. */
  readonly hostNetns: string;
  /** See {@linkcode MOST_INTERFACES}. */
  readonly most?: number;
  /** See {@linkcode REST_MS}. */
  readonly restMs?: number;
}

/** An interface of a pod. */
interface PodInterface {
  readonly netns: string;
  readonly ifName: string;
  /** The same object each time. */
  readonly labels: Labels;
}

/** An interface's labels and counters. */
type Counted = readonly [Labels, LinkStatistics];

/** The pods' interfaces, and the directories from which they were read. */
interface KnownInterfaces {
  readonly interfaces: readonly PodInterface[];
  readonly leftOut: number;
  /** Last changes by path, in ms; undefined for a missing directory. */
  readonly directories: ReadonlyMap<string, number | undefined>;
  readonly readAtMs: number;
}

/** Counts the traffic of the node's pods. */
export class PodMetrics {
  readonly #options: PodMetricsOptions;
  #known: KnownInterfaces | undefined;
  #counted: readonly Counted[] = [];
  #unreadable = 0;
  #counting: Promise<void> | undefined;
  #countedAtMs = -Infinity;

  /** Creates the counters without reading the node. */
  constructor(options: PodMetricsOptions) {
    this.#options = options;
  }

  /**
   * Counts, unless the last count is less than a second old. Simultaneous callers share
   * a count.
   *
   * @throws {CniError} 5 If the cache of attachments cannot be read
   */
  count(): Promise<void> {
    const { restMs = REST_MS } = this.#options;
    if (performance.now() - this.#countedAtMs < restMs) {
      return this.#counting ?? Promise.resolve();
    }
    return this.#counting ??= this.#count()
      .finally(() => this.#counting = undefined);
  }

  async #count(): Promise<void> {
    const host = findFileId(this.#options.hostNetns);
    const { interfaces } = this.#known = this.#listInterfaces();
    const counted: Counted[] = [];
    let unreadable = 0, turnMs = performance.now();
    for (
      const [netns, some] of Map.groupBy(interfaces, ({ netns }) => netns)
    ) {
      const links = ifPossible(() => readLinks(netns, some, host)) ?? [];
      counted.push(...links);
      unreadable += some.length - links.length;
      if (performance.now() - turnMs < TURN_MS) continue;
      await pause(0);
      turnMs = performance.now();
    }
    this.#counted = counted;
    this.#unreadable = unreadable;
    this.#countedAtMs = performance.now();
  }

  /** Reads the caches again only if a file was added, replaced or removed. */
  #listInterfaces(): KnownInterfaces {
    const known = this.#known;
    const isSame = known !== undefined &&
      [...known.directories].every(([path, changedAt]) =>
        findChange(path) === changedAt &&
        (changedAt ?? 0) < known.readAtMs - CLOCK_TICK_MS
      );
    if (isSame) return known;
    const { directories: { cacheDir }, most = MOST_INTERFACES } = this.#options;
    const readAtMs = Date.now();
    const all = listNodeAttachments({ cacheDir });
    const directories = new Map(
      [
        ...new Set([
          cacheDir,
          `${cacheDir}/multus`,
          ...all.map((one) => one.cacheDir),
        ]),
      ]
        .map((path) => [`${path}/results`, findChange(`${path}/results`)]),
    );
    const interfaces = chooseInterfaces(all);
    return {
      interfaces: interfaces.slice(0, most),
      leftOut: Math.max(interfaces.length - most, 0),
      directories,
      readAtMs,
    };
  }

  /** Values for the daemon's metrics, as they were counted last. */
  listGauges(): Gauge[] {
    return [
      ...FAMILIES.map(([name, help, read]): Gauge => ({
        name: `cni_pod_network_${name}`,
        type: name.endsWith("_total") ? "counter" : "gauge",
        help,
        read: () =>
          this.#counted.map(([labels, link]) => [labels, Number(read(link))]),
      })),
      {
        name: "cni_pod_network_interfaces_left_out",
        help: "Interfaces of pods without samples, by the reason.",
        read: () => [
          [{ reason: "limit" }, this.#known?.leftOut ?? 0],
          [{ reason: "unreadable" }, this.#unreadable],
        ],
      },
    ];
  }
}

/** Metrics of an interface; the names are cAdvisor's after their prefix. */
const FAMILIES: readonly (readonly [
  name: string,
  help: string,
  read: (link: LinkStatistics) => number | bigint | boolean,
])[] = [
  [
    "receive_bytes_total",
    "Bytes that a pod received.",
    (link) => link.receivedBytes,
  ],
  [
    "receive_packets_total",
    "Packets that a pod received.",
    (link) => link.receivedPackets,
  ],
  [
    "receive_packets_dropped_total",
    "Packets to a pod that were dropped.",
    (link) => link.receiveDrops,
  ],
  [
    "receive_errors_total",
    "Errors while a pod received.",
    (link) => link.receiveErrors,
  ],
  ["transmit_bytes_total", "Bytes that a pod sent.", (link) => link.sentBytes],
  [
    "transmit_packets_total",
    "Packets that a pod sent.",
    (link) => link.sentPackets,
  ],
  [
    "transmit_packets_dropped_total",
    "Packets of a pod that were dropped.",
    (link) => link.sendDrops,
  ],
  [
    "transmit_errors_total",
    "Errors while a pod sent.",
    (link) => link.sendErrors,
  ],
  [
    "carrier",
    "Whether the interface of a pod has a carrier.",
    (link) => link.hasCarrier,
  ],
  [
    "carrier_changes_total",
    "How often the carrier of a pod's interface came or went.",
    (link) => link.carrierChanges,
  ],
];

/**
 * Reads the interfaces of a sandbox that exist.
 *
 * @throws {SyscallError} If the sandbox was deleted
 */
function readLinks(
  path: string,
  interfaces: readonly PodInterface[],
  host: string | undefined,
): Counted[] {
  // The path of a process that has exited may lead to a different process.
  if (findFileId(path) === host) return [];
  using netns = NetNs.open(path);
  using socket = NetlinkSocket.open(netns, Protocol.Route);
  return interfaces.flatMap(({ ifName, labels }) => {
    const link = ifPossible(() => readLinkStatistics(socket, ifName));
    return link === undefined ? [] : [[labels, link] as const];
  });
}

/** Returns the time of a directory's last change, in ms; undefined without a directory. */
function findChange(path: string): number | undefined {
  return ifPossible(() => Deno.statSync(path).mtime)?.getTime();
}

/** Lists the interfaces of pods, the oldest first, so that a limit always omits the same interfaces. */
function chooseInterfaces(all: readonly NodeAttachment[]): PodInterface[] {
  const interfaces = new Map<string, PodInterface>();
  const byAge = listInterfaces(all)
    .filter(({ ifName, isLive, pod }) => isLive && pod && ifName !== "lo")
    .toSorted((a, b) => a.since.getTime() - b.since.getTime());
  for (const { pod = "", network, ifName, netns } of byAge) {
    const [namespace = "", name = ""] = pod.split("/");
    // The pod's earlier sandbox might still exist: the later sandbox replaces it.
    interfaces.set(`${pod} ${network} ${ifName}`, {
      netns,
      ifName,
      labels: { namespace, pod: name, network, interface: ifName },
    });
  }
  return [...interfaces.values()];
}
