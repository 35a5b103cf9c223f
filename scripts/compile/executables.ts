/**
 * Making executables of programs.
 *
 * @module
 */

import { isAbsolute, resolve } from "@std/path/posix";
import { type Bundle, bundle } from "./bundle.ts";
import { type Denort, provideDenort, V8_FLAGS } from "./runtime.ts";
import { multiCall, type Program } from "./programs.ts";
import { ROOT, runDeno } from "../project.ts";
import { type Behaviour, findDifference, findFault, observe } from "./start.ts";
import { applySteps, LINK, type Step, STEPS } from "./steps.ts";
import { getOwnTarget, type Target } from "./target.ts";

/** What to compile, for which machine, and where to. */
export interface CompileOptions {
  /** By default the running machine. */
  readonly target?: Target;
  /** By default `dist/bin` for the running machine, and `dist/<target>` for others. */
  readonly out?: string;
  /** By default all plugins in one. */
  readonly program?: Program;
  /** Names of steps to leave out; by default none. */
  readonly without?: readonly string[];
  /** What is done after `deno compile`, if not {@linkcode STEPS}. */
  readonly steps?: readonly Step[];
}

/** An executable that was made. */
export interface Executable {
  readonly path: string;
  /** Size in bytes. */
  readonly size: number;
  /** Size in bytes of the program in it. */
  readonly bundleSize: number;
  /** The version of Deno in it. */
  readonly denoVersion: string;
  /** A line for the user, unless all is as usual. */
  readonly note?: string | undefined;
}

/**
 * Makes an executable and its links.
 *
 * @throws {Error} If the program cannot be bundled, or the target has no runtime
 */
export async function compile(
  options: CompileOptions = {},
): Promise<Executable> {
  const { target = getOwnTarget(), program = multiCall } = options;
  const { without = [], steps = STEPS } = options;
  const out = resolve(options.out ?? getDefaultOut(target));
  const denort = await provideDenort(target);
  await Deno.mkdir(out, { recursive: true });
  // In the same directory, because rename does not cross file systems.
  const staging = await Deno.makeTempDir({ dir: out, prefix: ".compile_" });
  try {
    const made = await compileProgram(program, {
      ...{ target, denort, staging, out },
      isLinked: !without.includes(LINK.name),
      steps: steps.filter(({ name }) => !without.includes(name)),
    });
    return { ...made, denoVersion: denort.version, note: denort.note };
  } finally {
    await Deno.remove(staging, { recursive: true });
  }
}

/** Returns the directory that executables for a machine are in unless another is given. */
export function getDefaultOut(target: Target): string {
  const directory = target === getOwnTarget() ? "bin" : target;
  return `${ROOT}dist/${directory}`;
}

/** How a program is compiled. */
interface Build {
  readonly target: Target;
  readonly denort: Denort;
  readonly isLinked: boolean;
  readonly steps: readonly Step[];
  readonly staging: string;
  readonly out: string;
}

/**
 * How much code an executable of this project may have, in bytes. With the real
 * denort each start reads all of it, which takes some 5 ms for a MiB.
 */
const BUDGET_BYTES = 1222 * 2 ** 10;

/**
 * @param entry What is from outside the project is as large as its author likes
 * @throws {Error} If it is more than that
 */
export function checkBudget(entry: string, bytes: number): void {
  if (isAbsolute(entry) || bytes <= BUDGET_BYTES) return;
  throw new Error(
    `Cannot compile "${entry}": it has ${bytes} bytes of code, and may have ` +
      `${BUDGET_BYTES}: make it smaller, or raise BUDGET_BYTES in ` +
      "scripts/compile/executables.ts and measure the start",
  );
}

/** Creates the executable and its links, and moves them to the output once complete. */
async function compileProgram(
  program: Program,
  build: Build,
): Promise<Pick<Executable, "path" | "size" | "bundleSize">> {
  const { name, links } = program;
  const { staging, out } = build;
  const started = new Date();
  for (const link of links) await Deno.symlink(name, `${staging}/${link}`);
  const plain = await compilePlain(program, build);
  await change(plain, program, build);
  // A source that changes while we read it counts as newer than the executable.
  await Deno.utime(`${staging}/${name}`, started, started);
  for (const file of [name, ...links]) {
    await Deno.rename(`${staging}/${file}`, `${out}/${file}`);
  }
  const path = `${out}/${name}`;
  const { size } = await Deno.stat(path);
  return { path, size, bundleSize: plain.script.size };
}

/** An executable as `deno compile` makes it. */
interface Plain {
  readonly script: Bundle;
  /** Undefined if it is for another machine. */
  readonly behaviour: Behaviour | undefined;
}

/**
 * Has `deno compile` make an executable of a program.
 *
 * @throws {Error} If a plugin of the project does not start
 */
async function compilePlain(program: Program, build: Build): Promise<Plain> {
  const { name, entry, links, handsOver = false } = program;
  const { target, denort, isLinked, staging } = build;
  const script = await bundle(entry, name, isLinked);
  // The linker compresses half of it.
  if (isLinked) checkBudget(entry, script.size);
  // The name of the output is part of the executable, so it has to be the final one.
  await runDeno([
    "compile",
    "--allow-all",
    "--no-check",
    "--no-config",
    "--no-code-cache",
    `--v8-flags=${V8_FLAGS.join(",")}`,
    `--target=${target}`,
    `--output=${staging}/${name}`,
    script.path,
  ], { env: denort.env });
  if (target !== getOwnTarget()) return { script, behaviour: undefined };
  const path = `${staging}/${links[0] ?? name}`;
  const behaviour = await observe(path, handsOver);
  const fault = handsOver ? findFault(behaviour) : undefined;
  if (fault === undefined) return { script, behaviour };
  throw new Error(`Cannot compile "${entry}": ${fault}`);
}

/**
 * Changes the executable of a program by the steps.
 *
 * @throws {Error} If it then does something else than before
 */
async function change(
  { script, behaviour }: Plain,
  { name, entry, links, handsOver = false }: Program,
  { staging, steps }: Build,
): Promise<void> {
  const made = `${staging}/${name}`;
  const identity = handsOver ? script.identity : undefined;
  const changed = applySteps(await Deno.readFile(made), steps, identity);
  await Deno.writeFile(made, changed);
  if (behaviour === undefined) return;
  const found = await observe(`${staging}/${links[0] ?? name}`, handsOver);
  const difference = findDifference(behaviour, found);
  if (difference === undefined) return;
  throw new Error(
    `Cannot compile "${entry}": ${difference}; leave a step out (--no-STEP)`,
  );
}
