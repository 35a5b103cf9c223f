/**
 * Policy rules of one namespace: which packets are looked up in which routing
 * table.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { addressFamily, AF_INET, AF_INET6, AF_UNSPEC } from "./constants.ts";
import { headerTable } from "./route.ts";
import { delRule, getRule, hasCondition, newRule } from "./rule_message.ts";

/** Source: include/uapi/linux/fib_rules.h. */
const FR_ACT_TO_TBL = 1, FIB_RULE_INVERT = 2;
/** What FRA_SUPPRESS_PREFIXLEN is, -1, where nothing is suppressed. */
const SUPPRESS_NOTHING = 0xffff_ffff;

/** A rule that has packets from some addresses looked up in a table. */
export interface NewRule {
  /** The addresses; host bits are not allowed. */
  readonly source: Cidr;
  /** The routing table, 1 to 2^32 - 1. */
  readonly table: number;
  /**
   * The lowest is asked first. If undefined, a new rule comes before all others
   * but that of table local, and any rule may be deleted.
   */
  readonly priority?: number | undefined;
}

/** A rule as the kernel has it. */
export interface Rule extends NewRule {
  /** The lowest is asked first. */
  readonly priority: number;
  /** Whether the source decides alone, and packets are looked up in the table. */
  readonly isBySource: boolean;
}

/** Policy rules of the namespace in which the socket was opened. */
export class RuleRequests {
  readonly #socket: NetlinkSocket;

  /**
   * Speaks through an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Adds a rule. One that is there already is added once more, unless its
   * priority is given: the kernel chooses another one each time.
   *
   * @throws {NetlinkError} EEXIST if there is the same one with the same priority
   */
  add(rule: NewRule): void {
    this.#socket.request(newRule, {
      flags: Flag.Create | Flag.Exclusive,
      ...bodyOf(rule),
    });
  }

  /**
   * Deletes the first rule that has all that is given.
   *
   * @throws {NetlinkError} ENOENT if there is none
   */
  del(rule: NewRule): void {
    this.#socket.request(delRule, bodyOf(rule));
  }

  /** Lists the rules of both families, each in the order in which they are asked. */
  list(): Rule[] {
    const request = { header: { family: AF_UNSPEC } };
    return this.#socket.dump(getRule, request, newRule)
      // Multicast routing has rules of its own.
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
  return {
    source: Cidr.of(source, header.sourceLength),
    table: attributes.table ?? header.table,
    // The kernel does not tell the priority of the rule that is asked first.
    priority: attributes.priority ?? 0,
    isBySource: header.action === FR_ACT_TO_TBL && header.tos === 0 &&
      header.destinationLength === 0 &&
      (header.flags & FIB_RULE_INVERT) === 0 &&
      suppressPrefixLength === SUPPRESS_NOTHING &&
      !hasCondition(attributes),
  };
}
