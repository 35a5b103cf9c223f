/**
 * Two releases to try on nodes: that of the directory CNI_RELEASE, as
 * `deno task release` makes it, and the one before it, of CNI_RELEASE_BEFORE.
 * Without the first, it is made of the executables under test; without the second,
 * the one before is another build of the first.
 *
 * @module
 */

import project from "../../deno.json" with { type: "json" };
import { getOwnTarget } from "../../scripts/compile/target.ts";
import { run } from "../../scripts/project.ts";
import { addDocuments } from "../../scripts/release.ts";
import { writeDeb, writeRepository } from "../../scripts/release/debian.ts";
import { addLibraries } from "../../scripts/release/libraries.ts";
import { NAME, type Release } from "../../scripts/release/sbom.ts";
import type { Needs } from "../../testing/capabilities.ts";
import { BIN } from "./executables.ts";

/** A release, by its age. */
export type Which = "before" | "now";

const DIRECTORIES: Readonly<Record<Which, string>> = {
  before: Deno.env.get("CNI_RELEASE_BEFORE") ?? "",
  now: Deno.env.get("CNI_RELEASE") ?? "",
};

/** The version of what is made here: older than that of any release. */
const OLD = "0.0.1";

const ARCHITECTURE = Deno.build.arch === "x86_64" ? "amd64" : "arm64";

/** Refuses a skip if CNI_RELEASE is there: it would look as if that were tried. */
export function unlessRelease(needs: Needs): Needs {
  if (!needs.ignore || DIRECTORIES.now === "") return needs;
  throw new Error(`Cannot try "${DIRECTORIES.now}"${needs.suffix}`);
}

/** Finds a file of a release. */
function find(which: Which, end: string): string | undefined {
  const directory = DIRECTORIES[which];
  if (directory === "") return undefined;
  for (const { name } of Deno.readDirSync(directory)) {
    if (name.endsWith(end)) return `${directory}/${name}`;
  }
  throw new Error(`"${directory}" has no file *${end}: is it a release?`);
}

/**
 * Unpacks the archive of a release for this machine.
 *
 * @param form What it is for: nodes with glibc, or for any libc
 * @param to A new directory, which gets `bin` and documents
 */
export async function unpackRelease(
  which: Which,
  form: "" | "-any",
  to: string,
): Promise<void> {
  await Deno.mkdir(to);
  const archive = find(which, `-linux-${ARCHITECTURE}${form}.tar.gz`);
  if (archive !== undefined) {
    await run("tar", ["-xf", archive, "-C", to, "--strip-components=1"]);
  } else if (which === "before") {
    await Deno.remove(to);
    await unpackRelease("now", form, to);
    await makeOtherBuild(`${to}/bin/cni`);
  } else {
    await run("cp", ["-a", BIN, `${to}/bin`]);
    if (form === "-any") await addLibraries(getOwnTarget(), `${to}/bin`);
  }
}

/**
 * Puts the package of a release, and the index for apt.
 *
 * @param content What {@linkcode unpackRelease} has unpacked for nodes with glibc
 * @param out A directory without packages
 * @returns The package's version
 */
export async function putPackage(
  which: Which,
  content: string,
  out: string,
): Promise<string> {
  const made = find(which, `_${ARCHITECTURE}.deb`);
  if (made !== undefined) {
    const indexes = ["Packages", "Release"]
      .map((name) => `${DIRECTORIES[which]}/${name}`);
    await run("cp", [made, ...indexes, out]);
    const [, version = ""] = /_([^_]+)_[^_]+$/.exec(made) ?? [];
    return version;
  }
  const version = which === "now" ? project.version : OLD;
  const release: Release = { name: NAME, version, epoch: 1_700_000_000 };
  const staging = `${out}/staging`;
  const architecture = ARCHITECTURE;
  await addDocuments(content, release, []);
  // Compression takes a minute, and changes nothing here.
  Deno.env.set("DPKG_DEB_COMPRESSOR_TYPE", "none");
  await writeDeb({ release, architecture, content, staging, out });
  await Deno.remove(staging, { recursive: true });
  const deb = `${NAME}_${version}_${architecture}.deb`;
  await writeRepository(release, [deb], out);
  return version;
}

/** Changes the build's identity, so that a daemon of the other build is another one. */
async function makeOtherBuild(path: string): Promise<void> {
  const script = `digest=$(grep -aoE '"[0-9a-f]{64}"' "$0" | head -n 1 |
    tr -d '"')
sed -i "s/$digest/$(echo $digest | rev)/g" "$0"`;
  await run("sh", ["-c", script, path]);
}
