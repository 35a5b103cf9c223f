/**
 * The way of a network's packets through rules of nftables.
 *
 * @module
 */

import {
  type Comparison,
  type Expression,
  isNotrack,
  readComparisons,
  verdictOf,
  VERDICTS,
} from "../../ffi/nftables/expression.ts";
import type { Element } from "../../ffi/nftables/change.ts";
import type { HookedChain, Nftables } from "../../ffi/nftables/mod.ts";
import { holds, type Traffic } from "./packets.ts";

/** Source: net/netfilter `NFT_JUMP_STACK_SIZE`. */
const MAX_DEPTH = 16;

/** What a rule does with a packet; "unknown" if it has parts that are not understood. */
type Effect =
  | "drop"
  | "accept"
  | "jump"
  | "goto"
  | "return"
  | "notrack"
  | "unknown";

/** What a rule does with the packets for which all comparisons hold. */
interface Decision {
  readonly effect: Effect;
  /** The chain that it jumps to. */
  readonly next?: string | undefined;
  readonly also: readonly Comparison[];
}

/** A rule that packets of a network come to. */
export interface Step extends Decision {
  readonly handle: bigint;
  readonly inChain: string;
  /** Whether it surely decides about new connections of the network. */
  readonly isSure: boolean;
  /** Whether it, or a jump to it, is for some packets only. */
  readonly isConditional: boolean;
}

/**
 * Walks through the rules that packets of a network come to, in the kernel's order.
 * Follows jumps that they surely take. The caller stops at a step that surely ends
 * the way. Rules without any effect are left out.
 */
export function* walk(
  nftables: Nftables,
  hooked: HookedChain,
  traffic: Traffic,
  { chain = hooked.name, depth = 0, isInner = false } = {},
): Generator<Step, void> {
  if (depth > MAX_DEPTH) return;
  const elementsOf = (set: string): readonly Element[] =>
    nftables.listElements(hooked.table, set);
  for (
    const { handle, expressions } of nftables.listRules(hooked.table, chain)
  ) {
    for (const decision of listDecisions(expressions, elementsOf)) {
      const { effect, next, also } = decision;
      const isHarm = effect === "drop" || effect === "notrack";
      const isSure = effect !== "unknown" &&
        also.every((one) => holds(one, { traffic, isHarm, elementsOf }));
      const isConditional = isInner || also.length > 0;
      yield { ...decision, handle, inChain: chain, isSure, isConditional };
      if (!isSure) continue;
      if (next !== undefined) {
        yield* walk(nftables, hooked, traffic, {
          chain: next,
          depth: depth + 1,
          isInner: isConditional,
        });
      }
      if (effect === "return" || effect === "goto") return;
    }
  }
}

/** Lists what a rule does, by itself or by its map. */
function listDecisions(
  expressions: readonly Expression[],
  elementsOf: (set: string) => readonly Element[],
): Decision[] {
  const others = expressions.filter((one) => !isNotrack(one));
  const compared = readComparisons(others);
  if (compared === undefined) {
    const isEnd = verdictOf(others) !== undefined ||
      others.some(({ name }) => name === "lookup" || name === "target");
    return isEnd ? [{ effect: "unknown", also: [] }] : [];
  }
  const untracked: Decision[] = others.length < expressions.length
    ? [{ effect: "notrack", also: compared }]
    : [];
  const map = compared.find(({ isMap }) => isMap === true);
  if (map?.set !== undefined) {
    const rest = compared.filter((one) => one !== map);
    const byMap = elementsOf(map.set).flatMap(({ key, verdict, chain }) => {
      const value: Comparison = { ...map, set: undefined, value: key };
      return decisionOf({ code: verdict, chain }, [...rest, value]);
    });
    return [...untracked, ...byMap];
  }
  const isReject = others.some(({ name }) => name === "reject");
  const verdict = isReject ? { code: VERDICTS.drop } : verdictOf(others);
  return [...untracked, ...decisionOf(verdict, compared)];
}

/** Names of verdicts by their codes. */
const EFFECTS = new Map<number | undefined, Effect>([
  [VERDICTS.drop, "drop"],
  [VERDICTS.accept, "accept"],
  [VERDICTS.jump, "jump"],
  [VERDICTS.goto, "goto"],
  [VERDICTS.return, "return"],
]);

function decisionOf(
  verdict: ReturnType<typeof verdictOf>,
  also: readonly Comparison[],
): Decision[] {
  const effect = EFFECTS.get(verdict?.code);
  return effect === undefined ? [] : [{ effect, next: verdict?.chain, also }];
}
