/**
 * Making executables of programs.
 *
 * @module
 */

import { isAbsolute, resolve } from "@std/path/posix";
import { V8_FLAGS } from "../mkdenort.ts";
import { bundle } from "./bundle.ts";
import { type Denort, provideDenort } from "./denort.ts";
import { attachCallStubFile } from "./call_stub/attach.ts";
import { hideSectionsInFile } from "./hide_sections.ts";
import { attachLinkerStubFile } from "./linker_stub.ts";
import { prelinkFile } from "./prelink.ts";
import { multiCall, type Program } from "./programs.ts";
import { ROOT, runDeno } from "./project.ts";
import { getOwnTarget, type Target } from "./target.ts";

/** The programs to compile, the target and the output folder. */
export interface CompileOptions {
  /** By default the running machine. */
  readonly target?: Target;
  /** By default `dist/bin` for the running machine, and `dist/<target>` for others. */
  readonly out?: string;
  /** By default all plugins in one. */
  readonly programs?: readonly Program[];
  /** Whether executables get a fixed address, with which they start faster. By default they do. */
  readonly prelink?: boolean;
  /** Shows which program is being made. */
  readonly onProgress?: (text: string) => void;
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
  /** What the user should know. */
  readonly notes: readonly string[];
  /** The version of Deno in the executables. */
  readonly denoVersion: string;
}

/**
 * Makes executables.
 *
 * @throws {Error} If a program cannot be bundled, or the target has no runtime
 */
export async function compile(
  options: CompileOptions = {},
): Promise<CompileResult> {
  const { target = getOwnTarget(), programs = [multiCall] } = options;
  const { prelink = true } = options;
  const out = resolve(options.out ?? getDefaultOut(target));
  const denort = await provideDenort(target);
  await Deno.mkdir(out, { recursive: true });
  // In the same directory, because rename does not cross file systems.
  const staging = await Deno.makeTempDir({ dir: out, prefix: ".compile_" });
  try {
    const executables: Executable[] = [];
    const notes = denort.note === undefined ? [] : [denort.note];
    const identity = await findIdentity(programs);
    const build = { target, denort, prelink, staging, out, notes, identity };
    for (const [at, program] of programs.entries()) {
      options.onProgress?.(`${at + 1}/${programs.length} ${program.name}`);
      executables.push(...await compileProgram(program, build));
    }
    return { executables, notes, denoVersion: denort.version };
  } finally {
    await Deno.remove(staging, { recursive: true });
  }
}

/** Returns the folder that executables for a machine are in unless another is given. */
export function getDefaultOut(target: Target): string {
  const folder = target === getOwnTarget() ? "bin" : target;
  return `${ROOT}dist/${folder}`;
}

/** What is the same for all programs of a build. */
interface Build {
  readonly target: Target;
  readonly denort: Denort;
  readonly prelink: boolean;
  readonly staging: string;
  readonly out: string;
  /** Takes what the user should know. */
  readonly notes: string[];
  /** The `buildIdentity` of the project's programs. */
  readonly identity: string | undefined;
}

/**
 * Returns what identifies the project's programs: the multi-call program of the
 * same sources, whose daemon runs calls of them all.
 *
 * @returns Undefined if each has its own
 */
async function findIdentity(
  programs: readonly Program[],
): Promise<string | undefined> {
  const others = programs.filter((one) =>
    one !== multiCall && !isForeign(one.entry)
  );
  if (others.length === 0) return undefined;
  return (await bundle(multiCall.entry, multiCall.name)).identity;
}

/** Reports whether a program is from outside of the project. */
function isForeign(entry: string): boolean {
  return isAbsolute(entry);
}

/**
 * How much code an executable of this project may have, in bytes. With the real
 * denort each start reads all of it, which takes some 5 ms for a MiB.
 */
const BUDGET_BYTES = 1100 * 2 ** 10;

/**
 * @param entry What is from outside the project is as large as its author likes
 * @throws {Error} If it is more than that
 */
export function checkBudget(entry: string, bytes: number): void {
  if (isForeign(entry) || bytes <= BUDGET_BYTES) return;
  throw new Error(
    `Cannot compile "${entry}": it has ${bytes} bytes of code, and may have ${BUDGET_BYTES}`,
  );
}

/** Creates the executable and its links, and moves them to the output once complete. */
async function compileProgram(
  { name, entry, links, handsOver = false }: Program,
  { target, denort, prelink, staging, out, notes, identity }: Build,
): Promise<Executable[]> {
  const started = new Date();
  const known = isForeign(entry) ? undefined : identity;
  const script = await bundle(entry, name, known);
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
  const changes = [
    await attachLinkerStubFile(made),
    handsOver ? await attachCallStubFile(made, script.identity) : undefined,
    prelink ? await prelinkFile(made) : undefined,
  ];
  for (const note of changes) {
    if (note !== undefined) notes.push(note.replace(made, `${out}/${name}`));
  }
  await hideSectionsInFile(made);
  // A source that changes while we read it counts as newer than the executable.
  await Deno.utime(made, started, started);
  for (const link of links) await Deno.symlink(name, `${staging}/${link}`);
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
