/**
 * What a plugin must do, as rows: what is demanded, where the specification
 * says so, and how to find out.
 *
 * @module
 */

import type { Scene } from "./scene.ts";

/**
 * How strong a demand is: a word of RFC 2119 that the specification uses, or
 * `PRACTICE` for what it does not say but runtimes and operators rely on.
 */
export type Strength = "MUST" | "SHOULD" | "PRACTICE";

/** What a plugin is for. */
export type Kind = "interface" | "chained" | "ipam";

/** What came of a demand. */
export type Outcome = "kept" | "broken" | "untried";

/** A demand. */
export interface Demand {
  /** A name for the command line and for pages, such as `del-twice`. */
  readonly id: string;
  /** What the plugin does if it is right. */
  readonly title: string;
  /** Where the specification says so, such as `2 DEL`. */
  readonly section: string;
  readonly strength: Strength;
  /** The kinds of plugins that it is about; all if undefined. */
  readonly kinds?: readonly Kind[];
  /** Whether the plugin must call an IPAM plugin. */
  readonly needsIpam?: boolean;
  /** The first version of the specification with the demand. */
  readonly since?: string;
  /**
   * Finds out. Returns if the demand is kept.
   *
   * @throws {Broken} If it is not
   * @throws {Untried} If it cannot be told
   */
  readonly run: (scene: Scene) => Promise<void>;
}

/** A demand is broken: why, in a line or more. */
export class Broken extends Error {
  override readonly name = "Broken";
}

/** It cannot be told whether a demand is kept: why. */
export class Untried extends Error {
  override readonly name = "Untried";
}

/** Fails a demand unless a condition holds. */
export function demand(condition: unknown, why: string): asserts condition {
  if (!condition) throw new Broken(why);
}

/** Shortens a text to a line for people. */
export function brief(text: string, limit = 200): string {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}
