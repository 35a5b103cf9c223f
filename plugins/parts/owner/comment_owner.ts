/**
 * The comments in which rules and elements name their owners, and the addresses
 * of rules.
 *
 * @module
 */

import type { Ip } from "../../../net/ip.ts";

/** The owner in a comment. */
export interface CommentOwner {
  /** The network; "" if it is cut off. */
  readonly network: string;
  /** The container, whose end can be cut off. */
  readonly container: string;
  readonly ifName: string;
  /** The hashes of network and attachment; "" if the comment contains none. */
  readonly instance: string;
}

/** Parses a comment of masquerade rules, port mappings and firewall addresses. */
export function parseInstance(comment: string): CommentOwner | undefined {
  const [, instance = "", network = "", ifName = "", container = ""] =
    /^([0-9a-f]{16}-[0-9a-f]{16}), net: (.+?), if: (.*?), id: (.+)$/s
      .exec(comment) ?? [];
  return instance === "" ? undefined : { instance, network, ifName, container };
}

/** Parses a comment of iptables rules. */
export function parseQuoted(comment: string): CommentOwner | undefined {
  const [, network = "", container = ""] =
    /^(?:dnat )?name: "(.*)" id: "([^"]+)"$/s.exec(comment) ?? [];
  return container === ""
    ? undefined
    : { instance: "", network, ifName: "", container };
}

/** Removes duplicate addresses. */
export function uniqueIps(ips: readonly Ip[]): Ip[] {
  return [...new Map(ips.map((ip) => [String(ip), ip])).values()];
}
