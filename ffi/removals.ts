/**
 * Reports removals from a namespace: of nftables rules, links, addresses, routes,
 * queueing disciplines, bridge ports, forwarding and proxy neighbours. Also reports
 * starts of firewalld, whose zones then contain no container addresses. The kernel
 * does not report changes of iptables-legacy rules.
 *
 * @module
 */

import { i32, struct, u32, u8 } from "../net/bytes.ts";
import { isErrno } from "./errno.ts";
import { attributeSet, cstring, nested } from "./netlink/attribute.ts";
import { message, type RawMessage } from "./netlink/message.ts";
import { decodeAnswers } from "./netlink/request.ts";
import { NetlinkSocket, Protocol } from "./netlink/socket.ts";
import type { NetNs } from "./netns.ts";
import {
  changedPart,
  committed,
  delChain,
  delElements,
  delRule,
  delSet,
  delTable,
  newTable,
} from "./nftables/message.ts";
import { AF_BRIDGE } from "./rtnl/constants.ts";
import { LinkFlag, linkHeader } from "./rtnl/link_message.ts";
import { delRoute } from "./rtnl/route_message.ts";
import { trafficHeader } from "./rtnl/traffic_control_message.ts";

/** Source: include/uapi/linux/netfilter/nfnetlink.h `NFNLGRP_NFTABLES`. */
const NFTABLES_GROUP = 7;
/**
 * Source: include/uapi/linux/rtnetlink.h `RTNLGRP_*`: links, traffic control, addresses
 * and routes of IPv4 and IPv6, and their parameters.
 */
const ROUTE_GROUPS = [1, 4, 5, 7, 9, 11, 24, 25];
/** The change mask in the report of a new link: all flags. */
const ALL_FLAGS = 0xffff_ffff;
/** Source: include/uapi/linux/netconf.h `NETCONFA_IFINDEX_ALL`. */
const ALL_LINKS = -1;

const NONE = attributeSet({});
const linkReport = message("RTM_NEWLINK", 16, linkHeader, NONE);
const linkRemoval = message(
  "RTM_DELLINK",
  17,
  linkHeader,
  attributeSet({
    name: [3, cstring],
    info: [18, nested(attributeSet({ kind: [1, cstring] }))],
  }),
);
const queueRemovals = [
  message("RTM_DELQDISC", 37, trafficHeader, NONE),
  message("RTM_DELTCLASS", 41, trafficHeader, NONE),
  message("RTM_DELTFILTER", 45, trafficHeader, NONE),
];
/** Source: include/uapi/linux/if_addr.h `struct ifaddrmsg`. */
const addressRemoval = message(
  "RTM_DELADDR",
  21,
  struct({ family: u8, prefixLength: u8, flags: u8, scope: u8, ifindex: u32 }),
  NONE,
);
/** Source: include/uapi/linux/netconf.h `struct netconfmsg`. */
const parameters = message(
  "RTM_NEWNETCONF",
  80,
  struct({ family: u8 }),
  attributeSet({
    ifindex: [1, i32],
    forwarding: [2, i32],
    answersForNeighbors: [5, i32],
  }),
);

/** Source: firewalld src/firewall/core/nftables.py `TABLE_NAME`. */
export const FIREWALLD_TABLE = "firewalld";

/** The reported removals. */
export interface Removals {
  /**
   * Whether a rule or an object that rules use was removed, firewalld has started, or
   * notifications were lost.
   */
  readonly areRules: boolean;
  /** Whether forwarding was turned off for all links. */
  readonly isForwarding: boolean;
  /**
   * Links that were set down, were removed from a bridge, or lost an address, a
   * route, a qdisc, forwarding or proxy neighbours. They might have been deleted in
   * the meantime.
   */
  readonly ifindexes: ReadonlySet<number>;
  /**
   * Names of deleted links, except veth links, whose end in the container is deleted
   * as well.
   */
  readonly deleted: ReadonlySet<string>;
}

/** Selects which removals of rules are reported. */
export interface RulesOfInterest {
  /**
   * Reports whether to ignore a process, by its name of at most 15 bytes and its ID.
   */
  readonly isIgnored: (name: string, processId: number) => boolean;
  /**
   * Reports whether rules are of interest, by their table, and the chain or set in
   * it; undefined for the whole table.
   */
  readonly isTheirs: (table: string, part: string | undefined) => boolean;
}

/** Reports removals until disposal. */
export class RemovalWatch implements Disposable {
  readonly #nftables: NetlinkSocket;
  readonly #routes: NetlinkSocket;
  readonly #stack: DisposableStack;
  readonly #rules: RulesOfInterest;
  #hasRemovedRules = false;

