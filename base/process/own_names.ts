/**
 * The names of this process's executable, for cases in which `calledAs()` returns no
 * known name, such as behind a wrapper.
 *
 * @module
 */

import { calledAs } from "./stdio.ts";

/**
 * The auxiliary vector's entry with the path that was passed to execve(2). Source:
 * linux/auxvec.h.
 */
const AT_EXECFN = 31n;

/** Longest path, in bytes. Source: linux/limits.h. */
const PATH_MAX = 4096;

/**
 * Lists the names under which this process was started, without directories:
 * the name that the caller passed, then the executed file, and each file to
 * which it leads as a link.
 */
export function listOwnNames(): string[] {
  return [...new Set([calledAs(), ...listNamesOf(findExecutedPath())])];
}

/** Lists the name of a file, and of each file to which it leads as a link. */
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
 * Finds the path of the executable that was passed to the kernel, because argv[0] can
 * differ.
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

/** Returns the target of a link; undefined if the path is not a link. */
function readLink(path: string): string | undefined {
  try {
    const target = Deno.readLinkSync(path);
    const directory = path.slice(0, path.lastIndexOf("/") + 1);
    return target.startsWith("/") ? target : directory + target;
  } catch {
    return undefined;
  }
}
