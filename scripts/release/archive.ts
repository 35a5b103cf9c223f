/**
 * Archives with the same bytes wherever they are made, by tar, gzip and zstd: entries
 * are sorted, and belong to root, with the same time and modes.
 *
 * @module
 */

import { hexOfFile } from "../compile/runtime.ts";
import { ROOT, run } from "../project.ts";
import type { Release } from "./sbom.ts";

/**
 * Waits until all have ended, even if one fails: none goes on in a directory that
 * is then removed.
 *
 * @throws What the first of them threw, by their order
 */
export async function allEnded<T>(
  promises: readonly Promise<T>[],
): Promise<T[]> {
  const outcomes = await Promise.allSettled(promises);
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
}

/** How an archive is compressed, by the end of its name. */
const COMPRESSORS = {
  ".tar.gz": "gzip -9 -n",
  // One thread: with another number of them, the bytes differ.
  ".tar.zst": "zstd -19 --single-thread -q",
  // As Helm names a chart.
  ".tgz": "gzip -9 -n",
} as const;

/** The ends of names of the archives for a machine. */
export const ARCHIVE_KINDS = [".tar.gz", ".tar.zst"] as const;

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
  const compress = `--use-compress-program=${COMPRESSORS[kind]}`;
  await writeTar(parent, [name], path + kind, epoch, compress);
  return path + kind;
}

/** Writes entries of a directory, with what is below them, into a tar file. */
export async function writeTar(
  directory: string,
  names: readonly string[],
  path: string,
  epoch: number,
  ...flags: readonly string[]
): Promise<void> {
  await run("tar", [
    "--create",
    "--format=gnu",
    "--sort=name",
    `--mtime=@${epoch}`,
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--mode=u=rwX,go=rX",
    ...flags,
    `--file=${path}`,
    `--directory=${directory}`,
    ...names,
  ], { env: { LC_ALL: "C" } });
}

/** Formats a line of `SHA256SUMS`, as `sha256sum --check` reads it. */
export async function formatChecksum(path: string): Promise<string> {
  const digest = await hexOfFile(path);
  return `${digest}  ${path.slice(path.lastIndexOf("/") + 1)}\n`;
}

/** What Helm reads of the chart. */
const FILES = [
  "Chart.yaml",
  "README.md",
  "templates",
  "values.schema.json",
  "values.yaml",
];

/**
 * Writes the archive, and returns its path. `helm package` would write the time of
 * the build into it.
 *
 * @param staging An empty directory
 */
export async function writeChart(
  { name, version, epoch }: Release,
  staging: string,
  out: string,
): Promise<string> {
  const from = `${ROOT}deploy/chart`;
  const to = `${staging}/${name}`;
  await Deno.mkdir(`${to}/manifests`, { recursive: true });
  const paths = FILES.map((file) => `${from}/${file}`);
  await run("cp", ["-R", ...paths, to]);
  await Deno.copyFile(`${ROOT}LICENSE`, `${to}/LICENSE`);
  for await (const { name } of Deno.readDir(`${from}/manifests`)) {
    await copyManifests(`${from}/manifests/${name}`, `${to}/manifests/${name}`);
  }
  return await writeArchive(to, `${out}/${name}-${version}`, ".tgz", epoch);
}

/** Copies the objects of a directory of deploy/, and of those below it. */
async function copyManifests(from: string, to: string): Promise<void> {
  await Deno.mkdir(to);
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    const paths = [`${from}/${name}`, `${to}/${name}`] as const;
    if (isDirectory) await copyManifests(...paths);
    else if (name.endsWith(".yaml") && name !== "kustomization.yaml") {
      await Deno.copyFile(...paths);
    }
  }
}
