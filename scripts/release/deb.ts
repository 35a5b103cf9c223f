/**
 * A package for Debian and Ubuntu, made by Debian's `dpkg-deb`.
 *
 * It replaces no plugin of the machine: `cni install` does that, from the
 * package's folder.
 *
 * @module
 */

import { run } from "./run.ts";
import type { Release } from "./sbom.ts";

/** The folder of the plugins in the package. */
const PLUGINS = "usr/lib/cni-plugins";

/** What a package is made of. */
export interface DebOptions {
  readonly release: Release;
  /** As Debian calls it: `amd64` or `arm64`. */
  readonly architecture: string;
  /** The folder that is archived: `bin`, `systemd` and documents. */
  readonly content: string;
  /** An empty folder for the files of the package. */
  readonly staging: string;
  /** The folder for the package. */
  readonly out: string;
}

/** Writes a package, and returns its path. */
export async function writeDeb(
  { release, architecture, content, staging, out }: DebOptions,
): Promise<string> {
  const { name, version, epoch } = release;
  const docs = `${staging}/usr/share/doc/${name}`;
  for (
    const folder of [
      `${staging}/DEBIAN`,
      `${staging}/${PLUGINS}`,
      `${staging}/usr/bin`,
      `${staging}/usr/lib/systemd/system`,
      docs,
    ]
  ) await Deno.mkdir(folder, { recursive: true });
  await run("cp", ["-a", `${content}/bin/.`, `${staging}/${PLUGINS}`]);
  await Deno.symlink("../lib/cni-plugins/cni", `${staging}/usr/bin/cni`);
  for await (const { name, isFile } of Deno.readDir(`${content}/systemd`)) {
    if (!isFile) continue;
    const unit = await Deno.readTextFile(`${content}/systemd/${name}`);
    await Deno.writeTextFile(`${staging}/usr/lib/systemd/system/${name}`, unit);
  }
  await Deno.copyFile(`${content}/LICENSE`, `${docs}/copyright`);
  for (const document of ["THIRD-PARTY-NOTICES", "sbom.cdx.json"]) {
    await Deno.copyFile(`${content}/${document}`, `${docs}/${document}`);
  }
  await Deno.writeTextFile(
    `${staging}/DEBIAN/control`,
    formatControl(name, version, architecture),
  );
  await run("chmod", ["-R", "u=rwX,go=rX", staging]);
  const path = `${out}/${name}_${version}_${architecture}.deb`;
  await run("dpkg-deb", ["--root-owner-group", "--build", staging, path], {
    env: { SOURCE_DATE_EPOCH: String(epoch) },
  });
  return path;
}

function formatControl(
  name: string,
  version: string,
  architecture: string,
): string {
  return `Package: ${name}
Version: ${version}
Architecture: ${architecture}
Maintainer: cni-plugins maintainers
Section: admin
Priority: optional
Depends: libc6 (>= 2.27)
Description: network plugins for containers (CNI)
 One executable that acts as ptp, bridge, host-local and the other plugins of
 the reference set, and cni, a tool to attach, check and detach containers.
 .
 The package changes no plugins of the machine. To use these, run
 "cni install /opt/cni/bin", and "cni uninstall /opt/cni/bin" to go back.
`;
}
