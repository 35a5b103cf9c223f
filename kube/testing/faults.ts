/**
 * Faults to inject into requests.
 *
 * @module
 */

/** Selects requests, and the fault that they meet. */
export interface FaultRule {
  /** Any method if undefined. */
  readonly method?: string;
  /** Matched against path and query; any if undefined. */
  readonly path?: RegExp;
  /** Maximum number of requests that meet the fault; all if undefined. */
  readonly times?: number;
  /** Delay before the request is handled, which ends if the server is stopped. */
  readonly delayMs?: number;
  /** Responds with this status, and a Status object unless `body` is set. */
  readonly status?: number;
  /** The raw response body: garbage, HTML, anything. The status is 200 by default. */
  readonly body?: string;
  /** The Retry-After header, in seconds. */
  readonly retryAfter?: number;
  /** Additional response headers. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Closes the connection: before the request is carried out; "after" that
   * but before the response; or after half of the response body.
   */
  readonly drop?: "before" | "after" | "mid-body";
}

/** A rule that is in force. */
export interface Fault {
  /** How many requests it has met. */
  readonly hits: number;
  /** Stops it. */
  clear(): void;
}

/** The rules that are in force. */
export class FaultList {
  readonly #faults: { rule: FaultRule; hits: number }[] = [];

  /** Adds a rule after the existing rules. */
  add(rule: FaultRule): Fault {
    const entry = { rule, hits: 0 };
    this.#faults.push(entry);
    return {
      get hits(): number {
        return entry.hits;
      },
      clear: () => {
        const index = this.#faults.indexOf(entry);
        if (index >= 0) this.#faults.splice(index, 1);
      },
    };
  }

  /** Removes all rules. */
  clear(): void {
    this.#faults.length = 0;
  }

  /** Returns the rule that matches a request, and counts the hit; an empty rule without a match. */
  take(method: string, path: string): FaultRule {
    const found = this.#faults.find(({ rule, hits }) =>
      hits < (rule.times ?? Infinity) &&
      (rule.method ?? method) === method &&
      (rule.path === undefined || path.search(rule.path) >= 0)
    );
    if (found === undefined) return {};
    found.hits++;
    return found.rule;
  }
}
