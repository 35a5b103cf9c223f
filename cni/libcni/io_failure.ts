/**
 * Reading what may not be there.
 *
 * @module
 */

/** Answers undefined where `run` finds that something does not exist. */
export function unlessMissing<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    // Nothing can have such a name.
    if (
      error instanceof Error && Reflect.get(error, "code") === "ENAMETOOLONG"
    ) {
      return undefined;
    }
    throw error;
  }
}
