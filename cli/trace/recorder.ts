/**
 * Observers of this process report to a recorder: a file of records, or spans.
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import type { StepKind } from "./record.ts";
import type { SpanAttributes } from "./span.ts";

/** The description of an operation before it starts. */
export interface Subject {
  readonly kind: StepKind;
  readonly name: string;
  readonly object?: string;
  /** More about it, for records. */
  readonly detail?: (() => JsonObject) | undefined;
  /** More about it, for spans. */
  readonly attributes?: SpanAttributes;
}

/** How an operation ended. */
export interface Ending {
  readonly error?: unknown;
  readonly more?: JsonObject | undefined;
  /** When, in ms since the start of the process; now if undefined. */
  readonly endMs?: number;
}

/** An operation that has begun. */
export interface Begun {
  /** Variables that name the operation to the programs that it starts. */
  readonly variables: Readonly<Record<string, string>>;
  /** Does something that is part of it. */
  readonly within: <T>(work: () => T) => T;
  /** Ends it. */
  readonly end: (ending: Ending) => void;
}

/** Receives what is observed. */
export abstract class Recorder {
  /** Records of system calls wait until their errno has been read. */
  readonly #waiting: (() => void)[] = [];

  /**
   * Begins an operation.
   *
   * @param startMs When, in ms since the start of the process; now if undefined
   */
  abstract begin(subject: Subject, startMs?: number): Begun;

  /**
   * Does something, and records how long it took.
   *
   * @param after Describes the result
   */
  around<T>(
    subject: Subject,
    work: () => T,
    after: (result: T) => JsonObject | undefined = () => undefined,
  ): T {
    const begun = this.begin(subject);
    const succeed = (result: T): void => begun.end({ more: after(result) });
    let result: T;
    try {
      result = begun.within(work);
    } catch (error) {
      begun.end({ error });
      throw error;
    }
    if (!(result instanceof Promise)) {
      succeed(result);
      return result;
    }
    return result.then((value) => {
      succeed(value);
      return value;
    }, (error) => {
      begun.end({ error });
      throw error;
    }) as T;
  }

  /** Adds an operation that ends now, or at a given time. */
  add(subject: Subject, startMs: number, ending: Ending = {}): void {
    this.begin(subject, startMs).end(ending);
  }

  /** Adds a record together with the next record: writing it now would change errno. */
  addLater(add: () => void): void {
    this.#waiting.push(add);
  }

  /** Adds those that wait. */
  protected settle(): void {
    for (const add of this.#waiting.splice(0)) add();
  }
}
