/**
 * What an executable needs of a node: programs, capabilities, sysctls, files.
 *
 * @module
 */

import { Broken, Untried } from "./verdict.ts";
import type { Scene } from "./scene.ts";
import { differences } from "./state.ts";
import { findProgram, type SystemCall, trace } from "./trace.ts";
import type { Executable } from "./call.ts";

/** The needs of an executable. */
export interface Needs {
  /** Programs that it runs, with their paths. */
  readonly programs: readonly string[];
  /** Capabilities without which ADD fails; null if that cannot be told. */
  readonly capabilities: readonly string[] | null;
  /** Sysctls that it writes. */
  readonly sysctls: readonly string[];
  /** Files that it reads, apart from libraries, `/proc` and `/sys`. */
  readonly reads: readonly string[];
  /** Files that it writes or creates. */
  readonly writes: readonly string[];
  /** Sockets that it connects to. */
  readonly sockets: readonly string[];
  /** What the last DEL leaves on the node, for the next container. */
  readonly stays: readonly string[];
}

/** Capabilities that plugins may need. */
const CAPABILITIES = [
  ...["net_admin", "net_raw", "net_bind_service", "sys_admin", "sys_chroot"],
  ...["sys_ptrace", "sys_module", "sys_resource", "dac_override", "chown"],
  ...["dac_read_search", "fowner", "mknod", "kill", "bpf"],
];

/** Finds out what an executable needs; null if it cannot be told. */
export async function findNeeds(
  create: () => Scene,
  way: Executable,
  isThorough: boolean,
): Promise<Needs | null> {
  const scene = create();
  try {
    await scene.prepare();
    const cold = scene.state();
    const one = await scene.container();
    const add = await trace(scene, way, "ADD", one);
    const del = await trace(scene, way, "DEL", one);
    await scene.remove(one);
    const stays = differences(cold, scene.state())
      .filter((line) => line.startsWith("left: "))
      .map((line) => line.slice("left: ".length));
    const calls = [...add.calls, ...del.calls];
    const capabilities = await findCapabilities(create, way, isThorough);
    return { ...summarize(calls, way.executable), capabilities, stays };
  } catch (error) {
    if (error instanceof Untried || error instanceof Broken) return null;
    throw error;
  } finally {
    scene.place[Symbol.dispose]();
  }
}

/** Sorts what a trace has. */
export function summarize(
  calls: readonly SystemCall[],
  executable: string,
): Omit<Needs, "capabilities" | "stays"> {
  const done = calls.filter(({ text }) => !/ = -1 E/.test(text));
  const paths = (wanted: (call: SystemCall) => boolean): string[] => {
    const found = done.filter(wanted).flatMap(({ text }) => {
      const [, path] = /"((?:[^"\\]|\\.)*)"/.exec(text) ?? [];
      return path?.startsWith("/") ? [path] : [];
    });
    return [...new Set(found)].filter((path) =>
      !path.includes("/conform/calls/")
    ).sort();
  };
  const opens = ({ name }: SystemCall): boolean =>
    name === "openat" || name === "open";
  const isWritten = ({ text }: SystemCall): boolean =>
    /O_WRONLY|O_RDWR|O_CREAT/.test(text);
  const plain = (path: string): boolean => !/^\/(proc|sys|dev)\//.test(path);
  return {
    programs: paths(({ name }) => name === "execve")
      .filter((path) => path !== executable),
    sysctls: paths((call) => opens(call) && isWritten(call))
      .filter((path) => path.startsWith("/proc/sys/"))
      .map((path) => path.slice("/proc/sys/".length)),
    reads: paths((call) =>
      opens(call) && !isWritten(call) && !call.text.includes("O_DIRECTORY")
    ).filter(plain).filter((path) =>
      !/\.so(\.|$)|ld\.so|\/locale/.test(path) && path !== executable
    ),
    writes: paths((call) =>
      opens(call) && isWritten(call) ||
      /^(mkdir|rename|creat|link|symlink)/.test(call.name)
    ).filter(plain),
    sockets: paths(({ name }) => name === "connect"),
  };
}

async function findCapabilities(
  create: () => Scene,
  way: Executable,
  isThorough: boolean,
): Promise<readonly string[] | null> {
  const setpriv = findProgram("setpriv");
  if (setpriv === undefined) return null;
  const needed: string[] = [];
  const some = isThorough ? CAPABILITIES : CAPABILITIES.slice(0, 9);
  for (const name of some) {
    const scene = create();
    try {
      await scene.prepare();
      const one = await scene.container();
      const without = [setpriv, `--bounding-set=-${name}`];
      const { exit } = await way.callBy(
        [...without, `--inh-caps=-${name}`],
        scene.place,
        scene.request("ADD", one),
      );
      if (exit !== "0") needed.push(`CAP_${name.toUpperCase()}`);
    } finally {
      scene.place[Symbol.dispose]();
    }
  }
  return needed;
}
