/**
 * Replaces the tool by another program inside a network namespace, as `ip netns
 * exec` does. The program keeps the terminal, receives the signals, and its
 * exit code is the result.
 *
 * Source: iproute2 lib/namespace.c `netns_switch`; ip-netns(8).
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { describeError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import * as libc from "../../ffi/libc.ts";
import { NetNs } from "../../ffi/netns.ts";
import { ExitError } from "../../base/command_line/failure.ts";
import { isErrno } from "../../ffi/errno.ts";

/** Source: include/uapi/linux/sched.h. */
const CLONE_NEWNS = 0x20000, CLONE_NEWNET = 0x40000000;
/** Source: include/uapi/linux/mount.h. */
const MS_RDONLY = 1, MS_BIND = 0x1000, MS_REC = 0x4000, MS_SLAVE = 1 << 19;
const MNT_DETACH = 2;

/** The program and its namespace. */
export interface NetnsExec {
  /** The namespace's path. */
  readonly path: string;
  /** The name for files in /etc/netns; "" if it has none. */
  readonly name: string;
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Receives failures that are not fatal. */
  readonly warn: (text: string) => void;
}

/**
 * Replaces the tool by another program in a namespace, with a /sys that shows
 * the namespace's links, and with the files of /etc/netns/NAME over the files
 * in /etc.
 *
 * After a failure this thread may be in that namespace, so the process must
 * exit.
 *
 * @throws {Error} If the namespace cannot be entered
 * @throws {ExitError} If the program cannot be run
 */
export function execInNetns({ path, name, command, warn }: NetnsExec): never {
  const [file = ""] = command;
  const begin = {
    file,
    argv: command,
    env: readOwnEnvironment(),
    openFiles: findParentLimit(),
  };
  enter(path);
  isolateMounts();
  bindConfigFiles(name, warn);
  try {
    return libc.execvpe(begin);
  } catch (error) {
    throw explainExec(file, error);
  }
}

/** Exit codes for programs that cannot be run, as in shells. */
const NOT_EXECUTABLE = 126, NOT_FOUND = 127;

function explainExec(file: string, cause: unknown): ExitError {
  const isMissing = isErrno(cause, "ENOENT");
  const code = isMissing ? NOT_FOUND : NOT_EXECUTABLE;
  return isMissing && !file.includes("/")
    ? new ExitError(`Cannot run "${file}": not found in PATH`, code)
    : new ExitError(`Cannot run "${file}"`, code, { cause });
}

function enter(path: string): void {
  try {
    using netns = NetNs.open(path);
    libc.setns(netns.fd, CLONE_NEWNET);
  } catch (error) {
    throw new Error(`Cannot enter network namespace "${path}"`, {
      cause: error,
    });
  }
}

/** Gives this thread its own mounts, with a /sys of the namespace. */
function isolateMounts(): void {
  try {
    libc.unshare(CLONE_NEWNS);
    libc.mount("", "/", MS_SLAVE | MS_REC);
    libc.mountNew("sysfs", "/sys", uncoverSys());
  } catch (error) {
    throw new Error("Cannot mount the namespace's own /sys", { cause: error });
  }
}

/** Unmounts /sys. If that fails, the new /sys must be read-only like the old /sys. */
function uncoverSys(): number {
  try {
    libc.umount("/sys", MNT_DETACH);
    return 0;
  } catch {
    const mounts = Deno.readTextFileSync("/proc/thread-self/mounts");
    return /^\S+ \/sys \S+ ro\b/m.test(mounts) ? MS_RDONLY : 0;
  }
}

function bindConfigFiles(name: string, warn: (text: string) => void): void {
  const directory = `/etc/netns/${name}`;
  for (const file of name === "" ? [] : listNames(directory)) {
    try {
      libc.mount(`${directory}/${file}`, `/etc/${file}`, MS_BIND);
    } catch (error) {
      const why = describeError(error);
      warn(`Cannot mount "${directory}/${file}" on "/etc/${file}": ${why}`);
    }
  }
}

function listNames(directory: string): string[] {
  const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries.map(({ name }) => name);
}

/** Reads the environment that this process was started with, without later changes. */
function readOwnEnvironment(): Bytes[] {
  const bytes = Deno.readFileSync("/proc/self/environ");
  const variables: Bytes[] = [];
  for (let start = 0; start < bytes.length;) {
    const end = bytes.indexOf(0, start) + 1 || bytes.length;
    variables.push(bytes.slice(start, end));
    start = end;
  }
  return variables;
}

/**
 * Finds the file limit that this process was started with, which its parent may
 * share. Deno raises the limit to the maximum, which slows down programs that
 * close every possible file.
 */
function findParentLimit(): libc.OpenFileLimit | undefined {
  try {
    const limits = Deno.readTextFileSync(`/proc/${Deno.ppid}/limits`);
    const [, soft, hard] = /^Max open files +(\d+) +(\d+)/m.exec(limits) ?? [];
    return soft === undefined || hard === undefined
      ? undefined
      : { soft: BigInt(soft), hard: BigInt(hard) };
  } catch {
    return undefined;
  }
}
