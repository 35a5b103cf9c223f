/**
 * Marks a state of a folder, so that any change to it by anybody shows.
 *
 * With every file that comes, goes or is renamed, the kernel sets the folder's
 * modification time and change time to the same moment. So a modification time
 * that lies before the change time was set by a program: by us, to a moment
 * drawn at random, or by one that restores a backup. The latter cannot set the
 * change time as well. Comparing clocks would not do: they are too coarse, and
 * jump.
 *
 * @module
 */

/** How far the modification time is set back, in milliseconds. */
const MIN_SETBACK_MS = 2_000, MAX_SETBACK_MS = 3_600_000;

/**
 * Reads the mark of a folder.
 *
 * @returns Undefined if it has none: it was changed since
 * @throws {Error} If the folder cannot be read
 */
export function findSignature(path: string): string | undefined {
  if (!isSetBack(Deno.statSync(path))) return undefined;
  // Opened, for then a network file system asks its server.
  using folder = Deno.openSync(path);
  return formatSignature(folder.statSync());
}

/**
 * Marks a folder as it is now.
 *
 * @returns The mark, which {@linkcode findSignature} finds until something changes
 * @throws {Error} If it is not ours to mark
 */
export function signFolder(path: string): string {
  using folder = Deno.openSync(path);
  const now = Date.now();
  const range = MAX_SETBACK_MS - MIN_SETBACK_MS;
  const setback = MIN_SETBACK_MS + Math.floor(Math.random() * range);
  folder.utimeSync(new Date(now), new Date(now - setback));
  return formatSignature(folder.statSync());
}

/** Deno has the change time in whole seconds, rounded down. */
function isSetBack({ mtime, ctime }: Deno.FileInfo): boolean {
  return mtime !== null && ctime !== null && mtime < ctime;
}

/** Device, inode and birth tell apart folders that had one path in turn. */
function formatSignature(info: Deno.FileInfo): string {
  const { dev, ino, birthtime, mtime, ctime } = info;
  const times = [birthtime, mtime, ctime].map((time) => time?.getTime());
  return [dev, ino, ...times].join(" ");
}
