/**
 * The names of this process's executable: where `calledAs()` says none that is known,
 * such as behind a wrapper.
 *
 * @module
 */

import { calledAs } from "./stdio.ts";

/** Where the kernel has the path that execve(2) was given. Source: linux/auxvec.h. */
const AT_EXECFN = 31n;

/** Longest path, in bytes. Source: linux/limits.h. */
const PATH_MAX = 4096;

/**
 * Lists the names under which this process was started, without directories:
 * the name that the caller passed, then the file that it ran, and each file
 * that this one links to.
 */
export function listOwnNames(): string[] {
  return [...new Set([calledAs(), ...listNamesOf(findExecutedPath())])];
}

/** Lists the name of a file, and of each file that this one leads to as a link. */
export function listNamesOf(file: string | undefined): string[] {
  const paths = new Set<string>();
  let path = file;
  while (path !== undefined && !paths.has(path)) {
    paths.add(path);
    path = readLink(path);
  }
  return [...paths].map((one) => one.slice(one.lastIndexOf("/") + 1));
}

/**
 * Finds the path of the executable that was passed to the kernel: argv[0] need
 * not be it.
 *
 * Source: getauxval(3), proc_pid_auxv(5).
 */
function findExecutedPath(): string | undefined {
  try {
    const { buffer } = Deno.readFileSync("/proc/self/auxv");
    const words = new BigUint64Array(buffer);
    const at = words.findIndex((word, index) =>
      index % 2 === 0 && word === AT_EXECFN
    );
    using memory = Deno.openSync("/proc/self/mem");
    memory.seekSync(words[at + 1] ?? 0n, Deno.SeekMode.Start);
    const bytes = new Uint8Array(PATH_MAX);
    const length = memory.readSync(bytes) ?? 0;
    const [path] = new TextDecoder().decode(bytes.subarray(0, length))
      .split("\0");
    return path || undefined;
  } catch {
    return undefined; // no /proc
  }
}

/** Returns where a link leads; undefined if the path is not one. */
function readLink(path: string): string | undefined {
  try {
    const target = Deno.readLinkSync(path);
    const directory = path.slice(0, path.lastIndexOf("/") + 1);
    return target.startsWith("/") ? target : directory + target;
  } catch {
    return undefined;
  }
}