  private constructor(
    sockets: readonly [nftables: NetlinkSocket, routes: NetlinkSocket],
    stack: DisposableStack,
    rules: RulesOfInterest,
  ) {
    [this.#nftables, this.#routes] = sockets;
    this.#stack = stack;
    this.#rules = rules;
  }

  /**
   * Starts listening.
   *
   * @throws {SyscallError} If the kernel has no nftables, or the namespace cannot be
   *   entered
   */
  static open(netns: NetNs, rules: RulesOfInterest): RemovalWatch {
    using stack = new DisposableStack();
    const nftables = stack.use(NetlinkSocket.open(netns, Protocol.Netfilter));
    const routes = stack.use(NetlinkSocket.open(netns, Protocol.Route));
    nftables.subscribe(NFTABLES_GROUP);
    for (const group of ROUTE_GROUPS) routes.subscribe(group);
    return new RemovalWatch([nftables, routes], stack.move(), rules);
  }

  /**
   * Its descriptors. When a descriptor is readable, {@linkcode take} might return
   * removals.
   */
  get descriptors(): number[] {
    return [this.#nftables.descriptor, this.#routes.descriptor];
  }

  /** Returns the removals since the last call; undefined if there are none. */
  take(): Removals | undefined {
    const areRules = this.#takeRules();
    const routes = this.#takeRoutes();
    const removals = { ...routes, areRules: areRules || routes.areRules };
    const { isForwarding, ifindexes, deleted } = removals;
    return removals.areRules || isForwarding || ifindexes.size > 0 ||
        deleted.size > 0
      ? removals
      : undefined;
  }

  /** Reports whether rules were removed. */
  #takeRules(): boolean {
    const { messages, areSomeLost } = receiveAll(this.#nftables);
    let areRules = areSomeLost;
    for (const one of messages) {
      this.#hasRemovedRules ||= this.#isRemovalOfTheirs(one);
      // A commit notification follows its changes, and contains its process.
      for (const { attributes } of decodeAnswers([one], committed)) {
        const { processName = "", processId = 0 } = attributes;
        const isIgnored = this.#rules.isIgnored(processName, processId);
        if (this.#hasRemovedRules && !isIgnored) areRules = true;
        this.#hasRemovedRules = false;
      }
    }
    return areRules;
  }

  #isRemovalOfTheirs(one: RawMessage): boolean {
    const { isTheirs } = this.#rules;
    switch (one.type) {
      case newTable.type:
        return newTable.decode(one.body).attributes.name === FIREWALLD_TABLE;
      case delTable.type: {
        const { name = "" } = delTable.decode(one.body).attributes;
        return isTheirs(name, undefined);
      }
      case delChain.type: {
        const { table = "", name } = delChain.decode(one.body).attributes;
        return isTheirs(table, name);
      }
      case delRule.type:
      case delSet.type:
      case delElements.type: {
        const { table = "", name } = changedPart.decode(one.body).attributes;
        return isTheirs(table, name);
      }
      default:
        return false;
    }
  }

  #takeRoutes(): Removals {
    const { messages, areSomeLost } = receiveAll(this.#routes);
    const turnedOff = listTurnedOff(messages);
    const isForwarding = turnedOff.includes(ALL_LINKS);
    // Forwarding is then also off for each link, so these reports are redundant.
    const links = isForwarding ? [] : turnedOff;
    return {
      areRules: areSomeLost,
      isForwarding,
      ifindexes: new Set([...listLinks(messages), ...links]),
      deleted: new Set(listDeleted(messages)),
    };
  }

  /** Stops listening. */
  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}

/** Receives the notifications that have arrived; some might be lost. */
function receiveAll(
  socket: NetlinkSocket,
): { messages: RawMessage[]; areSomeLost: boolean } {
  const messages: RawMessage[] = [];
  let areSomeLost = false;
  for (;;) {
    try {
      const notice = socket.receiveNotice();
      if (notice === undefined) return { messages, areSomeLost };
      messages.push(...notice);
    } catch (error) {
      if (!isErrno(error, "ENOBUFS")) throw error;
      areSomeLost = true;
    }
  }
}

function listLinks(messages: readonly RawMessage[]): number[] {
  return [
    ...decodeAnswers(messages, linkReport)
      .filter(({ header: { flags, change } }) =>
        (flags & LinkFlag.Up) === 0 && (change & LinkFlag.Up) !== 0 &&
        change !== ALL_FLAGS
      )
      .map(({ header: { index } }) => index),
    ...decodeAnswers(messages, linkRemoval)
      .filter(({ header: { family } }) => family === AF_BRIDGE)
      .map(({ header: { index } }) => index),
    ...decodeAnswers(messages, addressRemoval)
      .map(({ header: { ifindex } }) => ifindex),
    ...decodeAnswers(messages, delRoute)
      .flatMap(({ attributes: { oif } }) => oif ?? []),
    ...queueRemovals.flatMap((type) => decodeAnswers(messages, type))
      .map(({ header: { ifindex } }) => ifindex),
  ];
}

/**
 * Lists the links for which a parameter was turned off. The report of a new link
 * contains all parameters.
 *
 * Source: net/ipv4/devinet.c `inet_netconf_fill_devconf()`.
 */
function listTurnedOff(messages: readonly RawMessage[]): number[] {
  return decodeAnswers(messages, parameters).flatMap(({ attributes }) => {
    const { ifindex = 0, forwarding, answersForNeighbors } = attributes;
    const [value, ...others] = [forwarding ?? [], answersForNeighbors ?? []]
      .flat();
    return value === 0 && others.length === 0 ? [ifindex] : [];
  });
}

function listDeleted(messages: readonly RawMessage[]): string[] {
  return decodeAnswers(messages, linkRemoval)
    .filter(({ header: { family }, attributes: { info } }) =>
      family !== AF_BRIDGE && info?.kind !== "veth"
    )
    .flatMap(({ attributes: { name } }) => name ?? []);
}
