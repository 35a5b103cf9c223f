/**
 * The remaining processes of a test.
 *
 * @module
 */

import { eventually } from "./eventually.ts";

/**
 * Lists the processes of a group, by the process ID of its leader. Those that
 * are dead and wait to be noticed do not count.
 */
export function listGroup(leader: number): number[] {
  return [...Deno.readDirSync("/proc")]
    .map(({ name }) => readStat(name))
    .filter((stat) => stat?.group === leader && stat.state !== "Z")
    .map((stat) => stat?.pid ?? 0);
}

/**
 * Reports whether a process has exited, even as a zombie: in a container whose
 * first process is not an init, orphaned processes are never reaped.
 */
export function hasEnded(pid: number): boolean {
  const stat = readStat(String(pid));
  return stat === undefined || stat.state === "Z";
}

/** Source: proc_pid_stat(5). The name, in brackets, may hold anything. */
function readStat(
  name: string,
): { pid: number; state: string; group: number } | undefined {
  try {
    const text = Deno.readTextFileSync(`/proc/${Number(name)}/stat`);
    const [state = "", , group] = text.slice(text.lastIndexOf(")") + 2)
      .split(" ");
    return { pid: Number(name), state, group: Number(group) };
  } catch {
    return undefined; // It is no process, or has ended.
  }
}

/** Waits until a group of processes is dead. */
export async function waitUntilDead(leader: number): Promise<void> {
  const isDead = (): boolean => listGroup(leader).length === 0;
  await eventually(`the process group ${leader} died`, isDead);
}

/** Kills a process if it is still there. */
export function killIfAlive(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
