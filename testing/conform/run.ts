/**
 * Runs requirements.
 *
 * @module
 */

import { isAtLeast } from "../../cni/version.ts";
import type { Requirement, Strength } from "./requirement.ts";
import { Broken, type Outcome, Untried } from "./verdict.ts";
import type { Scene, Subject } from "./scene.ts";

/** The outcome of a requirement. */
export interface Row {
  readonly id: string;
  readonly title: string;
  readonly section: string;
  readonly strength: Strength;
  readonly outcome: Outcome;
  /** Why it is broken, or untried; undefined if it is kept. */
  readonly why?: string;
  /** Lines for bash that show it, if it is broken. */
  readonly shows?: readonly string[];
  readonly milliseconds: number;
}

/** Reports whether a requirement is about a plugin. */
export function isAbout(
  { kinds, since = "0.1.0", needsIpam }: Requirement,
  { kind, usesIpam, versions }: {
    readonly kind: Subject["kind"];
    readonly usesIpam: boolean;
    readonly versions: readonly string[];
  },
): boolean {
  return (kinds?.includes(kind) ?? true) && (!needsIpam || usesIpam) &&
    versions.some((version) => isAtLeast(version, since));
}

/**
 * Tries a requirement.
 *
 * @param create Makes a node with the plugin, which is thrown away
 */
export async function testRequirement(
  row: Requirement,
  create: () => Scene,
): Promise<Row> {
  const { id, title, section, strength } = row;
  const head = { id, title, section, strength };
  const start = performance.now();
  const end = (
    outcome: Outcome,
    more: Pick<Row, "why" | "shows"> = {},
  ): Row => ({
    ...head,
    outcome,
    ...more,
    milliseconds: Math.round(performance.now() - start),
  });
  const scene = create();
  try {
    const except = scene.subject.except?.[id];
    if (except !== undefined) return end("untried", { why: except });
    await scene.prepare();
    await row.run(scene);
    return end("kept");
  } catch (error) {
    if (error instanceof Untried) return end("untried", { why: error.message });
    if (!(error instanceof Broken)) throw error;
    return end("broken", { why: error.message, shows: scene.transcript });
  } finally {
    scene.place[Symbol.dispose]();
  }
}
