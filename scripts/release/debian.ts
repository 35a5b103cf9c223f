/**
 * A package for Debian and Ubuntu, made by Debian's `dpkg-deb`, and the index of a
 * repository: the directory of a release is one. `apt-ftparchive` would write the time
 * of the build into the index.
 *
 * The package replaces no plugin of the machine: `cni install` does that, from the
 * package's directory. A newer package then updates what is installed.
 *
 * Source: https://wiki.debian.org/DebianRepository/Format (flat repository format)
 *
 * @module
 */

import { ROOT, run } from "../project.ts";
import { hexOfFile } from "../compile/runtime.ts";
import type { Release } from "./sbom.ts";

/** The control file, and the scripts that dpkg runs. */
const TEMPLATES = `${ROOT}scripts/release/debian`;

/** The directory of the plugins in the package. */
const PLUGINS = "usr/lib/cni-plugins";

/** The parts of a package. */
interface DebOptions {
  readonly release: Release;
  /** As Debian calls it: `amd64` or `arm64`. */
  readonly architecture: string;
  /** The directory that is archived: `bin`, `systemd` and documents. */
  readonly content: string;
  /** An empty directory for the files of the package. */
  readonly staging: string;
  /** The directory for the package. */
  readonly out: string;
}

/** Writes a package, and returns its path. */
export async function writeDeb(
  { release, architecture, content, staging, out }: DebOptions,
): Promise<string> {
  const { name, version, epoch } = release;
  const docs = `${staging}/usr/share/doc/${name}`;
  for (
    const directory of [
      `${staging}/DEBIAN`,
      `${staging}/${PLUGINS}`,
      `${staging}/usr/bin`,
      `${staging}/usr/lib/systemd/system`,
      docs,
    ]
  ) await Deno.mkdir(directory, { recursive: true });
  await run("cp", ["-a", `${content}/bin/.`, `${staging}/${PLUGINS}`]);
  await Deno.symlink("../lib/cni-plugins/cni", `${staging}/usr/bin/cni`);
  for await (const { name, isFile } of Deno.readDir(`${content}/systemd`)) {
    // `cni install` writes it, with the path of what it installs.
    if (!isFile || name === "cni-daemon.service") continue;
    const unit = await Deno.readTextFile(`${content}/systemd/${name}`);
    await Deno.writeTextFile(`${staging}/usr/lib/systemd/system/${name}`, unit);
  }
  await Deno.copyFile(`${content}/LICENSE`, `${docs}/copyright`);
  for (const document of ["THIRD-PARTY-NOTICES", "sbom.cdx.json"]) {
    await Deno.copyFile(`${content}/${document}`, `${docs}/${document}`);
  }
  const values = {
    NAME: name,
    VERSION: version,
    ARCHITECTURE: architecture,
    SIZE: await measure(`${staging}/usr`),
  };
  for (const name of ["control", "postinst", "prerm"]) {
    // What they run changes nothing on a node where `cni install` was not run.
    const text = await Deno.readTextFile(`${TEMPLATES}/${name}`);
    const mode = name === "control" ? 0o644 : 0o755;
    const filled = Object.entries(values).reduce(
      (text, [key, value]) => text.replaceAll(`@${key}@`, String(value)),
      text,
    );
    await Deno.writeTextFile(`${staging}/DEBIAN/${name}`, filled, { mode });
  }
  await run("chmod", ["-R", "u=rwX,go=rX", staging]);
  const path = `${out}/${name}_${version}_${architecture}.deb`;
  await run("dpkg-deb", ["--root-owner-group", "--build", staging, path], {
    env: { SOURCE_DATE_EPOCH: String(epoch) },
  });
  return path;
}

/** Measures what a directory needs when it is installed, in KiB, as Debian counts it. */
async function measure(directory: string): Promise<number> {
  let kibibytes = 1;
  for await (const { name, isDirectory, isFile } of Deno.readDir(directory)) {
    const path = `${directory}/${name}`;
    if (isDirectory) kibibytes += await measure(path);
    else if (!isFile) kibibytes++;
    else kibibytes += Math.ceil((await Deno.stat(path)).size / 1024);
  }
  return kibibytes;
}

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
  const { stdout } = await run("dpkg-deb", ["--field", path]);
  const { size } = await Deno.stat(path);
  return `Filename: ./${deb}
Size: ${size}
SHA256: ${await hexOfFile(path)}
${stdout.trimEnd()}
`;
}
