/**
 * Stands in for `jsr:@std/fs/ensure-dir` where jsr.io is out of reach.
 *
 * Source: https://jsr.io/@std/fs.
 *
 * @module
 */

/**
 * Creates a directory and its parents if missing.
 *
 * @throws {Error} If the path exists and is not a directory
 */
export async function ensureDir(dir: string | URL): Promise<void> {
  try {
    await Deno.mkdir(dir, { recursive: true });
  } catch (error) {
    // mkdir fails with EEXIST for a file, and also for a link to a directory.
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    requireDirectory(await Deno.stat(dir));
  }
}

/**
 * Creates a directory and its parents if missing.
 *
 * @throws {Error} If the path exists and is not a directory
 */
export function ensureDirSync(dir: string | URL): void {
  try {
    Deno.mkdirSync(dir, { recursive: true });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    requireDirectory(Deno.statSync(dir));
  }
}

function requireDirectory(info: Deno.FileInfo): void {
  if (info.isDirectory) return;
  const found = info.isFile ? "file" : "unknown";
  throw new Error(
    `Failed to ensure directory exists: expected 'dir', got '${found}'`,
  );
}
