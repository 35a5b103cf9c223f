/**
 * The executables to measure.
 *
 * @module
 */

/** A set of executables that are measured beside others. */
export interface Subject {
  /** Its name in tables. */
  readonly name: string;
  /** Directory of the executables. */
  readonly bin: string;
  /** Directory of multus, if that is another one. */
  readonly multus?: string | undefined;
  /** The daemon of thick multus, if it is measured. */
  readonly thickDaemon?: string | undefined;
}

/** Our own. */
export const OURS = "ours";
/** The Go plugins of the containernetworking project. */
export const GO = "go";
/** Where Debian's containernetworking-plugins has them. */
export const GO_DIRECTORY = "/usr/lib/cni";

/** The subjects found, and notes on the others. */
interface Subjects {
  readonly subjects: readonly Subject[];
  readonly notes: readonly string[];
}

/**
 * Finds the subjects to measure.
 *
 * @param bin Directory of ours
 * @param peers Directories of more
 * @param goDirectory Where the Go plugins are, if they are
 * @param goMultus Where their multus is
 * @throws {Error} If a directory that was asked for has no plugin
 */
export function findSubjects(
  bin: string,
  peers: readonly string[],
  goDirectory: string = GO_DIRECTORY,
  goMultus?: string,
): Subjects {
  const thick = goMultus !== undefined &&
    hasExecutable(goMultus, "multus-daemon");
  const own = thick ? { thickDaemon: `${bin}/cni` } : {};
  const subjects: Subject[] = [{ name: OURS, bin, ...own }];
  const notes: string[] = [];
  if (hasExecutable(goDirectory, "host-local")) {
    subjects.push({
      name: GO,
      bin: goDirectory,
      ...goMultus !== undefined && { multus: goMultus },
      ...thick && { thickDaemon: `${goMultus}/multus-daemon` },
    });
  } else {
    notes.push(
      `Skipped the Go plugins: none found in ${goDirectory} (Debian package containernetworking-plugins)`,
    );
  }
  for (const peer of peers) {
    const taken = subjects.map(({ name }) => name);
    subjects.push({ name: namePeer(peer, taken), bin: peer });
  }
  for (const { bin } of subjects) {
    if (hasExecutable(bin, "host-local")) continue;
    throw new Error(`Cannot measure "${bin}": it contains no host-local`);
  }
  return { subjects, notes };
}

/** Directory names that say nothing about the plugins. */
const COMMON_NAMES = ["bin", "cni"];

/** Names a directory by the end of its path, as much of it as it takes to tell it from others. */
function namePeer(directory: string, taken: readonly string[]): string {
  const parts = directory.split("/");
  const ends = parts.map((_, at) => parts.slice(-at - 1).join("/"));
  const isTaken = (end: string): boolean =>
    [...COMMON_NAMES, ...taken].includes(end);
  return ends.find((end) => !isTaken(end)) ?? directory;
}

/** Reports whether a directory has the executable. */
export function hasExecutable(directory: string, name: string): boolean {
  try {
    const { isFile, mode } = Deno.statSync(`${directory}/${name}`);
    return isFile && ((mode ?? 0) & 0o111) !== 0;
  } catch {
    return false;
  }
}
