/**
 * Links of a namespace: create, look up, change, delete.
 *
 * @module
 */

import { fitsInterfaceName } from "../../net/interface_name.ts";
import { isErrno } from "../errno.ts";
import { Flag } from "../netlink/message.ts";
import type { Listing, NetlinkSocket } from "../netlink/socket.ts";
import { decodeLink } from "./link_decoding.ts";
import {
  deletionOf,
  LEAST_GROUP,
  StartedDeletion,
  throwUnlessMissing,
} from "./link_deletion.ts";
import {
  changeLink,
  delLink,
  delLinkProperties,
  getLink,
  LinkFlag,
  type LinkInfo,
  newLink,
  newLinkProperties,
} from "./link_message.ts";
import type {
  Link,
  LinkChange,
  NewBridge,
  NewIfb,
  NewLinkInNetns,
  NewVeth,
  NewVrf,
} from "./link_types.ts";

export type * from "./link_types.ts";

/** Links that every namespace contains once the kernel has loaded their modules. */
export const FALLBACK_LINKS: readonly string[] = [
  "tunl0",
  "sit0",
  "gre0",
  "gretap0",
  "erspan0",
  "ip6tnl0",
  "ip6gre0",
  "ip_vti0",
  "ip6_vti0",
];
/** Links that kernel modules create by themselves in the first namespace. */
export const MODULE_LINKS: readonly string[] = [
  ...FALLBACK_LINKS,
  "bond0",
  "dummy0",
  "ifb0",
  "ifb1",
  "teql0",
];

/** Source: include/uapi/linux/rtnetlink.h `enum rtnetlink_groups`. */
const RTNLGRP_LINK = 1;
/**
 * Omits the counters, which make up most of a link's reply.
 *
 * Source: include/uapi/linux/rtnetlink.h.
 */
const RTEXT_FILTER_SKIP_STATS = 8;

/** The links to list; all links without a property. */
export interface LinkFilter {
  /** The kind, as in `IFLA_INFO_KIND`. */
  readonly kind?: "ifb" | "ipvlan" | "macvlan" | "veth";
  /** Index of the link of which the links are ports. */
  readonly masterIndex?: number;
}

/**
 * Keeps the kernel from giving a link an IPv6 address.
 *
 * Source: include/uapi/linux/if_link.h `IN6_ADDR_GEN_MODE_NONE`.
 */
const NO_IPV6_ADDRESS = { inet6: { addressMode: 1 } };

/**
 * Returns the request for a list of links. The kernel omits the other links, of which
 * a node can have thousands.
 *
 * Source: net/core/rtnetlink.c `link_dump_filtered`.
 */
function requestOf({ kind, masterIndex }: LinkFilter): {
  readonly header: Record<never, never>;
  readonly attributes: LinkAttributes;
} {
  return {
    header: {},
    attributes: {
      extendedMask: RTEXT_FILTER_SKIP_STATS,
      master: masterIndex,
      linkInfo: kind && { kind },
    },
  };
}

/** The kernel lists all links if it does not support the kind. */
function isMeant(link: Link, { kind, masterIndex }: LinkFilter): boolean {
  return (kind === undefined || link.kind === kind) &&
    (masterIndex === undefined || link.masterIndex === masterIndex);
}

/** Reports whether a link is a bridge. */
export function isBridge({ kind }: Pick<Link, "kind">): boolean {
  return kind === "bridge";
}

/** Reports whether a link is a bridge that filters VLANs. */
export function filtersVlans({ data }: Link): boolean {
  return data?.kind === "bridge" && data.vlanFiltering;
}

/** The loopback link of each namespace. Source: include/net/net_namespace.h `LOOPBACK_IFINDEX`. */
export const LOOPBACK_INDEX = 1;

