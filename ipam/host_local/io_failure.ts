/**
 * Reading and removing where nothing being there is as good.
 *
 * @module
 */

import { isMissing } from "../../cni/io_failure.ts";

/**
 * Answers undefined where `run` finds that something does not exist, be it that
 * a folder on the way is a file.
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

/** Does the same with what is under way. */
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
