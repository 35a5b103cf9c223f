/**
 * The libraries of the release for any libc: those of the machine that makes the
 * release, from its Debian packages.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { LIBRARY_DIRECTORY } from "../../base/files/libraries.ts";
import { LINKERS } from "../stubs/linker_stub.ts";
import { run } from "../project.ts";
import { hexOfFile } from "../compile/runtime.ts";
import { getOwnTarget, namesOf, type Target } from "../compile/target.ts";
import type { Component, Part } from "./components.ts";

/** A Debian package, and the files of it that an executable needs. */
interface LibraryPackage {
  readonly name: string;
  /** The package for a machine other than that on which it is installed. */
  readonly crossName: string;
  /** SPDX identifier, and the name that Debian has for its text. */
  readonly license: string;
  readonly text: string;
  readonly files: readonly string[];
}

/** What deno imports. Since glibc 2.34 its resolver's modules are in libc.so.6. */
function listPackages(target: Target): LibraryPackage[] {
  const { arch, debian } = namesOf(target);
  return [
    {
      name: "libc6",
      crossName: `libc6-${debian}-cross`,
      license: "LGPL-2.1-or-later",
      text: "LGPL-2.1",
      files: [
        basename(LINKERS[arch]),
        "libc.so.6",
        "libdl.so.2",
        "libm.so.6",
        "libpthread.so.0",
        "librt.so.1",
      ],
    },
    {
      name: "libgcc-s1",
      crossName: `libgcc-s1-${debian}-cross`,
      license: "GPL-3.0-or-later WITH GCC-exception-3.1",
      text: "GPL-3",
      files: ["libgcc_s.so.1"],
    },
  ];
}

/**
 * Copies the libraries for a machine into `.cni-lib` of a directory, with the text of
 * their licenses.
 *
 * @returns The packages that they are from
 * @throws {Error} If a package is not installed
 */
export async function addLibraries(
  target: Target,
  directory: string,
): Promise<Component[]> {
  const { arch, debian } = namesOf(target);
  const isOwn = target === getOwnTarget();
  const from = isOwn ? `/lib/${arch}-linux-gnu` : `/usr/${arch}-linux-gnu/lib`;
  const to = `${directory}/${LIBRARY_DIRECTORY}`;
  await Deno.mkdir(to, { recursive: true });
  const components: Component[] = [];
  for (const one of listPackages(target)) {
    const name = isOwn ? one.name : one.crossName;
    const parts: Part[] = [];
    for (const file of one.files) {
      await copy(`${from}/${file}`, `${to}/${file}`, name);
      parts.push({
        type: "file",
        name: `${LIBRARY_DIRECTORY}/${file}`,
        sha256: await hexOfFile(`${to}/${file}`),
      });
    }
    const query = isOwn ? `${name}:${debian}` : name;
    const component = await describe({ ...one, name, query }, parts);
    await Deno.writeTextFile(`${to}/${one.name}.txt`, component.licenseText);
    components.push(component);
  }
  return components;
}

async function copy(from: string, to: string, name: string): Promise<void> {
  try {
    await Deno.copyFile(from, to);
    await Deno.chmod(to, 0o755);
  } catch (cause) {
    throw new Error(
      `Cannot copy "${from}": is the package ${name} installed?`,
      { cause },
    );
  }
}

/** Where distributions keep the source of each version of a package. */
const SOURCES: Readonly<Record<string, string>> = {
  debian: "https://snapshot.debian.org/package/",
  ubuntu: "https://launchpad.net/ubuntu/+source/",
};

/** Returns the distribution that the libraries are from. */
async function findDistribution(): Promise<string> {
  const release = await Deno.readTextFile("/etc/os-release");
  const [, id = ""] = /^ID=(.*)$/m.exec(release) ?? [];
  if (Object.hasOwn(SOURCES, id)) return id;
  throw new Error(
    `Cannot release libraries of "${id}": expected ${
      Object.keys(SOURCES).join(" or ")
    }, which keep the source of each version`,
  );
}

/** Describes an installed package. */
async function describe(
  { name, query, license, text }: {
    readonly name: string;
    /** As dpkg-query takes it. */
    readonly query: string;
    readonly license: string;
    readonly text: string;
  },
  parts: readonly Part[],
): Promise<Component> {
  const distribution = await findDistribution();
  const fields = ["Version", "source:Package", "source:Version"];
  const format = `${fields.map((field) => `\${${field}}`).join("\\n")}\\n`;
  const { stdout } = await run("dpkg-query", ["--show", `-f=${format}`, query]);
  const [version = "", source = "", sourceVersion = ""] = stdout.split("\n");
  const texts = await Promise.all([
    `/usr/share/doc/${name}/copyright`,
    `/usr/share/common-licenses/${text}`,
  ].map((path) => Deno.readTextFile(path)));
  return {
    name,
    version,
    license,
    purl: `pkg:deb/${distribution}/${name}@${encodeURIComponent(version)}`,
    licenseText:
      `From the package ${name} ${version} of ${distribution}, unchanged. Its source is
${SOURCES[distribution]}${source}/${sourceVersion}
You may replace the files with other versions of the library.

${texts.join("\n")}`,
    parts,
  };
}
