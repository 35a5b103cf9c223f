// deno-lint-ignore-file no-console -- its output is what it is for

/**
 * Makes standalone executables of the plugins: `deno task compile`.
 *
 *     deno task compile [--target TARGET] [--out DIRECTORY] [--each]
 *     deno task compile --plugin MODULE [--name NAME] [--target ...] [--out ...]
 *
 * By default there is one executable, `cni`, which acts as the plugin by whose
 * name it is called, and a hard link to it for each plugin: on disk and in the
 * page cache they are one file. `cp -a` and `tar` keep the links; plain `cp` and
 * `install` make files that work by themselves. With `--each` every plugin
 * becomes an executable of its own. `--plugin` makes one of somebody else's
 * plugin, which need not be in the project (docs/write-a-plugin.md).
 *
 * Files appear complete, under their final name, by rename(2): a plugin that is
 * running keeps the old file. The same sources give the same bytes.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import { basename, dirname, extname, resolve } from "@std/path/posix";
import { describeError } from "../cni/error.ts";
import { pluginNames, programNames } from "../plugins/registry.ts";
import { bundle } from "./compile/bundle.ts";
import { type Denort, provideDenort } from "./compile/denort.ts";
import {
  findChangeTime,
  PROGRAM_SOURCES,
  ROOT,
  runDeno,
} from "./compile/project.ts";
import { V8_FLAGS } from "./mkdenort.ts";
import { getOwnTarget, parseTarget, type Target } from "./compile/target.ts";

/** Something to make an executable of. */
export interface Program {
  /** Name of the executable. */
  readonly name: string;
  /** The module to start with, absolute or from the project's root. */
  readonly entry: string;
  /** More names for the same executable. */
  readonly links: readonly string[];
}

/** What to make, for which machine, and where to put it. */
export interface CompileOptions {
  /** By default the running machine. */
  readonly target?: Target;
  /** By default `dist/bin` for the running machine, and `dist/<target>` for others. */
  readonly out?: string;
  /** By default all plugins in one. */
  readonly programs?: readonly Program[];
}

/** A file that was made. */
export interface Executable {
  readonly path: string;
  /** Size in bytes. */
  readonly size: number;
  /** Size in bytes of the program in it. */
  readonly bundleSize: number;
  /** Name of the executable that it is a link to. */
  readonly linkTo?: string;
}

/** What {@linkcode compile} made. */
export interface CompileResult {
  readonly executables: readonly Executable[];
  /** Something that the user should know. */
  readonly note?: string;
}

/** What the executable can be called as. */
const allNames: readonly string[] = [...pluginNames, ...programNames];

/** All plugins in one executable. */
const multiCall: Program = {
  name: "cni",
  entry: "plugins/main.ts",
  links: allNames.filter((name) => name !== "cni"),
};

/** The tool as an executable of its own. */
const tool: Program = {
  name: "cni",
  entry: "cli/main.ts",
  links: ["cnitool"],
};

/**
 * Makes executables.
 *
 * @throws {Error} If a program cannot be bundled, or there is no runtime for the target
 */
export async function compile(
  options: CompileOptions = {},
): Promise<CompileResult> {
  const { target = getOwnTarget(), programs = [multiCall] } = options;
  const out = resolve(options.out ?? getDefaultOut(target));
  const denort = await provideDenort(target);
  await Deno.mkdir(out, { recursive: true });
  // In the same directory, because rename does not cross file systems.
  const staging = await Deno.makeTempDir({ dir: out, prefix: ".compile_" });
  try {
    const executables: Executable[] = [];
    for (const program of programs) {
      executables.push(
        ...await compileProgram(program, { target, denort, staging, out }),
      );
    }
    return { executables, ...denort.note ? { note: denort.note } : {} };
  } finally {
    await Deno.remove(staging, { recursive: true });
  }
}

function getDefaultOut(target: Target): string {
  const folder = target === getOwnTarget() ? "bin" : target;
  return `${ROOT}dist/${folder}`;
}

/** What is the same for all programs of a build. */
interface Build {
  readonly target: Target;
  readonly denort: Denort;
  readonly staging: string;
  readonly out: string;
}

/**
 * How much code an executable of this project may have, in bytes. Each start
 * reads all of it, which takes some 5 ms for a MiB.
 */
const BUDGET_BYTES = 600 * 2 ** 10;

/**
 * @param entry What is from outside the project is as large as its author likes
 * @throws {Error} If it is more than that
 */
export function checkBudget(entry: string, bytes: number): void {
  if (entry.startsWith("/") || bytes <= BUDGET_BYTES) return;
  throw new Error(
    `Cannot compile "${entry}": it has ${bytes} bytes of code, and may have ${BUDGET_BYTES}`,
  );
}

/** Makes the executable and its links, complete, and then moves them where they belong. */
async function compileProgram(
  { name, entry, links }: Program,
  { target, denort, staging, out }: Build,
): Promise<Executable[]> {
  const started = new Date();
  const script = await bundle(entry, name);
  checkBudget(entry, script.size);
  // The name of the output is part of the executable, so it has to be the final one.
  const made = `${staging}/${name}`;
  await runDeno([
    "compile",
    "--allow-all",
    "--no-check",
    "--no-config",
    "--no-code-cache",
    V8_FLAGS,
    `--target=${target}`,
    `--output=${made}`,
    script.path,
  ], { env: denort.env });
  // A source that changes while we read it counts as newer than the executable.
  await Deno.utime(made, started, started);
  for (const link of links) await Deno.link(made, `${staging}/${link}`);
  const { size } = await Deno.stat(made);
  const executables: Executable[] = [];
  for (const file of [name, ...links]) {
    const path = `${out}/${file}`;
    await Deno.rename(`${staging}/${file}`, path);
    const linkTo = file === name ? {} : { linkTo: name };
    executables.push({ path, size, bundleSize: script.size, ...linkTo });
  }
  return executables;
}

