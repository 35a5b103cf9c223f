/**
 * Containers that wait for their repair.
 *
 * @module
 */

import { deadline, waitUntil } from "../../base/deadline.ts";

/**
 * How many containers are repaired at the same time, as the daemon runs calls:
 * those that wait for iptables share its next run.
 */
const AT_ONCE = 64;
/** How often new losses are looked for, in ms. */
const LOOK_MS = 100;

/** A container, and when its repair began, in ms of the process's clock. */
interface Repaired<Container> {
  readonly container: Container;
  readonly beganMs: number;
}

/** Containers in the order of their repair. Those that lose something later come again. */
export class RepairQueue<Container> {
  readonly #waiting: Container[];
  readonly #takeLoss: () => number;
  #repaired: Repaired<Container>[] = [];

  /**
   * Starts with all containers waiting.
   *
   * @param takeLoss Returns when something was last removed that is to be taken up,
   *   in ms of the process's clock; -Infinity for nothing
   */
  constructor(
    containers: Iterable<Container>,
    takeLoss = (): number => -Infinity,
  ) {
    this.#waiting = [...containers];
    this.#takeLoss = takeLoss;
  }

  /**
   * Puts containers at the end again whose repair began before something was
   * removed; returns whether any container waits.
   */
  refill(): boolean {
    const lostMs = this.#takeLoss();
    const { stale = [], fresh = [] } = Object.groupBy(
      this.#repaired,
      ({ beganMs }) => beganMs < lostMs ? "stale" : "fresh",
    );
    this.#repaired = fresh;
    this.#waiting.push(...stale.map(({ container }) => container));
    return this.#waiting.length > 0;
  }

  /**
   * Repairs until no container waits. A slow container does not delay others that
   * lose something.
   *
   * @returns The first error of `repair`, once every repair that began has ended
   */
  async run(
    repair: (container: Container) => Promise<void>,
  ): Promise<unknown> {
    const running = new Set<Promise<void>>();
    const failures: unknown[] = [];
    const work = async (): Promise<void> => {
      for (
        let container = this.#waiting.shift();
        container !== undefined;
        container = this.#waiting.shift()
      ) {
        const beganMs = performance.now();
        await repair(container);
        this.#repaired.push({ container, beganMs });
      }
    };
    while (failures.length === 0 && this.refill() || running.size > 0) {
      for (
        let room = Math.min(AT_ONCE - running.size, this.#waiting.length);
        room > 0;
        room--
      ) {
        const one: Promise<void> = work().catch((error) =>
          void failures.push(error)
        )
          .finally(() => running.delete(one));
        running.add(one);
      }
      await waitUntil(Promise.all(running), deadline(LOOK_MS));
    }
    return failures[0];
  }
}
