/**
 * Work that runs beside other work, and work that runs alone.
 *
 * @module
 */

/** Lets work in, in the order in which it came. */
export class Gate {
  readonly #running = new Set<Promise<unknown>>();
  /** Ends with the last work that runs alone. */
  #alone: Promise<unknown> = Promise.resolve();

  /** Runs work when it is its turn. */
  async enter<T>(isAlone: boolean, work: () => Promise<T>): Promise<T> {
    const before = this.#alone;
    const beside = [...this.#running];
    const run = async (): Promise<T> => {
      await before;
      if (isAlone) await Promise.all(beside);
      return await work();
    };
    const running = run();
    const ended = running.catch(() => {});
    this.#running.add(ended);
    if (isAlone) this.#alone = ended;
    try {
      return await running;
    } finally {
      this.#running.delete(ended);
    }
  }
}
