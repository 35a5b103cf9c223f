/**
 * The import map for a program from outside of the project: in it the project
 * is a package by its name, and what the program's own `deno.json` says counts
 * in the program's directory.
 *
 * @module
 */

import { dirname, resolve } from "@std/path/posix";
import { parse, type ParseError } from "jsonc-parser";
import { isOffline, OFFLINE_IMPORT_MAP } from "../import_flags.ts";
import { ROOT } from "../project.ts";

/** Targets of imports, by specifier or prefix. */
type Imports = Readonly<Record<string, string>>;

/** The format of `--import-map`. */
interface ImportMap {
  readonly imports: Imports;
  /** Overrides for a directory, by its URL. */
  readonly scopes: Readonly<Record<string, Imports>>;
}

/** The parts of a `deno.json` or an import map that are read. */
interface Config {
  readonly name?: string;
  readonly exports?: Imports;
  readonly imports?: Imports;
}

/**
 * Builds the import map for a program.
 *
 * @param root Path of the project, or of a copy of it
 * @param entry Absolute path of the program's first module
 * @throws {Error} If a configuration is not JSON
 */
export async function makeImportMap(
  root: string,
  entry: string,
): Promise<ImportMap> {
  const source = await isOffline() ? OFFLINE_IMPORT_MAP : "deno.json";
  const imports = {
    ...await readImports(`${root}/${source}`),
    ...await readOwnPackage(root),
  };
  const theirs = await findConfig(dirname(entry));
  if (theirs === undefined || theirs === `${ROOT}deno.json`) {
    return { imports, scopes: {} };
  }
  const directory = `${toUrl(dirname(theirs))}/`;
  // Wherever their own map leads, the project is this one, and there is one of
  // each package that both use.
  const scope = { ...await readImports(theirs), ...imports };
  return { imports, scopes: { [directory]: scope } };
}

/** Lists the entry points of the project, by the names that others import. */
async function readOwnPackage(root: string): Promise<Imports> {
  const { name = "", exports = {} } = await readConfig(`${root}/deno.json`);
  return Object.fromEntries(
    Object.entries(exports).map(([entryPoint, path]) => [
      name + entryPoint.slice(1),
      toUrl(resolve(root, path)),
    ]),
  );
}

/** Reads the `imports` of a file, independent of where that is. */
async function readImports(path: string): Promise<Imports> {
  const { imports = {} } = await readConfig(path);
  return Object.fromEntries(
    Object.entries(imports).flatMap(([specifier, target]) =>
      expand(specifier, target, dirname(path))
    ),
  );
}

/**
 * Returns an import with what deno itself adds to those in a `deno.json`: a
 * package's name stands for the modules in it, too.
 */
function expand(
  specifier: string,
  target: string,
  directory: string,
): [specifier: string, target: string][] {
  if (/^\.{0,2}\//.test(target)) {
    const slash = target.endsWith("/") ? "/" : "";
    return [[specifier, toUrl(resolve(directory, target)) + slash]];
  }
  const [, registry, name] = /^(npm|jsr):\/?([^/].*[^/])$/.exec(target) ?? [];
  return registry === undefined
    ? [[specifier, target]]
    : [[specifier, target], [`${specifier}/`, `${registry}:/${name}/`]];
}

/** Finds the `deno.json` that counts in a directory. */
async function findConfig(directory: string): Promise<string | undefined> {
  for (const name of ["deno.json", "deno.jsonc"]) {
    try {
      await Deno.stat(`${directory}/${name}`);
      return `${directory}/${name}`;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  const parent = dirname(directory);
  return parent === directory ? undefined : await findConfig(parent);
}

async function readConfig(path: string): Promise<Config> {
  const errors: ParseError[] = [];
  const text = await Deno.readTextFile(path);
  const config = parse(text, errors, { allowTrailingComma: true });
  if (errors.length === 0) return config;
  throw new Error(`Cannot parse "${path}"`);
}

function toUrl(path: string): string {
  const url = new URL("file:///");
  url.pathname = path.replaceAll("%", "%25");
  return url.href;
}
