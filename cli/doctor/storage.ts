/**
 * Where plugins keep their state: room, permissions and locks.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { dirname, join } from "@std/path/posix";
import { ifPossible, isDirectory, isTaken } from "../../base/files/io.ts";
import {
  type FileSystem,
  findMount,
  type Mount,
  readFileSystem,
} from "../../ffi/file/file_system.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  listed,
  warning,
} from "./finding.ts";
import { listHeldLocks } from "../node/held_locks.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { listPools } from "../node/pools.ts";

/** A directory that plugins write to, and its purpose. */
interface State {
  readonly path: string;
  readonly what: string;
}

/** Lists the directories that ADD writes to. */
function listState(node: NodeReader): State[] {
  const pools = listPools(node).map(({ network, directory }) => ({
    path: directory,
    what: `the leases of "${network.name}"`,
  }));
  const cache = {
    path: node.directories.cacheDir,
    what: "the attachment cache",
  };
  const all = node.networks.length === 0 ? [] : [cache, ...pools];
  return [...new Map(all.map((one) => [one.path, one])).values()];
}

/** Returns the path itself, or the nearest directory above it that exists. */
function findExisting(path: string): string {
  const isThere = isTaken(path);
  return isThere || path === "/" || path === "."
    ? path
    : findExisting(dirname(path));
}

/** A file system, and what of the state is in it. */
interface StateDisk {
  readonly disk: FileSystem;
  readonly mount: Mount | undefined;
  readonly path: string;
  readonly what: string;
}

/** Lists the file systems of the state, each once. */
function listDisks(node: NodeReader): StateDisk[] {
  const text = readMounts();
  const found = listState(node).flatMap(({ path, what }) => {
    const existing = findExisting(path);
    const disk = ifPossible(() => readFileSystem(existing));
    if (disk === undefined) return [];
    const real = ifPossible(() => Deno.realPathSync(existing)) ?? existing;
    return [{ disk, mount: findMount(real, text), path, what }];
  });
  const byMount = Map.groupBy(
    found,
    ({ mount, path }) => mount?.target ?? path,
  );
  return [...byMount.values()].flatMap((some) => {
    const [first] = some;
    const what = listed(some.map((one) => one.what), 2);
    return first === undefined ? [] : [{ ...first, what }];
  });
}

function readMounts(): string {
  return ifPossible(() => Deno.readTextFileSync("/proc/self/mountinfo")) ?? "";
}

/** Below this, the next files of plugins do not fit: leases, results and logs. */
const LEAST_BYTES = 256 * 1024, LEAST_FILES = 16;
/** A file system that is nearly full: a share of it, and bytes. */
const LOW_SHARE = 0.02, LOW_BYTES = 32 * 1024 * 1024;

function findFullDisks(node: NodeReader): Findings {
  return listDisks(node).flatMap(({ disk, mount, path, what }) => {
    const { size, free, available, files, freeFiles } = disk;
    const where = mount === undefined
      ? `the file system of "${path}"`
      : `"${mount.target}" (${mount.type})`;
    const target = mount?.target ?? path;
    if (size > 0 && free < LEAST_BYTES) {
      return [error(
        `${where} is full: it contains ${what}`,
        "ADD fails, because it cannot write the lease and the result",
        {
          advice: `remove files there, or enlarge it; do not remove any of ` +
            `${what} by hand`,
          look: shell`du -xh ${target} | sort -h | tail`,
        },
      )];
    }
    if (files > 0 && freeFiles < LEAST_FILES) {
      return [error(
        `${where} has no inode left for further files: it contains ${what}`,
        "ADD fails, because it cannot create the lease and the result",
        {
          advice: "remove files there; df might still show free space",
          look: shell`df -i ${target}`,
        },
      )];
    }
    const isLow = size > 0 && available < LOW_BYTES &&
      available < size * LOW_SHARE;
    return isLow
      ? [warning(
        `${where} is nearly full: it contains ${what}`,
        "soon ADD fails, because it cannot write the lease and the result",
        {
          advice: "remove files there, or enlarge it",
          look: shell`du -xh ${target} | sort -h | tail`,
        },
      )]
      : [];
  });
}

