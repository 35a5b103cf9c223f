/**
 * The measurements of a cell.
 *
 * @module
 */

import { type Measure, MEASURES, type Measures } from "./measures.ts";

/** All values of one step of one contestant, in the order of rounds. */
export interface Series {
  /** The contestant. */
  readonly who: string;
  /** The step that it ran. */
  readonly step: string;
  readonly values: Readonly<Partial<Record<Measure, readonly number[]>>>;
}

type Values = Partial<Record<Measure, number[]>>;

/** Collects values. */
export class Recording {
  /** By contestant, then by step. */
  readonly #values = new Map<string, Map<string, Values>>();
  /** In the order in which they were first done. */
  readonly #steps = new Set<string>();

  /** Adds what a round measured. */
  add(who: string, step: string, measures: Measures): void {
    this.#steps.add(step);
    const steps = this.#values.get(who) ?? new Map<string, Values>();
    this.#values.set(who, steps);
    const values = steps.get(step) ?? {};
    steps.set(step, values);
    for (const measure of MEASURES) {
      const value = measures[measure];
      if (value !== undefined) (values[measure] ??= []).push(value);
    }
  }

  /**
   * Forgets a contestant that failed: what it did until then cannot be paired.
   *
   * @param verb Forgets only this and its parts, if given
   */
  drop(who: string, verb?: string): void {
    const steps = this.#values.get(who);
    for (const step of [...steps?.keys() ?? []]) {
      if (verb === undefined || step.split(" ")[0] === verb) {
        steps?.delete(step);
      }
    }
  }

  /** Lists what there is: by step, and contestants beside each other. */
  list(): Series[] {
    return [...this.#steps].flatMap((step) =>
      [...this.#values].flatMap(([who, steps]) => {
        const values = steps.get(step);
        return values === undefined ? [] : [{ who, step, values }];
      })
    );
  }
}
