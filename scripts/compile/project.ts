/**
 * The project's directory, and `deno` called from there.
 *
 * @module
 */

/** The project's root, with a slash at the end. */
export const ROOT_URL: URL = new URL("../../", import.meta.url);

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

/** What the programs are made of: directories and files in the project's root. */
export const PROGRAM_SOURCES = [
  "net",
  "ffi",
  "base",
  "cni",
  "metadata",
  "libcni",
  "ipam",
  "kube",
  "plugins",
  "node",
  "daemon",
  "cli",
  "testing/conform",
  "testing/ip_json.ts",
  "main.ts",
  "deploy/daemon",
  "scripts/offline",
  "deno.json",
  "deno.lock",
] as const;

/** Further sources, which other programs import by the name of the project. */
export const LIBRARY_SOURCES = [
  "mod.ts",
  "libcni.ts",
  "nftables.ts",
  "traffic_control.ts",
] as const;

/**
 * Runs the running deno with other arguments, in the project's root unless
 * another directory is given, and returns what it said on stderr.
 *
 * @throws {Error} If it fails or is aborted; the message is its stderr
 */
export async function runDeno(
  args: readonly string[],
  { cwd = ROOT, env = {}, signal }: {
    readonly cwd?: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal | undefined;
  } = {},
): Promise<string> {
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
    ...signal === undefined ? {} : { signal },
  });
  const { success, stderr } = await command.output();
  const text = new TextDecoder().decode(stderr).trim();
  if (success) return text;
  const why = signal?.aborted ? "it took too long" : text;
  throw new Error(`Cannot run "deno ${args[0]}": ${why}`);
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
