/**
 * A long chain as a long-running process has read it.
 *
 * @module
 */

import type { Rule } from "./rule.ts";

/** Returns the part of a rule's bytes that identifies the rule's owner. */
export type RuleKey = (rule: Rule) => string;

/** The rules of a chain, by a key such as the owner in their comments. */
export class KnownRules {
  /**
   * The chain's handle: a different chain that later gets the same name has a
   * different handle.
   */
  readonly chainHandle: bigint;
  readonly #keyOf: RuleKey;
  readonly #keys = new Map<bigint, string>();
  readonly #rules = new Map<string, Map<bigint, Rule>>();

  /** @param rules All rules of the chain */
  constructor(chainHandle: bigint, keyOf: RuleKey, rules: readonly Rule[]) {
    this.chainHandle = chainHandle;
    this.#keyOf = keyOf;
    for (const rule of rules) this.add(rule);
  }

  /** Number of rules. */
  get size(): number {
    return this.#keys.size;
  }

  /** Reports whether `keyOf` computed the keys. */
  isBy(keyOf: RuleKey): boolean {
    return this.#keyOf === keyOf;
  }

  /** Returns the rules with a key. */
  find(key: string): Rule[] {
    return [...this.#rules.get(key)?.values() ?? []];
  }

  /** Adds a rule. */
  add(rule: Rule): void {
    const { handle } = rule, key = this.#keyOf(rule);
    this.#keys.set(handle, key);
    const rules = this.#rules.get(key) ?? new Map<bigint, Rule>();
    this.#rules.set(key, rules.set(handle, rule.undecoded()));
  }

  /** Removes the rule with a handle. */
  remove(handle: bigint): void {
    const key = this.#keys.get(handle) ?? "";
    this.#keys.delete(handle);
    const rules = this.#rules.get(key);
    rules?.delete(handle);
    if (rules?.size === 0) this.#rules.delete(key);
  }
}
