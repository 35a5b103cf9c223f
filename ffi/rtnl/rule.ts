/**
 * Policy rules of a namespace, which choose the routing table of packets.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { addressFamily, AF_INET, AF_INET6, AF_UNSPEC } from "./constants.ts";
import { headerTable } from "./route_body.ts";
import {
  delRule,
  getRule,
  hasCondition,
  hasOtherCondition,
  newRule,
} from "./rule_message.ts";

/** Source: include/uapi/linux/fib_rules.h. */
const FR_ACT_TO_TBL = 1, FR_ACT_BLACKHOLE = 6, FIB_RULE_INVERT = 2;
/** The FRA_SUPPRESS_PREFIXLEN of rules that suppress nothing: -1. */
const SUPPRESS_NOTHING = 0xffff_ffff;

/** A rule that looks up packets from some addresses in a table. */
export interface NewRule {
  /** The source addresses; host bits are not allowed. */
  readonly source: Cidr;
  /** The routing table, 1 to 2^32 - 1. */
  readonly table: number;
  /**
   * The priority; the lowest comes first. If undefined, a new rule precedes all rules
   * except the rule for table local, and a deletion matches any priority.
   */
  readonly priority?: number | undefined;
}

/** The conditions of a rule besides the source; undefined matches any packet. */
export interface RuleSelector {
  readonly destination: Cidr;
  /** Name of the link on which packets arrive. */
  readonly inputName: string | undefined;
  readonly mark: { readonly value: number; readonly mask: number } | undefined;
  readonly ipProtocol: number | undefined;
  readonly destinationPorts:
    | { readonly first: number; readonly last: number }
    | undefined;
  /** Whether it matches the packets that do not meet the conditions. */
  readonly isInverted: boolean;
  /** Whether it has conditions that are not decoded. */
  readonly hasOthers: boolean;
  /**
   * Routes with at most this prefix length are ignored; undefined if none is ignored.
   */
  readonly suppressPrefixLength: number | undefined;
}

/** A rule as the kernel reports it. */
export interface Rule extends NewRule {
  /** The priority; the lowest comes first. */
  readonly priority: number;
  /** Whether it matches by source only, and looks packets up in the table. */
  readonly isBySource: boolean;
  /** Whether it stops all packets of its source: blackhole, unreachable or prohibit. */
  readonly stops: boolean;
  /** Whether it stops the packets that it matches. */
  readonly isStop: boolean;
  readonly selector: RuleSelector;
}

/** Policy rules of the namespace in which the socket was opened. */
export class RuleRequests {
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
   * Adds a rule. Without a priority, an existing rule is added again, because the
   * kernel chooses a different priority each time.
   *
   * @throws {NetlinkError} EEXIST if the same rule exists with the same
   * priority
   */
  add(rule: NewRule): void {
    this.#socket.request(newRule, {
      flags: Flag.Create | Flag.Exclusive,
      ...bodyOf(rule),
    });
  }

  /**
   * Deletes the first rule that has all given values.
   *
   * @throws {NetlinkError} ENOENT if no rule matches
   */
  del(rule: NewRule): void {
    this.#socket.request(delRule, bodyOf(rule));
  }

  /** Lists the rules of both families, each family in order of priority. */
  list(): Rule[] {
    const request = { header: { family: AF_UNSPEC } };
    return this.#socket.dump(getRule, request, newRule)
      // Multicast routing has its own rules.
      .filter(({ header: { family } }) =>
        family === AF_INET || family === AF_INET6
      ).map(decodeRule);
  }
}

function bodyOf(
  { source, table, priority }: NewRule,
): Parameters<typeof newRule.encode>[0] {
  const inHeader = headerTable(table);
  return {
    header: {
      family: addressFamily(source.family),
      sourceLength: source.prefixLength,
      table: inHeader,
      action: FR_ACT_TO_TBL,
    },
    attributes: {
      source: source.prefixLength === 0 ? undefined : source.ip,
      priority,
      table: inHeader === table ? undefined : table,
    },
  };
}

function decodeRule(
  { header, attributes }: ReturnType<typeof newRule.decode>,
): Rule {
  const family = header.family === AF_INET ? 4 : 6;
  const source = attributes.source ?? Ip.fromValue(family, 0n);
  const { suppressPrefixLength = SUPPRESS_NOTHING } = attributes;
  const isAnyOther = header.tos === 0 && header.destinationLength === 0 &&
    (header.flags & FIB_RULE_INVERT) === 0 && !hasCondition(attributes);
  return {
    source: Cidr.of(source, header.sourceLength),
    table: attributes.table ?? header.table,
    // The kernel omits a priority of 0.
    priority: attributes.priority ?? 0,
    isBySource: header.action === FR_ACT_TO_TBL && isAnyOther &&
      suppressPrefixLength === SUPPRESS_NOTHING,
    stops: header.action >= FR_ACT_BLACKHOLE && isAnyOther,
    isStop: header.action >= FR_ACT_BLACKHOLE,
    selector: {
      destination: Cidr.of(
        attributes.destination ?? Ip.fromValue(family, 0n),
        header.destinationLength,
      ),
      inputName: attributes.inputName,
      mark: attributes.mark === undefined ? undefined : {
        value: attributes.mark,
        mask: attributes.markMask ?? 0xffff_ffff,
      },
      ipProtocol: attributes.ipProtocol,
      destinationPorts: attributes.destinationPorts && {
        first: attributes.destinationPorts.first ?? 0,
        last: attributes.destinationPorts.last ?? 0,
      },
      isInverted: (header.flags & FIB_RULE_INVERT) !== 0,
      hasOthers: header.tos !== 0 || hasOtherCondition(attributes),
      suppressPrefixLength: suppressPrefixLength === SUPPRESS_NOTHING
        ? undefined
        : suppressPrefixLength,
    },
  };
}
