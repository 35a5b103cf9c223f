/**
 * What the processes of a throw-away node hold: themselves, locks and
 * namespaces.
 *
 * @module
 */

import { readLocks } from "../../cni/files/lock_holders.ts";
import type { NetNs } from "../../ffi/netns.ts";

/** Held resources; equal before and after a run that leaves nothing. */
export interface Held {
  /** Names of the processes in the network namespaces, but the test's own. */
  readonly processes: readonly string[];
  /** Files in the directory on which somebody holds a lock. */
  readonly locks: readonly string[];
  /** Network namespaces of the daemon's threads, and of its mounts. */
  readonly namespaces: readonly string[];
}

/**
 * Looks at a node.
 *
 * @param directory Where the node's files are
 * @param pid The daemon's
 */
export function whatIsHeld(
  namespaces: readonly NetNs[],
  directory: string,
  pid: number,
): Held {
  const inside = new Set(namespaces.map(({ path }) => {
    const { dev, ino } = Deno.statSync(path);
    return `${dev}:${ino}`;
  }));
  return {
    processes: listNames("/proc").filter((name) => /^\d+$/.test(name))
      .filter((name) => Number(name) !== Deno.pid)
      .flatMap((name) =>
        tryTo(() => {
          const { dev, ino } = Deno.statSync(`/proc/${name}/ns/net`);
          if (!inside.has(`${dev}:${ino}`)) return [];
          return [Deno.readTextFileSync(`/proc/${name}/comm`).trim()];
        })
      ).sort(),
    locks: listLocked(directory),
    namespaces: [
      ...new Set([
        ...listNames(`/proc/${pid}/task`).flatMap((task) =>
          tryTo(() => [Deno.readLinkSync(`/proc/${pid}/task/${task}/ns/net`)])
        ),
        ...tryTo(() =>
          Deno.readTextFileSync(`/proc/${pid}/mountinfo`).split("\n")
            .filter((line) => line.includes(directory))
        ),
      ]),
    ].sort(),
  };
}

/**
 * Lists what the descriptors of a process are, without numbers: such as
 * `/dev/null`, `unix socket` or `netlink socket of protocol 12`.
 */
export function listDescriptors(pid: number): string[] {
  const kinds = describeSockets(pid);
  return listNames(`/proc/${pid}/fd`).flatMap((name) =>
    tryTo(() => {
      const target = Deno.readLinkSync(`/proc/${pid}/fd/${name}`);
      return [kinds.get(target) ?? target.replace(/\d+/g, "N")];
    })
  ).sort();
}

/** The sockets of a process's network namespace, by what their links say. */
function describeSockets(pid: number): Map<string, string> {
  const rows = (file: string): string[][] =>
    Deno.readTextFileSync(`/proc/${pid}/net/${file}`).trim().split("\n")
      .slice(1).map((row) => row.trim().split(/\s+/));
  return new Map([
    ...rows("netlink").map(([, protocol, ...others]) =>
      [
        `socket:[${others.at(-1)}]`,
        `netlink socket of protocol ${protocol}`,
      ] as const
    ),
    ...rows("unix").map(([, , , , , , inode]) =>
      [`socket:[${inode}]`, "unix socket"] as const
    ),
  ]);
}

/** Lists the files below a directory that /proc/locks has. */
function listLocked(directory: string): string[] {
  const locked = new Set(
    readLocks().split("\n")
      .map((line) => Number(/:(\d+) \d+ (?:\d+|EOF)$/.exec(line)?.[1])),
  );
  const walk = (path: string): string[] =>
    tryTo(() =>
      [...Deno.readDirSync(path)].flatMap(({ name, isDirectory, isFile }) => {
        const inner = `${path}/${name}`;
        if (isDirectory) return walk(inner);
        const { ino } = Deno.lstatSync(inner);
        return isFile && locked.has(ino ?? 0) ? [inner] : [];
      })
    );
  return walk(directory).sort();
}

function listNames(directory: string): string[] {
  return tryTo(() => [...Deno.readDirSync(directory)].map(({ name }) => name));
}

/** What goes away while it is looked at does not count. */
function tryTo<Item>(look: () => Item[]): Item[] {
  try {
    return look();
  } catch {
    return [];
  }
}
