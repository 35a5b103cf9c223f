/**
 * Connections that would still go where their port led before. The kernel asks
 * the rules about a connection's first packet only, and a UDP client that keeps
 * its port never makes a second connection.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { Conntrack, type TrackedConnection } from "../../ffi/conntrack/mod.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Ip } from "../../net/ip.ts";
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
    const families = new Set(ports.map(({ target: { family } }) => family));
    const stale = [...families].flatMap((family) =>
      conntrack.list({ family, ...filterOf(changed) })
    ).filter(staleTest(hostNetns, changed));
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

/** Lets the kernel leave out as much as one list for all ports allows. */
function filterOf(
  { added, gone }: ChangedPorts,
): NonNullable<Parameters<Conntrack["list"]>[0]> {
  const ports = [...added, ...gone];
  const [protocol, ...protocols] = new Set(
    ports.map(({ protocol }) => PROTOCOLS[protocol]),
  );
  const [port, ...others] = new Set(ports.map(({ hostPort }) => hostPort));
  return {
    isDestinationChanged: added.length === 0,
    ...protocols.length === 0 && {
      protocol,
      ...others.length === 0 && { destinationPort: port },
    },
  };
}

function staleTest(
  hostNetns: string,
  { added, gone, kept }: ChangedPorts,
): (connection: TrackedConnection) => boolean {
  const [addedTo, goneFrom, keptAt] = [added, gone, kept].map((ports) =>
    Map.groupBy(ports, (one) => `${PROTOCOLS[one.protocol]} ${one.hostPort}`)
  );
  let local: Set<string> | undefined;
  const isLocal = (ip: Ip): boolean =>
    (local ??= localAddresses(hostNetns)).has(ip.toString());
  return ({ protocol, original, reply }) => {
    const { destination, destinationPort } = original;
    const key = `${protocol} ${destinationPort}`;
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
