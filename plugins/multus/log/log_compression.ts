/**
 * Compressing log files that were set aside.
 *
 * @module
 */

import { tryLock } from "./log_file.ts";

/**
 * Replaces files by gzipped ones. A file that another process compresses is
 * left to that; one that is there beside its `.gz` was not finished by whoever
 * began, and is done again.
 *
 * @throws {Deno.errors.PermissionDenied} If one cannot be written, and whatever
 *   else the file system has against it
 */
export async function compressFiles(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    using lock = tryLock(path);
    if (lock === undefined) continue;
    using source = await Deno.open(path);
    const { mode } = await source.stat();
    const target = await Deno.open(`${path}.gz`, {
      write: true,
      create: true,
      truncate: true,
      mode: (mode ?? 0o600) & 0o777,
    });
    await source.readable.pipeThrough(new CompressionStream("gzip"))
      .pipeTo(target.writable);
    await Deno.remove(path);
  }
}
