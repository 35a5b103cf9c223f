/**
 * Archives with the same bytes wherever they are made: entries are sorted, and
 * belong to root, with the same time and modes.
 *
 * @module
 */

import { hexOfFile } from "../compile/digest.ts";
import { run } from "./run.ts";

/** How an archive is compressed, by the end of its name. */
const COMPRESSORS = {
  ".tar.gz": "gzip -9 -n",
  // One thread: with another number of them, the bytes differ.
  ".tar.zst": "zstd -19 --single-thread -q",
} as const;

/** The ends of names that an archive can have. */
export const ARCHIVE_KINDS = Object.keys(COMPRESSORS) as ArchiveKind[];

/** The end of an archive's name. */
export type ArchiveKind = keyof typeof COMPRESSORS;

/**
 * Writes a directory into an archive, `<path><kind>`. Keeps symbolic and hard links.
 *
 * @param epoch Seconds since 1970: the time of all entries
 * @returns The archive's path
 */
export async function writeArchive(
  directory: string,
  path: string,
  kind: ArchiveKind,
  epoch: number,
): Promise<string> {
  const [, parent, name] = /^(.*)\/([^/]+)$/.exec(directory) ?? [];
  if (parent === undefined || name === undefined) {
    throw new Error(
      `Cannot archive "${directory}": it has no parent directory`,
    );
  }
  await run("tar", [
    "--create",
    "--format=gnu",
    "--sort=name",
    `--mtime=@${epoch}`,
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--mode=u=rwX,go=rX",
    `--use-compress-program=${COMPRESSORS[kind]}`,
    `--file=${path}${kind}`,
    `--directory=${parent}`,
    name,
  ], { env: { LC_ALL: "C" } });
  return `${path}${kind}`;
}

/** Formats a line of `SHA256SUMS`, as `sha256sum --check` reads it. */
export async function formatChecksum(path: string): Promise<string> {
  const digest = await hexOfFile(path);
  return `${digest}  ${path.slice(path.lastIndexOf("/") + 1)}\n`;
}
