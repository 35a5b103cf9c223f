/**
 * Where something was measured: figures mean nothing without.
 *
 * @module
 */

import type { Subject } from "./subject.ts";

/** Facts about a machine. */
export interface Machine {
  /** When, UTC. */
  readonly date: string;
  /** The kernel's version. */
  readonly kernel: string;
  readonly architecture: string;
  readonly cpu: string;
  readonly cpus: number;
  readonly memoryMib: number;
  /** Load average of the last minute, when it began. */
  readonly load: number;
  readonly deno: string;
  /** The executables' versions by contestant. */
  readonly versions: Readonly<Record<string, string>>;
}

/** Describes this machine and the measured executables. */
export function describeMachine(subjects: readonly Subject[]): Machine {
  return {
    date: new Date().toISOString().slice(0, 16) + "Z",
    kernel: Deno.osRelease(),
    architecture: Deno.build.arch,
    cpu: findCpuModel(Deno.readTextFileSync("/proc/cpuinfo")),
    cpus: navigator.hardwareConcurrency,
    memoryMib: Math.round(Deno.systemMemoryInfo().total / 2 ** 20),
    load: Deno.loadavg()[0] ?? 0,
    deno: Deno.version.deno,
    versions: Object.fromEntries(
      subjects.map(({ name, bin }) => [name, findVersion(bin)]),
    ),
  };
}

/**
 * Finds the processor's name; arm64 has none there, but numbers.
 *
 * @param text Of /proc/cpuinfo
 */
export function findCpuModel(text: string): string {
  const find = (key: string): string | undefined =>
    new RegExp(`^${key}\\s*: (.*)$`, "m").exec(text)?.[1];
  const implementer = find("CPU implementer"), part = find("CPU part");
  return find("model name") ??
    (part ? `implementer ${implementer}, part ${part}` : "unknown");
}

/** Asks an executable for its version, and dpkg if that says it does not know. */
function findVersion(bin: string): string {
  const file = `${bin}/host-local`;
  const said = run(file);
  const [, version = "unknown"] = / (?:version )?(\S+)$/m.exec(said) ?? [];
  if (version !== "unknown") return version;
  const [owner] = run("dpkg", "-S", file).split(":");
  const format = "--showformat=${Package} ${Version}";
  return owner ? run("dpkg-query", "--show", format, owner) : version;
}

/** Returns the output of a program, stdout first; "" if it is not installed. */
function run(command: string, ...args: string[]): string {
  try {
    const { stdout, stderr, success } = new Deno.Command(command, {
      args,
      clearEnv: true,
      env: { PATH: Deno.env.get("PATH") ?? "" },
      stdin: "null",
    }).outputSync();
    const decoder = new TextDecoder();
    return success ? decoder.decode(stdout) + decoder.decode(stderr) : "";
  } catch {
    return "";
  }
}
