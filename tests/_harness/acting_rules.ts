/**
 * The rules of a host that can do something to a packet. Chains that no base
 * chain leads to, and lookups in empty maps, do nothing.
 *
 * @module
 */

import type { NetNs } from "../../ffi/netns.ts";
import { runIn } from "../../testing/ip_json.ts";

// deno-lint-ignore no-explicit-any -- as nft prints it
type Json = any;

/** A rule set, as far as it decides what happens to packets. */
interface RuleSet {
  /** The statements of each rule, by the rule's chain. */
  readonly rules: Map<string, Json[][]>;
  /** Maps and sets, each with its elements. */
  readonly elements: Map<string, Json[]>;
  readonly baseChains: readonly string[];
}

/**
 * Lists rules and map elements that can do something to a packet, in order, as
 * JSON without handles, counters and comments. Rules of iptables also count if
 * iptables is a front end of nf_tables.
 */
export function actingRules(host: NetNs): string[] {
  const { nftables } = JSON.parse(runIn(host, "nft", "-j", "list", "ruleset"));
  const ruleSet = readRuleSet(nftables);
  return ruleSet.baseChains.flatMap((chain) => reach(ruleSet, chain));
}

function readRuleSet(objects: readonly Json[]): RuleSet {
  const rules = new Map<string, Json[][]>();
  const elements = new Map<string, Json[]>();
  const baseChains: string[] = [];
  for (const { chain, rule, map, set } of objects) {
    if (chain?.hook) baseChains.push(nameIn(chain, chain.name));
    const named = map ?? set;
    if (named) elements.set(nameIn(named, named.name), named.elem ?? []);
    if (!rule) continue;
    const name = nameIn(rule, rule.chain);
    rules.set(name, [...rules.get(name) ?? [], rule.expr]);
  }
  return { rules, elements, baseChains };
}

function nameIn({ family, table }: Json, name: string): string {
  return `${family} ${table} ${name}`;
}

/** Lists what a packet meets that enters a chain; nothing if nothing acts. */
function reach(ruleSet: RuleSet, chain: string): string[] {
  const found = (ruleSet.rules.get(chain) ?? []).map((statements) => {
    const rest = statements.filter((one) => !("counter" in one));
    const inside = rest.flatMap((one) => reachByStatement(ruleSet, chain, one));
    return { text: `${chain}: ${JSON.stringify(rest)}`, rest, inside };
  });
  const acts = found.some(({ rest, inside }) =>
    inside.length > 0 || rest.some(isAction)
  );
  if (!acts) return [];
  return found.flatMap(({ text, rest, inside }) =>
    inside.length > 0 || rest.some(isAction) || rest.some(isReturn)
      ? [text, ...inside]
      : []
  );
}

/** Lists the statements in the chains and maps that a statement refers to. */
function reachByStatement(
  ruleSet: RuleSet,
  chain: string,
  statement: Json,
): string[] {
  const siblingOf = (name: string): string =>
    chain.replace(/\S+$/, () => name.replace("@", ""));
  const target = (statement.jump ?? statement.goto)?.target;
  if (target) return reach(ruleSet, siblingOf(target));
  const data = statement.vmap?.data;
  if (data === undefined) return [];
  const elements: Json[] = typeof data === "string"
    ? ruleSet.elements.get(siblingOf(data)) ?? []
    : data.set;
  return elements.flatMap(([key, verdict]) => {
    const inside = reachByStatement(ruleSet, chain, verdict);
    if (inside.length === 0 && !isAction(verdict)) return [];
    const map = typeof data === "string" ? data : "map";
    return [`${map}: ${JSON.stringify(key.elem?.val ?? key)}`, ...inside];
  });
}

function isReturn(statement: Json): boolean {
  return "return" in statement;
}

/** Reports whether a statement has an effect by itself. */
function isAction(statement: Json): boolean {
  if (statement.xt !== undefined) return statement.xt?.type !== "match";
  const passive = ["match", "jump", "goto", "vmap", "return", "comment"];
  return !passive.some((key) => key in statement);
}
