/**
 * The software of others that an executable contains.
 *
 * @module
 */

import { ROOT, runDeno } from "../project.ts";
import { importFlags } from "../import_flags.ts";
import { listCrates } from "./crates.ts";

/** A piece of software: its name, version and license. */
export interface Component {
  readonly name: string;
  readonly version: string;
  /** SPDX identifier, such as `MIT`. */
  readonly license: string;
  /** Identifies the package, as `pkg:npm/zod@4.6.7`. */
  readonly purl: string;
  /** The license's text. */
  readonly licenseText: string;
  /** Digest of the package as the registry gives it: `sha512-`, and base64. */
  readonly integrity?: string;
  /** Its parts. */
  readonly parts?: readonly Part[];
}

/** A part of a component: a file of the release, or a library. */
export interface Part {
  readonly type: "file" | "library";
  readonly name: string;
  readonly version?: string;
  readonly purl?: string;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** The module with which every executable begins. */
const ENTRY = "main.ts";

/** The part of `deno info --json` that is needed here. */
interface ModuleGraph {
  readonly modules: readonly {
    readonly specifier: string;
    readonly npmPackage?: string;
    readonly dependencies?: readonly {
      readonly code?: { readonly specifier: string };
    }[];
  }[];
  readonly redirects: Readonly<Record<string, string>>;
  readonly npmPackages: Readonly<Record<string, NpmPackage>>;
}

interface NpmPackage {
  readonly name: string;
  readonly version: string;
  readonly dependencies: readonly string[];
  readonly localPath: string;
}

/**
 * Lists what the executable contains: the runtime, and the packages that its
 * modules import.
 *
 * @param denoVersion That of the runtime in it; another one's V8 is not known
 */
export async function listComponents(
  denoVersion: string = Deno.version.deno,
): Promise<Component[]> {
  const { stdout } = await runDeno(
    ["info", "--json", ...await importFlags(), ENTRY],
  );
  const graph: ModuleGraph = JSON.parse(stdout);
  const lock = JSON.parse(await Deno.readTextFile(`${ROOT}deno.lock`));
  const packages = listImported(graph).map((id) => {
    const found = graph.npmPackages[id];
    if (found === undefined) throw new Error(`Cannot find package "${id}"`);
    return describeNpm(found, lock.npm[id]?.integrity);
  });
  return [
    ...describeRuntime(denoVersion, await listCrates(denoVersion)),
    ...listJsr(graph.modules.map(({ specifier }) => specifier)),
    ...await Promise.all(packages),
  ];
}

/** Lists the packages of Deno's standard library among the URLs of modules. */
export function listJsr(specifiers: readonly string[]): Component[] {
  const found = new Map(specifiers.flatMap((specifier) => {
    const [, name, version] =
      /^https:\/\/jsr\.io\/(@std\/[^/]+)\/([^/]+)\//.exec(specifier) ?? [];
    if (name === undefined || version === undefined) return [];
    const purl = `pkg:jsr/${name.replace("@", "%40")}@${version}`;
    return [
      [purl, {
        name,
        version,
        license: "MIT",
        purl,
        licenseText: `${DENO_AUTHORS}\n\n${MIT}`,
      }] as const,
    ];
  }));
  return [...found.values()].toSorted((a, b) => a.name < b.name ? -1 : 1);
}

/** Lists the npm packages of imports of values, with what those depend on. */
function listImported(
  { modules, redirects, npmPackages }: ModuleGraph,
): string[] {
  const imported = new Set(
    modules.flatMap(({ dependencies = [] }) =>
      dependencies.flatMap(({ code }) =>
        code === undefined ? [] : [redirects[code.specifier] ?? code.specifier]
      )
    ),
  );
  const found = new Set<string>();
  const add = (id: string): void => {
    if (found.has(id)) return;
    found.add(id);
    npmPackages[id]?.dependencies.forEach(add);
  };
  for (const { specifier, npmPackage } of modules) {
    if (npmPackage !== undefined && imported.has(specifier)) add(npmPackage);
  }
  return [...found].toSorted();
}

async function describeNpm(
  { name, version, localPath }: NpmPackage,
  integrity?: string,
): Promise<Component> {
  const manifest = JSON.parse(
    await Deno.readTextFile(`${localPath}/package.json`),
  );
  return {
    name,
    version,
    license: manifest.license,
    purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
    licenseText: await readLicense(localPath) ?? findLicense(name),
    ...integrity === undefined ? {} : { integrity },
  };
}

async function readLicense(directory: string): Promise<string | undefined> {
  const entries = await Array.fromAsync(Deno.readDir(directory));
  const file = entries.find(({ name, isFile }) =>
    isFile && /^licen[cs]e/i.test(name)
  );
  if (file === undefined) return undefined;
  return await Deno.readTextFile(`${directory}/${file.name}`);
}

/** Returns the license of a package that has no file with it. */
function findLicense(name: string): string {
  const text = LICENSES[name];
  if (text !== undefined) return text;
  throw new Error(`Cannot find the license of "${name}": add it to LICENSES`);
}

/** Deno and V8, which `deno compile` puts into every executable. */
function describeRuntime(deno: string, crates: readonly Part[]): Component[] {
  const v8Version = Deno.version.v8.replace(/-.*/, "");
  const components = [{
    name: "deno",
    version: deno,
    license: "MIT",
    purl: `pkg:github/denoland/deno@v${deno}`,
    licenseText: `${DENO_AUTHORS}\n\n${MIT}
Deno contains Rust crates, listed with their versions in
https://github.com/denoland/deno/blob/v${deno}/Cargo.lock, and ICU (Unicode-3.0).`,
    ...crates.length === 0 ? {} : { parts: crates },
  }, {
    name: "v8",
    version: v8Version,
    license: "BSD-3-Clause",
    purl: `pkg:github/v8/v8@${v8Version}`,
    licenseText:
      `Copyright 2006-2026, the V8 project authors. All rights reserved.\n\n${BSD_3}`,
  }];
  return deno === Deno.version.deno ? components : components.slice(0, 1);
}

const DENO_AUTHORS = "Copyright 2018-2026 the Deno authors";

const [MIT = "", BSD_3 = ""] = ["MIT", "BSD-3-Clause"].map((name) =>
  Deno.readTextFileSync(new URL(`licenses/${name}.txt`, import.meta.url))
);

/** The licenses of packages that have no file with them. */
const LICENSES: Readonly<Record<string, string>> = {
  "@bufbuild/protobuf":
    `Copyright 2021-2026 Buf Technologies, Inc. Apache-2.0, the text is in LICENSE.
The encoding of integers: Copyright 2008 Google Inc. All rights reserved.

${BSD_3}`,
};
