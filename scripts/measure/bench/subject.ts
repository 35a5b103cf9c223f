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

/** Where others are. */
interface Others {
  /** Directories of executables, which are also their names. */
  readonly peers: readonly string[];
  /** Where the Go plugins are, if they are. */
  readonly goDirectory: string;
  /** Where their multus is. */
  readonly goMultus: string | undefined;
}

/**
 * Finds the subjects to measure.
 *
 * @param bin Directory of ours
 * @throws {Error} If a directory that was asked for has no plugin
 */
export function findSubjects(
  bin: string,
  { peers, goDirectory, goMultus }: Others,
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
  for (const peer of peers) subjects.push({ name: peer, bin: peer });
  for (const { bin } of subjects) {
    if (hasExecutable(bin, "host-local")) continue;
    throw new Error(`Cannot measure "${bin}": it contains no host-local`);
  }
  return { subjects, notes };
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