/** Links of the namespace in which the socket was opened. */
export class LinkRequests {
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
   * Creates a veth pair: an end in this namespace, up, and a peer directly in another
   * namespace, down.
   *
   * Each end has a single queue. By default, the kernel creates a queue for each CPU
   * and then waits, twice, until all except the first are deleted again.
   *
   * @returns The end in this namespace
   * @throws {NetlinkError} EEXIST if either name is taken
   */
  addVeth({ name, mtu, mac, masterIndex, alias, peer }: NewVeth): Link {
    const shared = { mtu, transmitQueues: 1, receiveQueues: 1 };
    const end = { name: peer.name, address: peer.mac, ...shared };
    const attributes = { ...end, netnsFd: peer.netns.fd };
    return this.#addEchoed({
      name,
      ...shared,
      address: mac,
      master: masterIndex,
      linkInfo: { kind: "veth", data: { peer: { header: {}, attributes } } },
    }, alias === undefined ? undefined : { alias });
  }

  /**
   * Creates a bridge that is up.
   *
   * @throws {NetlinkError} EEXIST if the name is taken, EOPNOTSUPP if the kernel does
   * not support bridges, or bridge VLANs if requested
   */
  addBridge({ name, mtu, mac, vlanFiltering }: NewBridge): Link {
    this.#socket.request(newLink, {
      flags: Flag.Create | Flag.Exclusive,
      header: { flags: LinkFlag.Up, change: LinkFlag.Up },
      attributes: {
        name,
        mtu,
        address: mac,
        linkInfo: { kind: "bridge", data: { vlanFiltering } },
      },
    });
    return this.get(name);
  }

  /**
   * Creates an intermediate functional block, up: a link that queues the packets of
   * other links. It has no IPv6 address, because with IPv6 the kernel walks all IPv6
   * routes for each change of the link.
   *
   * @throws {NetlinkError} EEXIST if the name is taken, EOPNOTSUPP if the
   * kernel does not support it
   */
  addIfb({ name, mtu, transmitQueueLength, alias }: NewIfb): Link {
    return this.#addEchoed({
      name,
      mtu,
      transmitQueueLength,
      linkInfo: { kind: "ifb" },
    }, { alias, families: NO_IPV6_ADDRESS });
  }

  /**
   * Creates a virtual routing and forwarding domain (VRF), up. Its ports use its
   * routing table.
   *
   * @throws {NetlinkError} EEXIST if the name is taken, EOPNOTSUPP if the
   * kernel does not support it
   */
  addVrf({ name, table }: NewVrf): Link {
    return this.#addEchoed({
      name,
      linkInfo: { kind: "vrf", data: { table } },
    });
  }

  /**
   * Creates a link directly in another namespace, down.
   *
   * Kernels before 6.13 also refuse a name that is taken in this namespace.
   *
   * @throws {NetlinkError} EEXIST if the name is taken, EOPNOTSUPP if the
   * kernel does not support the kind; EINVAL, EBUSY, ERANGE, ... if the kind
   * does not allow the settings
   */
  addElsewhere(
    { netns, name, info, lowerIndex, mtu, mac }: NewLinkInNetns,
  ): void {
    this.#socket.request(newLink, {
      flags: Flag.Create | Flag.Exclusive,
      header: {},
      attributes: {
        name,
        mtu,
        address: mac,
        link: lowerIndex,
        linkInfo: info,
        netnsFd: netns.fd,
      },
    });
  }

  /**
   * Creates a link that is up.
   *
   * @param late Settings that the kernel ignores in the request that creates a link.
   * They are set before the link is up, because the kernel walks all IPv6 routes for
   * each change of a link that is up.
   */
  #addEchoed(
    attributes: LinkAttributes & { readonly name: string },
    late?: LateAttributes,
  ): Link {
    const up = { flags: LinkFlag.Up, change: LinkFlag.Up };
    const [answer] = this.#socket.request(newLink, {
      flags: Flag.Create | Flag.Exclusive | Flag.Echo,
      header: late === undefined ? up : {},
      attributes,
    }, newLink);
    // Kernels before 6.2 do not echo a new link.
    const link = answer === undefined
      ? this.get(attributes.name)
      : decodeLink(answer);
    if (late === undefined) return link;
    const { index } = link;
    this.#setLate(index, late);
    this.#socket.request(newLink, { header: { index, ...up }, attributes: {} });
    // A lookup would make the kernel wait until no CPU uses the link, if the link has
    // no carrier yet.
    return { ...link, isUp: true, alias: late.alias };
  }

  #setLate(index: number, late: LateAttributes): void {
    const set = (attributes: LateAttributes): void => {
      this.#socket.request(changeLink, { header: { index }, attributes });
    };
    try {
      set(late);
    } catch (error) {
      // The kernel lacks IPv6, or the link's MTU is too small for IPv6.
      if (!isErrno(error, "EAFNOSUPPORT")) throw error;
      set({ ...late, families: undefined });
    }
  }

  /**
   * Looks a link up.
   *
   * @throws {NetlinkError} ENODEV if no link has the name or index
   */
  get(link: string | number): Link {
    const answer = this.#socket.get(getLink, {
      header: headerOf(link),
      attributes: {
        ...nameOf(link),
        extendedMask: RTEXT_FILTER_SKIP_STATS,
      },
    }, newLink);
    return decodeLink(answer);
  }

  /** Looks a link up; returns undefined if it does not exist. */
  find(link: string | number): Link | undefined {
    try {
      return this.get(link);
    } catch (error) {
      // ERANGE: the name is too long for a link.
      if (isErrno(error, "ENODEV", "ERANGE")) return undefined;
      throw error;
    }
  }

  /**
   * Reports whether the namespace of a link's peer exists. The kernel removes the
   * links of a namespace some time after the namespace ended.
   *
   * Source: net/core/rtnetlink.c `rtnl_get_net_ns_capable`.
   */
  hasLivePeer({ linkNsid }: Pick<Link, "linkNsid">): boolean {
    if (linkNsid === undefined) return true;
    if (linkNsid < 0) return false;
    try {
      this.#socket.get(getLink, {
        header: headerOf(LOOPBACK_INDEX),
        attributes: { targetNetnsId: linkNsid },
      }, newLink);
      return true;
    } catch (error) {
      return !isErrno(error, "EINVAL");
    }
  }

  /**
   * Finds the other end of a veth pair in any namespace; undefined if that namespace
   * was deleted or belongs to a different user, which the kernel does not
   * distinguish.
   */
  findPeer(
    { index, linkIndex, linkNsid }: Pick<
      Link,
      "index" | "linkIndex" | "linkNsid"
    >,
  ): Link | undefined {
    if (linkIndex === undefined || (linkNsid ?? 0) < 0) return undefined;
    try {
      const peer = decodeLink(
        this.#socket.get(getLink, {
          header: headerOf(linkIndex),
          attributes: { targetNetnsId: linkNsid },
        }, newLink),
      );
      // Linux before 4.20 searches this namespace.
      return peer.linkIndex === index ? peer : undefined;
    } catch (error) {
      if (isErrno(error, "EINVAL", "ENODEV", "EACCES")) return undefined;
      throw error;
    }
  }

  /**
   * Lists the links of the namespace.
   *
   * @throws {NetlinkError} EINTR if the list keeps changing
   */
  list(filter: LinkFilter = {}): Link[] {
    return this.#socket.dump(getLink, requestOf(filter), newLink)
      .map(decodeLink).filter((link) => isMeant(link, filter));
  }

  /** Lists links that pass the filter. The list is incomplete if it keeps changing. */
  listSome(filter: LinkFilter = {}): Listing<Link> {
    const { items, isComplete } = this.#socket.dumpSome(
      getLink,
      requestOf(filter),
      newLink,
    );
    const links = items.map(decodeLink).filter((link) => isMeant(link, filter));
    return { items: links, isComplete };
  }

  /**
   * Changes a link.
   *
   * @throws {NetlinkError} ENODEV; EEXIST if the name is taken; EBUSY, EINVAL, ERANGE or EOPNOTSUPP if the
   * link does not allow the change
   */
  set(index: number, change: LinkChange): void {
    const { netns, name, mac, mtu, masterIndex, alias, hasArp } = change;
    const flags = flagsOf([
      [LinkFlag.Up, change.isUp],
      [LinkFlag.Promiscuous, change.isPromiscuous],
      [LinkFlag.AllMulticast, change.isAllMulticast],
      [LinkFlag.NoArp, hasArp === undefined ? undefined : !hasArp],
      [LinkFlag.Multicast, change.hasMulticast],
    ]);
    this.#socket.request(newLink, {
      header: { index, ...flags },
      attributes: {
        name,
        address: mac,
        mtu,
        master: masterIndex,
        transmitQueueLength: change.transmitQueueLength,
        group: change.group,
        alias,
        linkInfo: linkInfoOf(change),
        netnsFd: netns?.fd,
        newIndex: change.newIndex,
      },
    });
  }

  /**
   * Adds alternative names to a link.
   *
   * @param names 1 to 127 bytes each
   * @throws {NetlinkError} EEXIST if a link of the namespace already has one of the
   * names
   */
  addAlternativeNames(index: number, names: readonly string[]): void {
    this.#changeProperties(newLinkProperties, index, names);
  }

  /**
   * Removes alternative names from a link.
   *
   * @throws {NetlinkError} ENOENT if the link lacks one of the names
   */
  removeAlternativeNames(index: number, names: readonly string[]): void {
    this.#changeProperties(delLinkProperties, index, names);
  }

  #changeProperties(
    message: typeof newLinkProperties,
    index: number,
    names: readonly string[],
  ): void {
    if (names.length === 0) return;
    this.#socket.request(message, {
      header: { index },
      attributes: { properties: [...names] },
    });
  }

  /**
   * Deletes a link; a veth link together with its peer. The kernel waits about 15 ms
   * until no CPU uses the link.
   *
   * @throws {NetlinkError} ENODEV if it does not exist
   */
  del(link: string | number): void {
    this.#socket.request(delLink, {
      header: headerOf(link),
      attributes: nameOf(link),
    });
  }

  /**
   * Deletes a link if it exists.
   *
   * @returns Whether it existed
   */
  ensureGone(link: string | number): boolean {
    return ignoreMissing(() => this.del(link));
  }

  /**
   * Deletes the links that exist. It puts them into a group and deletes the group,
   * which takes no longer than deleting a single link.
   *
   * @param indexes Links of this namespace; never both ends of a veth pair
   * @throws {NetlinkError} EOPNOTSUPP if a link cannot be deleted; then all links
   * stay in the group: {@linkcode leaveGroup}
   */
  ensureAllGone(indexes: readonly number[]): void {
    if (indexes.length === 0) return;
    throwUnlessMissing(this.#socket.requestEach(deletionOf(indexes)));
  }

  /**
   * Puts a link that could not be deleted with its group back into the default
   * group, if it exists.
   */
  leaveGroup(index: number): void {
    ignoreMissing(() => {
      const { attributes: { group = 0 } } = this.#socket.get(getLink, {
        header: { index },
        attributes: { extendedMask: RTEXT_FILTER_SKIP_STATS },
      }, newLink);
      if (group < LEAST_GROUP) return;
      const attributes = { group: 0 };
      this.#socket.request(newLink, { header: { index }, attributes });
    });
  }

  /**
   * Starts to delete the links that exist, on another thread. A link disappears long
   * before the kernel has finished, because the kernel waits until no CPU uses the
   * link.
   *
   * @param indexes As in {@linkcode ensureAllGone}
   */
  startDeletion(indexes: readonly number[]): StartedDeletion {
    this.#socket.subscribe(RTNLGRP_LINK);
    return new StartedDeletion(
      this.#socket.sendInBackground(deletionOf(indexes)),
    );
  }
}

