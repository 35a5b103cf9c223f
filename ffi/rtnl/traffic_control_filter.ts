/**
 * Filters, which choose the class of packets or redirect them to another link.
 *
 * @module
 */

import { u32be } from "../../net/bytes.ts";
import type { Cidr } from "../../net/cidr.ts";
import { ADDRESS_OFFSETS, type AddressField } from "../socket/ip_header.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import type { KindOptions, SelectorKey } from "./traffic_control_kinds.ts";
import { delFilter, getFilter, newFilter } from "./traffic_control_message.ts";

export type { SelectorKey } from "./traffic_control_kinds.ts";

/** Source: include/uapi/linux/pkt_cls.h `TC_U32_TERMINAL`, `TC_ACT_STOLEN`. */
const U32_TERMINAL = 1, ACTION_STOLEN = 4;
/** Source: include/uapi/linux/tc_act/tc_mirred.h `TCA_EGRESS_REDIR`, `TCA_INGRESS_REDIR`. */
const EGRESS_REDIRECT = 1, INGRESS_REDIRECT = 3;

/**
 * Protocols of packets, as in filters.
 *
 * Source: include/uapi/linux/if_ether.h `ETH_P_*`.
 */
export const Protocol = { All: 0x0003, Ipv4: 0x0800, Ipv6: 0x86dd } as const;

/** A u32 filter to add, which matches packets by their content. */
export interface NewFilter {
  /** Index of the link. */
  readonly ifindex: number;
  /** Handle of the qdisc, or `Parent.ClsactIngress`. */
  readonly parent: number;
  /**
   * 1 to 65535; lower priorities come first. All filters with a priority have the
   * same protocol.
   */
  readonly priority: number;
  /** One of {@linkcode Protocol}. */
  readonly protocol: number;
  /** The conditions, all of which must match. */
  readonly keys: readonly SelectorKey[];
  /** Handle of the class of matching packets. */
  readonly classId: number;
  /** Index of the link to which matching packets are redirected; none if undefined. */
  readonly redirectTo?: number | undefined;
  /** Whether that link receives the packets instead of sending them. */
  readonly isReceived?: boolean;
}

/** A filter as the kernel reports it. Only u32 filters have keys. */
export interface Filter
  extends Omit<NewFilter, "keys" | "classId" | "redirectTo" | "isReceived"> {
  /** Number of the filter within its priority. */
  readonly handle: number;
  /** The filter's kind, such as `u32` or `bpf`. */
  readonly kind: string;
  /** The compared bytes. */
  readonly keys: readonly SelectorKey[];
  /** Handle of the class of matching packets. */
  readonly classId: number | undefined;
  /**
   * Index of the link to which its first action redirects; 0 if that link was
   * deleted.
   */
  readonly redirectTo: number | undefined;
}

/** Filters of the namespace in which the socket was opened. */
export class FilterRequests {
  readonly #socket: NetlinkSocket;

  /**
   * Uses an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Adds a filter next to the existing filters.
   *
   * @throws {NetlinkError} EINVAL if the qdisc does not exist, or if filters with the
   * priority have a different protocol or kind; ENOENT if the kernel lacks u32 or
   * mirred
   */
  add(filter: NewFilter): void {
    const { ifindex, parent, priority, protocol } = filter;
    this.#socket.request(newFilter, {
      flags: Flag.Create | Flag.Exclusive,
      header: { ifindex, parent, priority, protocol },
      attributes: { kind: "u32", options: optionsOf(filter) },
    });
  }

  /**
   * Deletes a listed filter.
   *
   * @throws {NetlinkError} ENOENT if it does not exist
   */
  del({ ifindex, parent, priority, protocol, handle, kind }: Filter): void {
    this.#socket.request(delFilter, {
      header: { ifindex, parent, priority, protocol, handle },
      attributes: { kind },
    });
  }

  /**
   * Deletes all filters of a priority. Deleting each filter would leave u32's table
   * of the priority behind if other priorities also have tables.
   *
   * @throws {NetlinkError} ENOENT if the priority has no filters
   */
  delPriority(
    { ifindex, parent, priority, protocol }: Pick<
      Filter,
      "ifindex" | "parent" | "priority" | "protocol"
    >,
  ): void {
    this.#socket.request(delFilter, {
      header: { ifindex, parent, priority, protocol },
    });
  }

  /**
   * Lists the filters of a qdisc.
   *
   * @param parent Its handle, or `Parent.ClsactIngress`
   * @returns An empty list if the qdisc does not exist
   */
  list(ifindex: number, parent: number): Filter[] {
    return this.#socket
      .dump(getFilter, { header: { ifindex, parent } }, newFilter)
      .filter(({ header, attributes }) =>
        // u32 also lists the tables that contain its filters.
        attributes.kind !== "u32"
          ? header.handle !== 0
          : attributes.options?.selector !== undefined
      ).map(decodeFilter);
  }
}

/** Matches every packet. */
export const MATCH_ALL: readonly SelectorKey[] = [
  { mask: 0, value: 0, offset: 0 },
];

/** Matches packets from or to a network. They must be of its address family. */
export function matchNetwork(
  network: Cidr,
  field: AddressField,
): readonly SelectorKey[] {
  const { family, prefixLength } = network;
  const bytes = network.network.toBytes();
  const keys: SelectorKey[] = [];
  for (let at = 0; at * 8 < prefixLength; at += u32be.size) {
    const left = prefixLength - at * 8;
    keys.push({
      mask: left >= 32 ? 0xffff_ffff : 2 ** 32 - 2 ** (32 - left),
      value: u32be.decode(bytes.subarray(at)),
      offset: ADDRESS_OFFSETS[family][field] + at,
    });
  }
  return keys.length === 0 ? MATCH_ALL : keys;
}

function optionsOf(
  { classId, keys, redirectTo, isReceived = false }: NewFilter,
): KindOptions {
  const selector = { flags: U32_TERMINAL, keys };
  if (redirectTo === undefined) return { classId, selector };
  const mirred = {
    action: ACTION_STOLEN,
    mirredAction: isReceived ? INGRESS_REDIRECT : EGRESS_REDIRECT,
    ifindex: redirectTo,
  };
  const first = { kind: "mirred", options: { mirred } };
  return { classId, selector, actions: { first } };
}

type FilterAnswer = ReturnType<typeof newFilter.decode>;

function decodeFilter({ header, attributes }: FilterAnswer): Filter {
  const { ifindex, parent, priority, protocol, handle } = header;
  const { kind = "", options: { classId, selector, actions } = {} } =
    attributes;
  const mirred = actions?.first?.options?.mirred;
  const isRedirect = mirred?.mirredAction === EGRESS_REDIRECT;
  return {
    ifindex,
    parent,
    priority,
    protocol,
    handle,
    kind,
    keys: selector?.keys ?? [],
    classId,
    redirectTo: isRedirect ? mirred.ifindex : undefined,
  };
}
