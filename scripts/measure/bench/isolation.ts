/**
 * A place that ends with the process in it: namespaces of its own for links,
 * mounts and processes. Whatever is made there is gone when its first process
 * is, however that ends. In it, network namespaces, and waiting until the kernel has
 * taken them apart, which it does later and by itself.
 *
 * @module
 */

import * as libc from "../../../ffi/libc.ts";
import { NetNs } from "../../../ffi/netns.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { isDirectory } from "../../../base/files/io.ts";

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

/** Creates a namespace with its loopback up, as a runtime gives a container. */
export function makeNetns(): NetNs {
  const netns = NetNs.create();
  using rtnl = Rtnl.open(netns.path);
  rtnl.link.set(rtnl.link.get("lo").index, { isUp: true });
  return netns;
}

const POLL_MS = 5, DEADLINE_MS = 60_000;
const clock = new Int32Array(new SharedArrayBuffer(4));

/** Blocks this thread, and so the whole process, for a while. */
export function pause(milliseconds: number): void {
  Atomics.wait(clock, 0, 0, milliseconds);
}

/**
 * Waits until the kernel has taken apart the namespaces that were closed so
 * far: meanwhile it holds locks that every request to any namespace needs.
 *
 * It takes apart those that have gathered, in no known order, and then the
 * next. So when the end of one can be seen, those before are at most under way;
 * when that of another can be, which came only then, they are gone.
 *
 * @throws {Error} If it takes longer than a minute
 */
export function awaitTeardown(): void {
  using host = NetNs.create();
  using rtnl = Rtnl.open(host.path);
  for (const name of ["first", "second"]) {
    {
      using sentinel = NetNs.create();
      rtnl.link.addVeth({ name, peer: { netns: sentinel, name: "end" } });
    }
    awaitEnd(rtnl, name);
  }
}

function awaitEnd(rtnl: Rtnl, link: string): void {
  const deadlineMs = performance.now() + DEADLINE_MS;
  while (rtnl.link.find(link) !== undefined) {
    if (performance.now() > deadlineMs) {
      throw new Error("Cannot see the end of a namespace: it takes too long");
    }
    pause(POLL_MS);
  }
}