/** Encodes the flags that change. */
function flagsOf(
  rows: readonly (readonly [flag: number, isSet: boolean | undefined])[],
): { flags?: number; change?: number } {
  const changed = rows.filter(([, isSet]) => isSet !== undefined);
  if (changed.length === 0) return {};
  const sum = (some: typeof rows): number =>
    some.reduce((all, [flag]) => all | flag, 0);
  return {
    flags: sum(changed.filter(([, isSet]) => isSet)),
    change: sum(changed),
  };
}

function linkInfoOf({ bridge, port }: LinkChange): LinkInfo | undefined {
  if (bridge !== undefined) {
    const { vlanFiltering } = bridge;
    return { kind: "bridge", data: { vlanFiltering } };
  }
  if (port === undefined) return undefined;
  const { hairpin, isolated } = port;
  return { portKind: "bridge", portData: { hairpin, isolated } };
}

/** @returns Whether the link existed */
function ignoreMissing(request: () => void): boolean {
  try {
    request();
    return true;
  } catch (error) {
    if (isErrno(error, "ENODEV")) return false;
    throw error;
  }
}

function headerOf(link: string | number): { index?: number } {
  return typeof link === "number" ? { index: link } : {};
}

/** Returns the attribute for a name; an alternative name can be longer. */
function nameOf(
  link: string | number,
): { name?: string; alternativeName?: string } {
  return typeof link !== "string"
    ? {}
    : fitsInterfaceName(link)
    ? { name: link }
    : { alternativeName: link };
}

type LinkAttributes = NonNullable<
  Parameters<typeof newLink.encode>[0]["attributes"]
>;
type LateAttributes = NonNullable<
  Parameters<typeof changeLink.encode>[0]["attributes"]
>;