/**
 * Lists each plugin as a program of its own.
 *
 * @throws {Error} If a plugin has no `main.ts`
 */
export async function listSinglePrograms(
  names: readonly string[] = allNames
    .filter((name) => ![tool.name, ...tool.links].includes(name)),
): Promise<Program[]> {
  const programs: Program[] = [];
  for (const name of names) {
    programs.push({ name, entry: await getEntry(name), links: [] });
  }
  return programs;
}

async function getEntry(plugin: string): Promise<string> {
  const folder = plugin.replaceAll("-", "_");
  const candidates = ["plugins", "ipam"].map((layer) =>
    `${layer}/${folder}/main.ts`
  );
  for (const entry of candidates) {
    if (await findChangeTime(ROOT + entry) !== undefined) return entry;
  }
  throw new Error(
    `Cannot compile plugin "${plugin}": there is no ${
      candidates.join(" and no ")
    }`,
  );
}

/** What the executables depend on: the programs, and how they are made. */
const SOURCES = [
  ...PROGRAM_SOURCES,
  "scripts/mkdenort",
  "scripts/mkdenort.ts",
  "scripts/compile",
  "scripts/compile.ts",
] as const;

/**
 * Makes all plugins for the running machine, unless they are there and newer
 * than their sources.
 *
 * Processes that call it at the same time wait for the first of them.
 *
 * @returns The directory of the executables
 * @throws {Error} As {@linkcode compile}
 */
export async function ensureCompiled(): Promise<string> {
  await Deno.mkdir(`${ROOT}build`, { recursive: true });
  using lock = await Deno.open(`${ROOT}build/compile.lock`, {
    create: true,
    write: true,
  });
  await lock.lock(true);
  const directory = getDefaultOut(getOwnTarget());
  if (!await isUpToDate(directory)) await compile();
  return directory;
}

async function isUpToDate(directory: string): Promise<boolean> {
  const names = [multiCall.name, ...multiCall.links];
  const made = await Promise.all(
    names.map((name) => findChangeTime(`${directory}/${name}`)),
  );
  const oldest = Math.min(...made.map((time) => time ?? 0));
  for (const source of SOURCES) {
    if (await findNewestChange(ROOT + source) > oldest) return false;
  }
  return true;
}

/** Returns when a file, or the last changed file in a folder, was changed; 0 if there is none. Tests do not count. */
async function findNewestChange(path: string): Promise<number> {
  const time = await findChangeTime(path) ?? 0;
  if (time === 0 || !(await Deno.stat(path)).isDirectory) return time;
  let newest = time;
  for await (const { name } of Deno.readDir(path)) {
    if (name.endsWith("_test.ts")) continue;
    newest = Math.max(newest, await findNewestChange(`${path}/${name}`));
  }
  return newest;
}

/** What the command line asks for. */
export interface CommandLine {
  readonly options: CompileOptions;
  /** Whether every plugin becomes an executable of its own. */
  readonly each: boolean;
}

/**
 * Reads the command line.
 *
 * @throws {Error} If there is something in it that we do not know
 */
export function parseCommandLine(args: readonly string[]): CommandLine {
  const { target, out, each, plugin, name } = parseArgs([...args], {
    string: ["target", "out", "plugin", "name"],
    boolean: ["each"],
    unknown: (arg) => {
      throw new Error(`Cannot understand "${arg}": ${USAGE}`);
    },
  });
  if (plugin === undefined ? name !== undefined : each) {
    const wrong = plugin === undefined ? "--name" : "--each";
    throw new Error(`Cannot understand "${wrong}" here: ${USAGE}`);
  }
  return {
    each,
    options: {
      ...target === undefined ? {} : { target: parseTarget(target) },
      ...out === undefined ? {} : { out },
      ...plugin === undefined
        ? {}
        : { programs: [describeForeign(plugin, name)] },
    },
  };
}

const USAGE = "usage: deno task compile [--target TARGET] [--out DIRECTORY] " +
  "[--each | --plugin MODULE [--name NAME]]";

/**
 * Describes a program from outside of the project.
 *
 * @param name By default that of the module, or of its folder if it is `main.ts`
 * @throws {Error} If the name cannot be the type of a plugin
 */
function describeForeign(module: string, name?: string): Program {
  const entry = resolve(module);
  const stem = basename(entry, extname(entry));
  const own = stem === "main" ? basename(dirname(entry)) : stem;
  const program = { name: name ?? own, entry, links: [] };
  if (/^[\w][\w.-]*$/.test(program.name)) return program;
  throw new Error(
    `Cannot compile "${module}" as "${program.name}": --name must say a name of letters, digits, ".", "_" and "-"`,
  );
}

async function main(): Promise<void> {
  const { options, each } = parseCommandLine(Deno.args);
  const programs = each
    ? { programs: [...await listSinglePrograms(), tool] }
    : {};
  const { executables, note } = await compile({ ...options, ...programs });
  if (note !== undefined) console.error(note);
  for (const executable of executables) console.log(describe(executable));
}

function describe({ path, size, bundleSize, linkTo }: Executable): string {
  const mebibytes = `${(size / 2 ** 20).toFixed(1)} MiB`;
  const kibibytes = `${(bundleSize / 2 ** 10).toFixed(1)} KiB of it ours`;
  const detail = linkTo === undefined
    ? kibibytes
    : `the same file as ${linkTo}`;
  return `${path}: ${mebibytes}, ${detail}`;
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error(describeError(error));
    Deno.exit(1);
  }
}
