/**
 * Reading and removing where nothing being there is as good.
 *
 * @module
 */

/** Answers undefined where `run` finds that something does not exist. */
export function unlessMissing<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Says whether there is no such path, or can be none: ENAMETOOLONG has no class. */
function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.NotADirectory ||
    error instanceof Error && error.message.includes("(os error 36)");
}
