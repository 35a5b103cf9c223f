/**
 * The actions of an executable, as strace sees them.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { Untried } from "./verdict.ts";
import type { Attachment, Scene } from "./scene.ts";
import { type Executable, PLUGIN_PATH } from "./call.ts";

/** System calls that change something that outlives the process, or may. */
const EFFECTS = [
  ...["sendto", "sendmsg", "connect", "ioctl", "setns", "execve", "mount"],
  ...["open", "openat", "creat", "write", "pwrite64", "ftruncate", "umount2"],
  ...["rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir"],
  ...["mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat"],
];

/** A system call of a trace. */
export interface SystemCall {
  readonly name: string;
  /** The how manyeth of that name it is in its thread, from 1. */
  readonly at: number;
  /** Its arguments and result, as strace prints them. */
  readonly text: string;
}

/** Reports whether a path leads to an executable file. */
export function isExecutable(path: string): boolean {
  const info = ifPossible(() => Deno.statSync(path));
  return info?.isFile === true && ((info.mode ?? 0) & 0o111) !== 0;
}

/** Returns the path of a program that plugins would find. */
export function findProgram(name: string): string | undefined {
  return PLUGIN_PATH.split(":").map((directory) => `${directory}/${name}`)
    .find(isExecutable);
}

/** Calls a plugin and lists what it does. */
export async function trace(
  scene: Scene,
  way: Executable,
  command: string,
  attachment: Attachment,
): Promise<{ readonly calls: SystemCall[]; readonly exit: string }> {
  if (findProgram("strace") === undefined) throw new Untried("needs strace");
  const { place } = scene;
  const file = `${place.directory}/calls/trace`;
  place.inside(() =>
    Deno.mkdirSync(`${place.directory}/calls`, { recursive: true })
  );
  const names = EFFECTS.map((name) => `?${name}`).join(",");
  const tracer = ["strace", "-f", "-qq", "-y", "-s", "200", "-o", file];
  const request = scene.request(command, attachment);
  const reply = await scene.send(
    request,
    () => way.callBy([...tracer, "-e", `trace=${names}`], place, request),
  );
  if (reply.exit === "0" && reply.json !== undefined) {
    attachment.prevResult = reply.json;
  }
  const text = place.inside(() => Deno.readTextFileSync(file));
  return { calls: parseTrace(text), exit: reply.exit };
}

/** Reads strace's output. */
export function parseTrace(text: string): SystemCall[] {
  const counts = new Map<string, number>();
  return text.split("\n").flatMap((line) => {
    const [, thread, name, rest = ""] = /^(\d+) +(\w+)\((.*)/.exec(line) ?? [];
    if (thread === undefined || name === undefined) return [];
    const at = (counts.get(`${thread} ${name}`) ?? 0) + 1;
    counts.set(`${thread} ${name}`, at);
    return [{ name, at, text: rest }];
  });
}

/** Reports whether a call may have changed something. */
export function hasEffect({ name, text }: SystemCall): boolean {
  if (name === "openat" || name === "open") {
    return /O_WRONLY|O_RDWR|O_CREAT/.test(text) && !text.includes("/dev/null");
  }
  if (name === "write" || name === "ioctl" || name === "pwrite64") {
    return !/^\d+<(pipe|socket|anon_inode|UNIX|\/dev\/null)/.test(text);
  }
  return true;
}
