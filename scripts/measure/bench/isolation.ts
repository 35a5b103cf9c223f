/**
 * A place that ends with the process in it: namespaces of its own for links,
 * mounts and processes. Whatever is made there is gone when its first process
 * is, however that ends.
 *
 * @module
 */

import * as libc from "../../../ffi/libc.ts";

/** Ways to isolate: as root, or as root of a new user namespace. */
const UNSHARE = [
  "--net --mount --pid --fork --kill-child --mount-proc",
  "--user --map-root-user --net --mount --pid --fork --kill-child --mount-proc",
] as const;

/** Signals that end the run, with the matching exit status. */
const SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

/** The outcome of an isolated process. */
interface Isolated {
  /** Its exit status; 128 and the signal's number if a signal ended it. */
  readonly code: number;
  readonly stdout: string;
}

/**
 * Runs a command in isolation. At the first signal that asks for an
 * end it is killed, with all that it has begun.
 *
 * @throws {Error} If there cannot be such a place
 */
export async function runIsolated(
  command: readonly string[],
  cwd: URL | string,
): Promise<Isolated> {
  await using child = new Deno.Command("unshare", {
    args: [...chooseFlags(), "--", ...command],
    cwd,
    // Ctrl-C is for this process alone, which ends the other one by it.
    detached: true,
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let interrupted: number | undefined;
  using _listening = listen((status) => {
    interrupted ??= status;
    kill(child);
  });
  const stdout = await new Response(child.stdout).text();
  const { code } = await child.status;
  return { code: interrupted ?? code, stdout };
}

/** @throws {Error} If none will do */
function chooseFlags(): string[] {
  const flags = UNSHARE.map((line) => line.split(" ")).find(canUnshare);
  if (flags !== undefined) return flags;
  throw new Error(
    "Cannot measure in namespaces of our own: run as root, in a privileged " +
      "container, or where user namespaces are allowed",
  );
}

function canUnshare(flags: readonly string[]): boolean {
  try {
    return new Deno.Command("unshare", {
      args: [...flags, "true"],
      stderr: "null",
    }).outputSync().success;
  } catch {
    return false;
  }
}

/** Tells of signals that ask for an end, with the exit status, until disposal. */
function listen(onSignal: (status: number) => void): DisposableStack {
  const stack = new DisposableStack();
  for (const [name, status] of Object.entries(SIGNALS)) {
    const signal = name as keyof typeof SIGNALS;
    const listener = (): void => onSignal(status);
    Deno.addSignalListener(signal, listener);
    stack.defer(() => Deno.removeSignalListener(signal, listener));
  }
  return stack;
}

/** `--kill-child` passes it on. */
function kill(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended.
  }
}

/** Default directories of plugins and iptables. */
const SHARED_DIRECTORIES = ["/run", "/var/lib/cni"] as const;

/**
 * Puts empty directories in memory over the directories that would be shared with
 * the machine, and of `directory`. Only for a process that is isolated.
 *
 * @param needed Paths that have to stay as they are
 */
export function hideSharedDirectories(
  directory: string,
  needed: readonly string[],
): void {
  libc.mountNew("tmpfs", directory, 0);
  for (const shared of SHARED_DIRECTORIES) {
    if (!isDirectory(shared)) continue;
    const path = Deno.realPathSync(shared);
    if (needed.some((other) => `${other}/`.startsWith(`${path}/`))) continue;
    libc.mountNew("tmpfs", path, 0);
  }
}

function isDirectory(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}
