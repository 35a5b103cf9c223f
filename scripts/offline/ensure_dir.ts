/**
 * Stands in for `jsr:@std/fs@^1/ensure-dir` where jsr.io is out of reach.
 *
 * Source: https://jsr.io/@std/fs.
 *
 * @module
 */

/**
 * Creates a directory and its parents, unless it is there already.
 *
 * @throws {Error} If something else than a directory has that name
 */
export async function ensureDir(dir: string | URL): Promise<void> {
  try {
    await Deno.mkdir(dir, { recursive: true });
  } catch (error) {
    // mkdir says EEXIST of a file, and of a link that leads to a directory too.
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    requireDirectory(await Deno.stat(dir));
  }
}

/**
 * Creates a directory and its parents, unless it is there already.
 *
 * @throws {Error} If something else than a directory has that name
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
