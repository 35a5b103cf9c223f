/**
 * The folder that becomes an archive and a package.
 *
 * @module
 */

import { ROOT } from "../compile/project.ts";
import { writeSchemas } from "../schemas/write.ts";
import type { Component } from "./components.ts";
import { run } from "./run.ts";
import { formatNotices, formatSbom, type Release } from "./sbom.ts";

/** Folders with the units of systemd. */
const UNIT_FOLDERS = ["daemon", "dhcp", "systemd"] as const;

/**
 * Adds documents, systemd units and schemas to a folder that has `bin`.
 *
 * @param folder Gets `LICENSE`, `THIRD-PARTY-NOTICES`, `sbom.cdx.json`, `systemd` and `schemas`
 */
export async function addDocuments(
  folder: string,
  release: Release,
  components: readonly Component[],
): Promise<void> {
  await Deno.mkdir(`${folder}/systemd`, { recursive: true });
  for (const unitFolder of UNIT_FOLDERS) {
    const from = `${ROOT}deploy/${unitFolder}/.`;
    await run("cp", ["-R", from, `${folder}/systemd`]);
  }
  for (const name of ["LICENSE", "CHANGELOG.md"]) {
    await Deno.copyFile(ROOT + name, `${folder}/${name}`);
  }
  await writeSchemas(`${folder}/schemas`);
  const texts = {
    "THIRD-PARTY-NOTICES": formatNotices(components),
    "sbom.cdx.json": formatSbom(release, components),
  };
  for (const [name, text] of Object.entries(texts)) {
    await Deno.writeTextFile(`${folder}/${name}`, text);
  }
}
