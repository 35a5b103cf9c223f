/**
 * Whether there is a file or a directory.
 *
 * @module
 */

/**
 * Reports whether a path leads to something.
 *
 * @throws {Error} If that cannot be found out
 */
export function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