function findUnwritable(node: NodeReader): Findings {
  const { cacheDir } = node.directories;
  const files = listState(node).flatMap(({ path: given, what }) => {
    const path = given === cacheDir ? join(cacheDir, "results") : given;
    const existing = findExisting(path);
    const info = ifPossible(() => Deno.statSync(existing));
    if (info?.isDirectory) return [];
    return [error(
      `"${existing}", for ${what}, is not a directory`,
      "ADD fails, because it cannot write there",
      { command: shell`mv ${existing} ${existing}.unused && mkdir -p ${path}` },
    )];
  });
  const mounts = listDisks(node).filter(({ disk }) => disk.isReadOnly)
    .map(({ mount, path, what }) => {
      const target = mount?.target ?? path;
      return error(
        `"${target}" is mounted read-only: it contains ${what}`,
        "ADD fails, because it cannot write there",
        {
          command: shell`mount -o remount,rw ${target}`,
          advice: "a file system that the kernel made read-only after an " +
            "error needs fsck first",
          look: "dmesg | tail",
        },
      );
    });
  const locks = listPools(node).filter(({ lock }) => isDirectory(lock))
    .map(({ lock, network: { name } }) =>
      error(
        `"${lock}", the lock of the leases of "${name}", is a directory`,
        "ADD and DEL fail, because they cannot open it",
        { command: shell`mv ${lock} ${lock}.unused` },
      )
    );
  return [...files, ...mounts, ...locks];
}

async function findHeldLocks(node: NodeReader): Promise<Findings> {
  const findings: Finding[] = [];
  for (const { network, path, holder } of await listHeldLocks(node)) {
    const { pid, program, isStopped } = holder;
    const name = pid === 0
      ? "a process of another PID namespace"
      : `process ${pid}${program === undefined ? "" : ` (${program})`}`;
    findings.push(error(
      `${name}${
        isStopped ? ", which is stopped," : ""
      } holds the lock "${path}"`,
      `ADD and DEL of "${network}" wait for it until they fail`,
      isStopped ? { command: `kill -CONT ${pid}` } : pid === 0
        ? {
          advice: "find the process in its container, and stop it",
          look: "lslocks",
        }
        : {
          advice: "wait until it exits, or stop it if it hangs",
          look: `ps -o pid,ppid,etime,stat,args -p ${pid}`,
        },
    ));
  }
  return findings;
}

/** Checks of the state of plugins. */
export const STORAGE_CHECKS: readonly Check[] = [
  {
    code: "CNI0301",
    name: "disk-full",
    finds: "the file system of leases or of the attachment cache is full",
    effect: "ADD fails: it can write neither the lease nor the result.",
    cause: "A program filled the disk or used all inodes.",
    howToInspect: "`df -h`, `df -i` and `du -xh DIRECTORY | sort -h | tail`.",
    howToFix:
      "Remove other files, or enlarge the file system. `cni gc --orphans` lists leases of deleted containers.",
    run: findFullDisks,
  },
  {
    code: "CNI0302",
    name: "state-unwritable",
    finds: "a directory of leases or of the attachment cache cannot be written",
    effect: "ADD fails: it cannot write there.",
    cause:
      "A file is in its place, or the file system is read-only, often after a disk error.",
    howToInspect: "`ls -ld DIRECTORY`, `findmnt -T DIRECTORY` and `dmesg`.",
    howToFix:
      "Move the file away, or run fsck and mount the file system for writing.",
    run: findUnwritable,
  },
  {
    code: "CNI0303",
    name: "lock-held",
    finds: "a process holds the lock of a network's leases",
    effect: "ADD and DEL of the network wait, and eventually fail.",
    cause:
      "A plugin was stopped by a signal, or hangs in a file system, or another program locked the file.",
    howToInspect:
      "`lslocks`, and `ps -p PID` of the process that the finding names.",
    howToFix: "`kill -CONT PID` if it is stopped; otherwise kill it.",
    run: findHeldLocks,
  },
];
