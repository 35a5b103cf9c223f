/**
 * The project's directory, and programs that run there.
 *
 * @module
 */

import { basename } from "@std/path/posix";

/** The project's root, with a slash at the end. */
export const ROOT_URL: URL = new URL("../", import.meta.url);

/** Its path. */
export const ROOT: string = decodeURIComponent(ROOT_URL.pathname);

/**
 * The environment of a program in Go that ends soon, such as a compiler. It collects
 * no garbage until it has a GiB, which saves a quarter of the processor time.
 */
export const GO_ENV: Readonly<Record<string, string>> = {
  GOGC: "off",
  GOMEMLIMIT: "1GiB",
};

/** The surroundings of a program: by default, the project's root. */
interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs a program to its end, without stdin, and returns what it printed.
 *
 * @throws {Error} If it is not installed, fails or is aborted; the message has its stderr
 */
export async function run(
  program: string,
  args: readonly string[],
  { cwd = ROOT, env = {}, signal }: RunOptions = {},
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const command = new Deno.Command(program, {
    ...{ args: [...args], cwd, env, stdin: "null" },
    ...signal === undefined ? {} : { signal },
  });
  const { success, ...printed } = await command.output().catch((cause) => {
    throw new Error(`Cannot run "${program}": is it installed?`, { cause });
  });
  const [stdout = "", stderr = ""] = [printed.stdout, printed.stderr]
    .map((bytes) => new TextDecoder().decode(bytes));
  if (success) return { stdout, stderr };
  const why = signal?.aborted ? "it took too long" : stderr.trim();
  throw new Error(`Cannot run "${basename(program)} ${args[0]}": ${why}`);
}

/**
 * Runs the running deno with other arguments, as {@linkcode run} does.
 *
 * @throws {Error} If it fails or is aborted
 */
export async function runDeno(
  args: readonly string[],
  { env = {}, ...options }: RunOptions = {},
): ReturnType<typeof run> {
  const plain = { NO_COLOR: "1", ...env };
  return await run(Deno.execPath(), args, { ...options, env: plain });
}

/** Returns the modification time of a file in ms since 1970, or undefined if it does not exist. */
export async function findChangeTime(
  path: string | URL,
): Promise<number | undefined> {
  try {
    const { mtime } = await Deno.stat(path);
    return mtime?.getTime() ?? 0;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** Returns the directory where deno keeps what it downloads and compiles. */
export function findDenoDirectory(): string {
  const { DENO_DIR, XDG_CACHE_HOME, HOME } = Deno.env.toObject();
  return DENO_DIR || `${XDG_CACHE_HOME || `${HOME}/.cache`}/deno`;
}
