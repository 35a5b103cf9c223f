/**
 * The directory that becomes an archive and a package.
 *
 * @module
 */

import { ROOT } from "../compile/project.ts";
import { writeSchemas } from "../schemas/write.ts";
import { run } from "./archive.ts";
import type { Component } from "./components.ts";
import { formatNotices, formatSbom, type Release } from "./sbom.ts";

/** Directories with the units of systemd. */
const UNIT_DIRECTORIES = ["daemon", "dhcp", "systemd"] as const;

/**
 * Adds documents, systemd units and schemas to a directory that has `bin`.
 *
 * @param directory Gets `LICENSE`, `THIRD-PARTY-NOTICES`, `sbom.cdx.json`, `systemd` and `schemas`
 */
export async function addDocuments(
  directory: string,
  release: Release,
  components: readonly Component[],
): Promise<void> {
  await Deno.mkdir(`${directory}/systemd`, { recursive: true });
  for (const unitDirectory of UNIT_DIRECTORIES) {
    const from = `${ROOT}deploy/${unitDirectory}`;
    const names = (await Array.fromAsync(Deno.readDir(from)))
      .map(({ name }) => name)
      // Of Kubernetes.
      .filter((name) => !name.endsWith(".yaml"));
    const paths = names.map((name) => `${from}/${name}`);
    await run("cp", ["-R", ...paths, `${directory}/systemd`]);
  }
  for (const name of ["LICENSE", "CHANGELOG.md"]) {
    await Deno.copyFile(ROOT + name, `${directory}/${name}`);
  }
  await writeSchemas(`${directory}/schemas`);
  const texts = {
    "THIRD-PARTY-NOTICES": formatNotices(components),
    "sbom.cdx.json": formatSbom(release, components),
  };
  for (const [name, text] of Object.entries(texts)) {
    await Deno.writeTextFile(`${directory}/${name}`, text);
  }
}
