/**
 * The index of a Debian repository: the directory of a release is one.
 *
 * Source: https://wiki.debian.org/DebianRepository/Format (flat repository format)
 *
 * @module
 */

import { hexOfFile } from "../compile/digest.ts";
import { run } from "./run.ts";
import type { Release } from "./sbom.ts";

/**
 * Writes `Packages` and `Release` for packages of a directory.
 *
 * @param debs Names of the packages
 * @returns Paths of both files
 */
export async function writeRepository(
  { name, version, epoch }: Release,
  debs: readonly string[],
  out: string,
): Promise<string[]> {
  const entries = await Promise.all(
    debs.map((deb) => describePackage(deb, out)),
  );
  const packages = `${out}/Packages`;
  await Deno.writeTextFile(packages, entries.join("\n"));
  const architectures = debs.map((deb) => /_([^_]+)\.deb$/.exec(deb)?.[1]);
  const { size } = await Deno.stat(packages);
  const release = `${out}/Release`;
  await Deno.writeTextFile(
    release,
    `Origin: ${name}
Label: ${name}
Version: ${version}
Date: ${new Date(epoch * 1000).toUTCString().replace("GMT", "UTC")}
Architectures: ${architectures.join(" ")}
Description: Network plugins for containers (CNI)
SHA256:
 ${await hexOfFile(packages)} ${size} Packages
`,
  );
  return [packages, release];
}

/** Formats the entry of a package in `Packages`. */
async function describePackage(deb: string, out: string): Promise<string> {
  const path = `${out}/${deb}`;
  const control = await run("dpkg-deb", ["--field", path]);
  const { size } = await Deno.stat(path);
  return `Filename: ./${deb}
Size: ${size}
SHA256: ${await hexOfFile(path)}
${control.trimEnd()}
`;
}
