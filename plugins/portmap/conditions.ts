/**
 * Conditions of mappings, in the syntax of `nft`. Only ADD of a network with
 * conditions runs the program.
 *
 * @module
 */

import {
  type Change,
  delChainOf,
  delRuleOf,
  delSetOf,
  flushChain,
} from "../../ffi/nftables/change.ts";
import { verdictOf } from "../../ffi/nftables/expression.ts";
import type { Nftables, Rule } from "../../ffi/nftables/mod.ts";
import { NetNs } from "../../ffi/netns.ts";
import {
  BackendMissing,
  findProgram,
} from "../parts/firewall/iptables/find.ts";
import type { PortmapHost } from "./backend.ts";
import {
  CONDITIONAL,
  mapNamesOf,
  type PortGroup,
  portMapOf,
  TABLE,
} from "./table.ts";

/**
 * Adds the rules that lead to the groups' chains, unless they exist.
 *
 * @throws {Error} If the host has no `nft`, or with its output
 */
export async function ensureConditions(
  nftables: Nftables,
  { hostNetns, path, signal }: PortmapHost,
  groups: readonly PortGroup[],
): Promise<void> {
  const missing = withoutConditions(nftables, groups);
  if (missing.length === 0) return;
  const program = findProgram("nft", path);
  if (program === undefined) {
    throw new BackendMissing("the host has no nft, which conditions need");
  }
  const { execute } = await import("../parts/firewall/iptables/program.ts");
  using netns = NetNs.open(hostNetns);
  const { success, stderr } = await execute(
    { netns, path: program.path, signal },
    "",
    ["-f", "-"],
    missing.map(additionOf).join(""),
  );
  if (success) return;
  const conditions = missing.map(({ conditions }) => `"${conditions}"`);
  throw new Error(`Cannot add the conditions ${conditions.join(", ")}`, {
    cause: stderr.trim().split("\n")[0],
  });
}

function additionOf({ conditions, chain, family }: PortGroup): string {
  const { family: tableFamily, name } = TABLE;
  return `add rule ${tableFamily} ${name} ${CONDITIONAL} ` +
    `meta nfproto ipv${family} ${conditions} jump ${chain}\n`;
}

/** Lists the groups to whose chains no rule leads. */
export function withoutConditions(
  nftables: Nftables,
  groups: readonly PortGroup[],
): PortGroup[] {
  const chains = nftables.listRules(TABLE, CONDITIONAL).map(chainOf);
  return groups.filter(({ conditions, chain }) =>
    conditions !== "" && !chains.includes(chain)
  );
}

/**
 * Lists the changes that remove the groups of conditions with no mapping left.
 *
 * @param emptied Names of maps that lose elements
 * @param used Names of maps that keep some
 */
export function delUnusedGroups(
  nftables: Nftables,
  emptied: readonly string[],
  used: readonly string[],
): Change[] {
  const inUse = new Set(used.map((name) => portMapOf(name)?.chain));
  const unused = new Map(
    emptied.flatMap((name) => portMapOf(name) ?? [])
      .filter(({ prefix, chain }) => prefix !== "" && !inUse.has(chain))
      .map((group) => [group.chain, group]),
  );
  if (unused.size === 0) return [];
  const rules = nftables.listRules(TABLE, CONDITIONAL);
  return [...unused].flatMap(([chain, group]) => [
    ...rules.filter((rule) => chainOf(rule) === chain)
      .map(({ handle }) => delRuleOf(TABLE, CONDITIONAL, handle)),
    flushChain(TABLE, chain),
    delChainOf(TABLE, chain),
    ...mapNamesOf(group).map((name) => delSetOf(TABLE, name)),
  ]);
}

function chainOf({ expressions }: Rule): string | undefined {
  return verdictOf(expressions)?.chain;
}
