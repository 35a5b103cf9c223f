/**
 * Tolerates missing files on reading and removing.
 *
 * @module
 */

import { isMissing } from "../../cni/files/io.ts";

/**
 * Returns undefined if `run` fails because a file or folder does not exist, or
 * because a folder on the path is a file.
 */
export function unlessMissing<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    const isNone = error instanceof Deno.errors.NotADirectory;
    if (isNone || isMissing(error)) return undefined;
    throw error;
  }
}

/** Like {@linkcode unlessMissing}, for a promise. */
export async function awaitUnlessMissing<T>(
  result: Promise<T>,
): Promise<T | undefined> {
  try {
    return await result;
  } catch (error) {
    return unlessMissing(() => {
      throw error;
    });
  }
}
