/**
 * Files named after containers.
 *
 * @module
 */

import { ifPossible, removeIfThere } from "../../../base/files/io.ts";
import { isObject, parseJson } from "../../../base/json/json.ts";
import type { Orphan } from "../../../cni/tools/leftovers.ts";

/** Describes a file that is left. */
export function recordOf(
  where: string,
  about: Pick<Orphan, "container" | "network" | "why">,
): Orphan {
  return {
    kind: "record",
    where,
    ...about,
    // The caller waits for a promise, and gets a failure as its rejection.
    async remove(): Promise<void> {
      await Promise.resolve();
      removeIfThere(where);
    },
  };
}

/** Returns undefined for a file that is not an object: it is another program's. */
export function readJson(path: string): Record<string, unknown> | undefined {
  const document = ifPossible(() => parseJson(Deno.readFileSync(path)));
  return isObject(document) ? { ...document } : undefined;
}
