/**
 * Policy rule messages of rtnetlink, as tables.
 *
 * Source: include/uapi/linux/fib_rules.h, Documentation/netlink/specs/rt-rule.yaml.
 *
 * @module
 */

import { struct, u16, u32, u8 } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import {
  attributeSet,
  cstring,
  ip,
  raw,
  type Rows,
} from "../netlink/attribute.ts";
import { message } from "../netlink/message.ts";

/** Fixed header of RTM_*RULE. Source: `struct fib_rule_hdr`. */
const ruleHeader = struct({
  family: u8,
  destinationLength: u8,
  sourceLength: u8,
  tos: u8,
  table: u8,
  reserved1: u8,
  reserved2: u8,
  action: u8,
  flags: u32,
});

/** Ports, with the last port included. Source: `struct fib_rule_port_range`. */
const portRange = struct({ first: u16, last: u16 });

/**
 * Attributes of RTM_*RULE that match more than addresses. No plugin sets them.
 * Source: include/uapi/linux/fib_rules.h `FRA_*`.
 */
const CONDITIONS = {
  inputName: [3, cstring],
  mark: [10, u32],
  realm: [11, raw],
  tunnelId: [12, raw],
  suppressGroup: [13, raw],
  markMask: [16, u32],
  outputName: [17, cstring],
  l3mdev: [19, raw],
  userRange: [20, raw],
  ipProtocol: [22, u8],
  sourcePorts: [23, raw],
  destinationPorts: [24, portRange],
  dscp: [25, raw],
  flowLabel: [26, raw],
  flowLabelMask: [27, raw],
  sourcePortMask: [28, raw],
  destinationPortMask: [29, raw],
  dscpMask: [30, raw],
} as const satisfies Rows;

/** Attributes of RTM_*RULE. */
const ruleAttributes = attributeSet({
  destination: [1, ip],
  source: [2, ip],
  priority: [6, u32],
  suppressPrefixLength: [14, u32],
  table: [15, u32],
  protocol: [21, u8],
  ...CONDITIONS,
});

/** Reports whether a rule matches more than addresses. */
export function hasCondition(
  attributes: Readonly<Record<string, unknown>>,
): boolean {
  return Object.keys(CONDITIONS).some((name) => attributes[name] !== undefined);
}

/** The conditions that {@linkcode RuleSelector} contains. */
const SELECTED: readonly string[] = [
  "inputName",
  "mark",
  "markMask",
  "ipProtocol",
  "destinationPorts",
  // Linux 6.15 and later report it for all ports.
  "destinationPortMask",
];

/** Reports whether a rule has conditions that {@linkcode RuleSelector} lacks. */
export function hasOtherCondition(
  attributes: Readonly<Record<string, unknown>>,
): boolean {
  return Object.keys(CONDITIONS).some((name) =>
    attributes[name] !== undefined && !SELECTED.includes(name)
  );
}

/** Names the rule of a message in errors. */
function describe(
  { sourceLength, table: ofHeader }: {
    readonly sourceLength?: number;
    readonly table?: number;
  },
  { source, table = ofHeader }: {
    readonly source?: Ip | undefined;
    readonly table?: number | undefined;
  },
): string | undefined {
  const from = source === undefined ? "all" : `${source}/${sourceLength}`;
  return table ? `from ${from} lookup ${table}` : undefined;
}

/** Adds or reports a rule. */
export const newRule = message(
  "RTM_NEWRULE",
  32,
  ruleHeader,
  ruleAttributes,
  describe,
);

export const delRule = message(
  "RTM_DELRULE",
  33,
  ruleHeader,
  ruleAttributes,
  describe,
);

export const getRule = message("RTM_GETRULE", 34, ruleHeader, ruleAttributes);
