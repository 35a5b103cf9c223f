/**
 * What a plugin must do, as rows: what is required, where the specification
 * says so, and how to find out.
 *
 * @module
 */

import type { Kind, Scene } from "./scene.ts";

/**
 * How strong a requirement is: a word of RFC 2119 that the specification uses, or
 * `PRACTICE` for what it does not say but runtimes and operators rely on.
 */
export type Strength = "MUST" | "SHOULD" | "PRACTICE";

/** A requirement. */
export interface Requirement {
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
  /** The first version of the specification with the requirement. */
  readonly since?: string;
  /**
   * Finds out. Returns if the requirement is kept.
   *
   * @throws {Broken} If it is not
   * @throws {Untried} If it cannot be told
   */
  readonly run: (scene: Scene) => Promise<void>;
}
