/**
 * Single runs of a program for several concurrent calls.
 *
 * @module
 */

import { withoutSlot, yieldIfLong } from "../../../../base/long_wait.ts";
import {
  type ChangeCheck,
  currentCheck,
  withChangeCheck,
} from "../../../../ffi/change_check.ts";

/** How callers share runs. */
export interface Sharing<Input> {
  /** Lists objects that two callers of a run must not both claim; none by default. */
  readonly claimsOf?: (input: Input) => readonly string[];
  /**
   * Reports whether failed work is repeated for each caller separately; true by
   * default.
   */
  readonly isRetried?: (error: unknown) => boolean;
  /** Reports whether work failed because this caller has given up; false by default. */
  readonly isGivenUp?: (error: unknown, input: Input) => boolean;
}

/** The request of a caller. */
interface Request<Input, Output> {
  readonly input: Input;
  /** Checks whether its caller is still permitted to change something. */
  readonly check: ChangeCheck | undefined;
  readonly resolve: (output: Output) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Runs work one at a time for each key. Requests during a run are handled together by
 * the next run, which therefore sees the state at the time of each request. The run
 * changes something only if all of its callers are permitted to.
 */
export class SharedRuns<Input, Output> {
  readonly #work: (
    inputs: readonly [Input, ...Input[]],
  ) => Promise<readonly Output[]>;
  readonly #claimsOf: (input: Input) => readonly string[];
  readonly #isRetried: (error: unknown) => boolean;
  readonly #isGivenUp: (error: unknown, input: Input) => boolean;
  readonly #waiting = new Map<string, Request<Input, Output>[]>();

  /**
   * @param work Does the work for several callers
   */
  constructor(
    work: (inputs: readonly [Input, ...Input[]]) => Promise<readonly Output[]>,
    {
      claimsOf = () => [],
      isRetried = () => true,
      isGivenUp = () => false,
    }: Sharing<Input> = {},
  ) {
    [this.#work, this.#claimsOf] = [work, claimsOf];
    [this.#isRetried, this.#isGivenUp] = [isRetried, isGivenUp];
  }

  /** Runs the work for a caller. Throws the error of the work. */
  async run(key: string, input: Input): Promise<Output> {
    const { promise, resolve, reject } = Promise.withResolvers<Output>();
    const waiting = this.#waiting.get(key);
    const request = { input, check: currentCheck(), resolve, reject };
    if (waiting !== undefined) waiting.push(request);
    else this.#begin(key, request);
    return await yieldIfLong(() => promise);
  }

  async #begin(key: string, first: Request<Input, Output>): Promise<void> {
    let waiting = [first];
    while (waiting.length > 0) {
      const { now, later } = this.#split(waiting);
      this.#waiting.set(key, later);
      await this.#serve(now);
      waiting = later;
    }
    this.#waiting.delete(key);
  }

  #split(
    waiting: readonly Request<Input, Output>[],
  ): Record<"now" | "later", Request<Input, Output>[]> {
    const claimed = new Set<string>();
    const { now = [], later = [] } = Object.groupBy(waiting, ({ input }) => {
      const claims = this.#claimsOf(input);
      if (claims.some((one) => claimed.has(one))) return "later";
      for (const one of claims) claimed.add(one);
      return "now";
    });
    return { now, later };
  }

  async #serve(requests: readonly Request<Input, Output>[]): Promise<void> {
    const [first, ...others] = requests.map(({ input }) => input);
    if (first === undefined) return;
    const check = (): void => requests.forEach((one) => one.check?.());
    try {
      const outputs = await withChangeCheck(
        check,
        () => withoutSlot(() => this.#work([first, ...others])),
      );
      requests.forEach(({ resolve }, at) => resolve(outputs[at] as Output));
    } catch (error) {
      const { gone, left = [] } = Object.groupBy(
        requests,
        ({ input }) => this.#isGivenUp(error, input) ? "gone" : "left",
      );
      if (gone !== undefined) {
        for (const one of gone) one.reject(error);
        return await this.#serve(left);
      }
      const isRetried = others.length > 0 && this.#isRetried(error);
      for (const one of requests) {
        if (isRetried) await this.#serve([one]);
        else one.reject(error);
      }
    }
  }
}
