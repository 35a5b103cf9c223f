/**
 * One run of a program for the calls of a moment.
 *
 * @module
 */

import {
  type ChangeCheck,
  currentCheck,
  withChangeCheck,
} from "../../../../ffi/change_check.ts";

/** How callers share runs. */
export interface Sharing<Input> {
  /** Lists what two callers of one run must not both claim; nothing by default. */
  readonly claimsOf?: (input: Input) => readonly string[];
  /**
   * Reports whether work that failed is done again for each caller alone; it always is
   * by default.
   */
  readonly isRetried?: (error: unknown) => boolean;
  /** Reports whether work failed because this caller has given up; never by default. */
  readonly isGivenUp?: (error: unknown, input: Input) => boolean;
}

/** What one caller waits for. */
interface Request<Input, Output> {
  readonly input: Input;
  /** Whether its caller may still change something. */
  readonly check: ChangeCheck | undefined;
  readonly resolve: (output: Output) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Runs work one at a time for each key. What is asked for during a run is done
 * together by the next one, which thus sees what was there when it was asked for. It
 * changes something only if all of its callers may.
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

  /** Has the work done. Throws what it throws. */
  async run(key: string, input: Input): Promise<Output> {
    const { promise, resolve, reject } = Promise.withResolvers<Output>();
    const waiting = this.#waiting.get(key);
    const request = { input, check: currentCheck(), resolve, reject };
    if (waiting !== undefined) waiting.push(request);
    else this.#begin(key, request);
    return await promise;
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
        () => this.#work([first, ...others]),
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
