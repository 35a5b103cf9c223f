/**
 * The bill of materials beside an executable.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import project from "../../deno.json" with { type: "json" };
import { listComponents } from "../release/components.ts";
import { formatSbom, NAME } from "../release/sbom.ts";
import type { Executable } from "./executables.ts";

/**
 * Writes `sbom.cdx.json` beside the project's executable, and returns its path. It has
 * no time: the same sources give the same bytes.
 */
export async function writeSbom(
  { path, denoVersion }: Executable,
): Promise<string> {
  const about = { name: NAME, version: project.version };
  const sbom = `${dirname(path)}/sbom.cdx.json`;
  const components = await listComponents(denoVersion);
  await Deno.writeTextFile(sbom, formatSbom(about, components));
  return sbom;
}
