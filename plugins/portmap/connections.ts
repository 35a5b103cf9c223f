/**
 * Connections that would still go where their port led before. The kernel asks
 * the rules about a connection's first packet only, and a UDP client that keeps
 * its port never makes a second connection.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import {
  type ConnectionFilter,
  Conntrack,
  type TrackedConnection,
} from "../../ffi/conntrack/mod.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { PortmapHost } from "./backend.ts";
import { type ForwardedPort, PROTOCOLS } from "./mapping.ts";

/** Ports whose connections may have to end. */
export interface ChangedPorts {
  /**
   * Ports that are forwarded from now on. Connections to them that go elsewhere
   * end, except for TCP: they may be of a server on the host, and a new
   * connection begins with a packet that shows it.
   */
  readonly added: readonly ForwardedPort[];
  /** Ports that are no longer forwarded. All connections to their targets end. */
  readonly gone: readonly ForwardedPort[];
  /** Ports that come before the added ones. Connections to their targets stay. */
  readonly kept: readonly ForwardedPort[];
}

/**
 * Deletes connections that go where a port no longer leads. Failures are only
 * logged: the ports are what they must be.
 */
export function deleteConnections(
  { hostNetns, log }: Pick<PortmapHost, "hostNetns" | "log">,
  { added, gone, kept }: ChangedPorts,
): void {
  const isAdded = new Set(added.map(textOf));
  const changed = {
    added: added.filter(({ protocol }) => protocol !== "tcp"),
    gone: gone.filter((port) => !isAdded.has(textOf(port))),
    kept,
  };
  const ports = [...changed.added, ...changed.gone];
  if (ports.length === 0) return;
  try {
    using conntrack = Conntrack.open(hostNetns);
    const stale = listStale(conntrack, hostNetns, changed);
    const refusal = conntrack.delete(stale)
      .find((error) => error !== undefined && !isErrno(error, "ENOENT"));
    if (refusal !== undefined) throw refusal;
  } catch (error) {
    // A kernel that does not track connections has none to delete.
    if (isErrno(error, "EINVAL", "EOPNOTSUPP", "EPROTONOSUPPORT")) return;
    log.warn("Cannot delete stale connections", {
      error: describeError(error),
    });
  }
}

/**
 * Most lists of single ports. For each list, the kernel walks all connections: 70 ms
 * for 100 000, which take 3 s to receive.
 */
const MAX_LISTS = 32;

/** Lists the stale connections. Other connections are not kept in memory. */
function listStale(
  conntrack: Conntrack,
  hostNetns: string,
  changed: ChangedPorts,
): TrackedConnection[] {
  const { added, gone } = changed;
  const isStale = staleTest(hostNetns, changed);
  const ports = [...added, ...gone];
  return [...new Set(ports.map(({ target: { family } }) => family))]
    .flatMap((family) => {
      const found: TrackedConnection[] = [];
      for (const filter of filtersOf(ports, family)) {
        let isFiltered = true;
        found.push(...conntrack.list(
          { family, isDestinationChanged: added.length === 0, ...filter },
          (connection) => {
            isFiltered &&= isOf(connection, filter);
            return isStale(connection);
          },
        ));
        // Kernels before 5.8 list all connections each time.
        if (!isFiltered) break;
      }
      return found;
    });
}

/** Which connections the kernel is to list at a time. */
type PortFilter = Pick<ConnectionFilter, "protocol" | "destinationPort">;

/** Splits ports into what the kernel can list: one port, or one protocol. */
function filtersOf(
  ports: readonly ForwardedPort[],
  family: IpFamily,
): readonly PortFilter[] {
  const filters = new Map<string, PortFilter>();
  for (const { protocol: name, hostPort, target } of ports) {
    if (target.family !== family) continue;
    const protocol = PROTOCOLS[name];
    filters.set(keyOf(protocol, hostPort), {
      protocol,
      destinationPort: hostPort,
    });
  }
  if (filters.size <= MAX_LISTS) return [...filters.values()];
  const protocols = [...filters.values()].map(({ protocol }) => protocol);
  return [...new Set(protocols)].map((protocol) => ({ protocol }));
}

function isOf(
  { protocol, original }: TrackedConnection,
  filter: PortFilter,
): boolean {
  return protocol === filter.protocol &&
    original.destinationPort ===
      (filter.destinationPort ?? original.destinationPort);
}

/** Returns a key of a protocol's port. */
function keyOf(protocol: number, port: number | undefined): string {
  return `${protocol} ${port}`;
}

function staleTest(
  hostNetns: string,
  { added, gone, kept }: ChangedPorts,
): (connection: TrackedConnection) => boolean {
  const [addedTo, goneFrom, keptAt] = [added, gone, kept].map((ports) =>
    Map.groupBy(ports, (one) => keyOf(PROTOCOLS[one.protocol], one.hostPort))
  );
  let local: Set<string> | undefined;
  const isLocal = (ip: Ip): boolean =>
    (local ??= localAddresses(hostNetns)).has(ip.toString());
  return ({ protocol, original, reply }) => {
    const { destination, destinationPort } = original;
    const key = keyOf(protocol, destinationPort);
    const isTo = ({ hostIp, target }: ForwardedPort): boolean =>
      hostIp?.equals(destination) ?? target.family === destination.family;
    const goesTo = ({ target, targetPort }: ForwardedPort): boolean =>
      reply.source.equals(target) && reply.sourcePort === targetPort;
    const left = goneFrom?.get(key) ?? [];
    if (left.some((port) => isTo(port) && goesTo(port))) return true;
    const now = addedTo?.get(key)?.filter(isTo) ?? [];
    const before = keptAt?.get(key)?.filter(isTo) ?? [];
    return now.length > 0 && ![...now, ...before].some(goesTo) &&
      isLocal(destination);
  };
}

/** Lists the host's addresses: only packets to these are forwarded. */
function localAddresses(hostNetns: string): Set<string> {
  using host = Rtnl.open(hostNetns);
  return new Set(
    host.address.list().map(({ address: { ip } }) => ip.toString()),
  );
}

/** Returns a text that is the same for the same port. */
function textOf(
  { protocol, hostIp, hostPort, target, targetPort }: ForwardedPort,
): string {
  return [protocol, hostIp, hostPort, target, targetPort].join(" ");
}
