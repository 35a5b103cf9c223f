/**
 * What a process that stays knows of a long chain: which rule has which key, such as
 * the owner in its comment. So it can ask the kernel for a few rules instead of all.
 *
 * Other programs change chains, too. The generation of nf_tables shows that nobody
 * has changed anything; otherwise nothing is known.
 *
 * @module
 */

/** Returns what identifies a rule's owner: a part of the rule's bytes. */
export type RuleKey<R> = (rule: R) => string;

/** The rules of one chain by their keys. */
export class KnownRules<R> {
  readonly #keys = new Map<bigint, string>();
  readonly #handles = new Map<string, Set<bigint>>();
  #keyOf: RuleKey<R> | undefined;
  /** The generation of nf_tables in which it is so; undefined for none. */
  generation: number | undefined;

  /** Number of rules. */
  get size(): number {
    return this.#keys.size;
  }

  /** Reports whether the keys are those of a function. */
  isBy(keyOf: RuleKey<R>): boolean {
    return this.#keyOf === keyOf;
  }

  /** Returns the handles of the rules with a key. */
  handlesOf(key: string): bigint[] {
    return [...this.#handles.get(key) ?? []];
  }

  /**
   * Learns all rules of the chain.
   *
   * @param generation Of nf_tables, in which it is so
   */
  learn(
    rules: readonly (R & { readonly handle: bigint })[],
    keyOf: RuleKey<R>,
    generation: number,
  ): void {
    this.forget();
    this.#keyOf = keyOf;
    this.generation = generation;
    for (const rule of rules) this.add(rule);
  }

  /** Learns that a rule has been added. */
  add(rule: R & { readonly handle: bigint }): void {
    if (this.#keyOf === undefined) return;
    const key = this.#keyOf(rule), { handle } = rule;
    this.#keys.set(handle, key);
    const handles = this.#handles.get(key);
    if (handles === undefined) this.#handles.set(key, new Set([handle]));
    else handles.add(handle);
  }

  /** Learns that a rule has been deleted. */
  remove(handle: bigint): void {
    const key = this.#keys.get(handle) ?? "";
    this.#keys.delete(handle);
    const handles = this.#handles.get(key);
    handles?.delete(handle);
    if (handles?.size === 0) this.#handles.delete(key);
  }

  /** Learns that the chain has no rules any more. */
  clear(): void {
    this.#keys.clear();
    this.#handles.clear();
  }

  /** Forgets everything. */
  forget(): void {
    this.generation = undefined;
    this.#keyOf = undefined;
    this.clear();
  }
}
