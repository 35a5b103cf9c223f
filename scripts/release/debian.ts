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

import { hexOfFile } from "../compile/runtime.ts";
import { run } from "./archive.ts";
import type { Release } from "./sbom.ts";

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
  await Deno.writeTextFile(
    `${staging}/DEBIAN/control`,
    formatControl(name, version, architecture, await measure(`${staging}/usr`)),
  );
  for (const [script, text] of Object.entries(SCRIPTS)) {
    await Deno.writeTextFile(`${staging}/DEBIAN/${script}`, text, {
      mode: 0o755,
    });
  }
  await run("chmod", ["-R", "u=rwX,go=rX", staging]);
  const path = `${out}/${name}_${version}_${architecture}.deb`;
  await run("dpkg-deb", ["--root-owner-group", "--build", staging, path], {
    env: { SOURCE_DATE_EPOCH: String(epoch) },
  });
  return path;
}

/**
 * What dpkg runs. The package changes nothing on a node where `cni install` was
 * not run. If a command fails, the node stays as it is, and so does dpkg's work.
 */
const SCRIPTS = {
  // Updates what was installed from an earlier version, the node daemon too.
  postinst: `#!/bin/sh
set -e
installed=/opt/cni/bin/.cni-install/installed.json
if [ "$1" = configure ] && [ -e $installed ]; then
  names=$(sed -n 's/^  "\\(.*\\)": .*/\\1/p' $installed | tr '\\n' ,)
  /usr/bin/cni install /opt/cni/bin --only "$names" ||
    echo "Run cni install /opt/cni/bin again." >&2
fi
`,
  // Stops the node daemon, and restores the plugins from before.
  prerm: `#!/bin/sh
set -e
if [ "$1" = remove ] && cmp -s /usr/lib/cni-plugins/cni /opt/cni/bin/cni; then
  /usr/bin/cni uninstall /opt/cni/bin ||
    echo "The plugins stay in /opt/cni/bin, and the node daemon runs." >&2
fi
`,
};

/** Measures what a directory needs when it is installed, in KiB, as Debian counts it. */
async function measure(directory: string): Promise<number> {
  let kibibytes = 1;
  for await (const { name, isDirectory, isFile } of Deno.readDir(directory)) {
    const path = `${directory}/${name}`;
    if (isDirectory) kibibytes += await measure(path);
    else {kibibytes += isFile
        ? Math.ceil((await Deno.stat(path)).size / 1024)
        : 1;}
  }
  return kibibytes;
}

function formatControl(
  name: string,
  version: string,
  architecture: string,
  installedSize: number,
): string {
  return `Package: ${name}
Version: ${version}
Architecture: ${architecture}
Maintainer: cni-plugins maintainers
Installed-Size: ${installedSize}
Section: admin
Priority: optional
Depends: libc6 (>= 2.27), libgcc-s1 | libgcc1
Description: network plugins for containers (CNI)
 One executable that acts as ptp, bridge, host-local and the other plugins of
 the reference set, and cni, a tool to attach, check and detach containers.
 .
 The package changes no plugins of the machine. To use these, run
 "cni install /opt/cni/bin", and "cni uninstall /opt/cni/bin" to go back.
 After that, a newer package also updates what is installed and the node
 daemon, and removing the package goes back.
`;
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
  const control = await run("dpkg-deb", ["--field", path]);
  const { size } = await Deno.stat(path);
  return `Filename: ./${deb}
Size: ${size}
SHA256: ${await hexOfFile(path)}
${control.trimEnd()}
`;
}
