/**
 * The tracked connections of one namespace.
 *
 * @module
 */

import type { Ip, IpFamily } from "../../net/ip.ts";
import { addressFamily, AF_UNSPEC } from "../rtnl/constants.ts";
import { isErrno, type SyscallError } from "../errno.ts";
import { encodeRequest } from "../netlink/request.ts";
import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import { Flag } from "../netlink/message.ts";
import { NetNs } from "../netns.ts";
import { delConnection, getConnections, newConnection } from "./message.ts";

/**
 * The parts of a connection that the kernel compares.
 *
 * Source: net/netfilter/nf_internals.h `CTA_FILTER_FLAG`.
 */
const FILTER_PROTOCOL = 1 << 3, FILTER_DESTINATION_PORT = 1 << 5;
/** Source: include/uapi/linux/netfilter/nf_conntrack_common.h `IPS_DST_NAT`. */
const DESTINATION_CHANGED = 1 << 5;

/** One direction of a connection. */
export interface Direction {
  readonly source: Ip;
  readonly destination: Ip;
  /** Undefined for protocols without ports. */
  readonly sourcePort: number | undefined;
  readonly destinationPort: number | undefined;
}

/** A tracked connection. */
export interface TrackedConnection {
  /** The IP protocol's number. */
  readonly protocol: number;
  /** Addresses and ports of the first packet, before NAT. */
  readonly original: Direction;
  /** Addresses and ports of reply packets, before NAT is undone. */
  readonly reply: Direction;
  /** Identifies the connection to the kernel. */
  readonly id: number | undefined;
  readonly zone: number | undefined;
}

/**
 * Which connections to list. Old kernels ignore the filter and list more connections,
 * so callers must compare as well.
 */
export interface ConnectionFilter {
  /** Both families if undefined. */
  readonly family?: IpFamily | undefined;
  /** The IP protocol's number. The kernel needs the family for it. */
  readonly protocol?: number | undefined;
  /** The original destination's port. The kernel needs the protocol for it. */
  readonly destinationPort?: number | undefined;
  /** Whether to list only connections whose destination NAT has changed. */
  readonly isDestinationChanged?: boolean | undefined;
}

/** A connection tracking socket, in the namespace where it was opened. */
export class Conntrack implements Disposable {
  readonly #socket: NetlinkSocket;

  private constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Opens the namespace at a path.
   *
   * @throws {SyscallError} If it cannot be entered; EPROTONOSUPPORT if the
   * kernel has no netfilter netlink
   */
  static open(path: string): Conntrack {
    using netns = NetNs.open(path);
    return new Conntrack(NetlinkSocket.open(netns, Protocol.Netfilter));
  }

  /**
   * Lists connections. Connections that begin or end during the dump might be
   * missing.
   *
   * @param isMeant Reports whether to return a connection; all are returned if
   * undefined. Other connections are dropped as they arrive, because a node can track
   * hundreds of thousands
   * @throws {NetlinkError} EINVAL or EOPNOTSUPP if the kernel does not support
   * connection tracking over netlink
   */
  list(
    { family, protocol, destinationPort, isDestinationChanged }:
      ConnectionFilter = {},
    isMeant?: (connection: TrackedConnection) => boolean,
  ): TrackedConnection[] {
    const status = isDestinationChanged ? DESTINATION_CHANGED : undefined;
    const flags = (protocol === undefined ? 0 : FILTER_PROTOCOL) |
      (destinationPort === undefined ? 0 : FILTER_DESTINATION_PORT);
    const tuple = { protocol: { number: protocol, destinationPort } };
    const attributes = {
      status,
      statusMask: status,
      ...flags !== 0 && {
        original: tuple,
        filter: { originalFlags: flags },
      },
    };
    return this.#socket.dumpSome(
      getConnections,
      {
        header: {
          family: family === undefined ? AF_UNSPEC : addressFamily(family),
        },
        attributes,
      },
      newConnection,
      isMeant && ((body) => {
        const connection = toConnection(newConnection.decode(body).attributes);
        return connection !== undefined && isMeant(connection);
      }),
    ).items.flatMap(({ attributes }) => toConnection(attributes) ?? []);
  }

  /**
   * Finds the connection of a packet.
   *
   * @param packet Its addresses and ports. For an echo request, the source port is
   * its identifier
   * @returns Undefined if the connection is not tracked
   * @throws {NetlinkError} EINVAL or EOPNOTSUPP as {@linkcode list}
   */
  find(
    protocol: number,
    { source, destination, sourcePort, destinationPort }: Direction,
  ): TrackedConnection | undefined {
    const number = { number: protocol };
    try {
      const answer = this.#socket.get(getConnections, {
        header: { family: addressFamily(source.family) },
        attributes: {
          original: {
            addresses: tupleAddresses({ source, destination }),
            protocol: destinationPort !== undefined
              ? { ...number, sourcePort, destinationPort }
              : source.family === 4
              ? { ...number, icmpId: sourcePort, icmpType: 8, icmpCode: 0 }
              : {
                ...number,
                icmp6Id: sourcePort,
                icmp6Type: 128,
                icmp6Code: 0,
              },
          },
        },
      }, newConnection);
      return toConnection(answer.attributes);
    } catch (error) {
      if (isErrno(error, "ENOENT")) return undefined;
      throw error;
    }
  }

  /**
   * Deletes connections.
   *
   * @returns The kernel's refusals, in order: ENOENT for a connection that has ended,
   * undefined for a deleted connection
   */
  delete(
    connections: readonly TrackedConnection[],
  ): (SyscallError | undefined)[] {
    if (connections.length === 0) return [];
    return this.#socket.requestEach(
      connections.map(({ protocol, original, id, zone }) => {
        const { source, sourcePort, destinationPort } = original;
        return encodeRequest(delConnection, {
          flags: Flag.Ack,
          header: { family: addressFamily(source.family) },
          attributes: {
            original: {
              addresses: tupleAddresses(original),
              protocol: { number: protocol, sourcePort, destinationPort },
            },
            id,
            zone,
          },
        });
      }),
    );
  }

  /** Closes the socket; a second call does nothing. */
  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}

type Tuple = Parameters<typeof newConnection.encode>[0]["attributes"] extends
  | { readonly original?: infer T | undefined }
  | undefined ? T
  : never;

function tupleAddresses(
  { source, destination }: Pick<Direction, "source" | "destination">,
): NonNullable<Tuple>["addresses"] {
  return source.family === 4
    ? { source4: source, destination4: destination }
    : { source6: source, destination6: destination };
}

function toConnection(
  { original, reply, id, zone }: NonNullable<
    Parameters<typeof newConnection.encode>[0]["attributes"]
  >,
): TrackedConnection | undefined {
  const [first, second] = [original, reply].flatMap(toDirection);
  if (first === undefined || second === undefined) return undefined;
  const protocol = original?.protocol?.number ?? 0;
  return { protocol, original: first, reply: second, id, zone };
}

function toDirection(tuple: Tuple | undefined): Direction[] {
  const { addresses, protocol } = tuple ?? {};
  const source = addresses?.source4 ?? addresses?.source6;
  const destination = addresses?.destination4 ?? addresses?.destination6;
  if (source === undefined || destination === undefined) return [];
  return [{
    source,
    destination,
    sourcePort: protocol?.sourcePort,
    destinationPort: protocol?.destinationPort,
  }];
}
