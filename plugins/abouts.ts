/**
 * Facts about this project's plugins, for tools. Nothing that a
 * plugin's call loads imports it.
 *
 * @module
 */

import type { About } from "../cni/tools/about.ts";
import { ABOUTS } from "./lists/abouts.ts";

const byType: ReadonlyMap<string, About> = new Map(
  ABOUTS.map((about) => [about.type, about]),
);

/** Finds what one of this project's plugins tells; undefined for other types. */
export function findAbout(type: string): About | undefined {
  return byType.get(type);
}
