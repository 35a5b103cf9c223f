/**
 * The Helm chart as an archive, without the links to other directories of deploy/.
 *
 * @module
 */

import { ROOT } from "../compile/project.ts";
import { writeArchive } from "./archive.ts";
import { run } from "./run.ts";
import type { Release } from "./sbom.ts";

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
