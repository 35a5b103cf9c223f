/**
 * Rules as the kernel lists them.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import type { Expression } from "./expression.ts";
import { ruleAttributes } from "./message.ts";

const latin1 = new TextDecoder("latin1");

/** An existing rule, decoded on first access. */
export class Rule {
  readonly #bytes: Bytes;
  #decoded: ReturnType<typeof ruleAttributes.decode> | undefined;

  /**
   * Wraps a rule as the kernel sent it.
   *
   * @param bytes Its attributes
   */
  constructor(bytes: Bytes) {
    this.#bytes = bytes;
  }

  /** Returns the number that identifies the rule within its table. */
  get handle(): bigint {
    return this.#attributes.handle ?? 0n;
  }

  /** Returns the comment; "" for none. */
  get comment(): string {
    return this.#attributes.comment ?? "";
  }

  /** Returns the rule's expressions. */
  get expressions(): readonly Expression[] {
    return this.#attributes.expressions?.map(toExpression) ?? [];
  }

  get #attributes(): ReturnType<typeof ruleAttributes.decode> {
    return this.#decoded ??= ruleAttributes.decode(this.#bytes);
  }

  /** Returns the rule undecoded, which takes less memory. */
  undecoded(): Rule {
    return new Rule(this.#bytes);
  }

  /**
   * Reports whether the rule contains a text anywhere. In a chain of thousands of
   * rules, this finds the few that need decoding.
   *
   * @param text ASCII, or bytes decoded as latin1
   */
  mentions(text: string): boolean {
    return latin1.decode(this.#bytes).includes(text);
  }
}

/** Some rules of a chain. */
export interface FoundRules {
  /** The rules that exist. */
  readonly rules: readonly Rule[];
  /** Whether the chain also contains other rules. */
  readonly hasOthers: boolean;
}

/** Some expressions, such as the masquerade expression, have no data. */
function toExpression(
  { name = "", data = new Uint8Array(0) }: {
    readonly [K in keyof Expression]?: Expression[K] | undefined;
  },
): Expression {
  return { name, data };
}
