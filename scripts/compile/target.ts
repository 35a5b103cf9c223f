/**
 * The machines that executables can be made for.
 *
 * @module
 */

/** What `deno compile --target` calls a machine, and what npm calls its deno. */
interface TargetFacts {
  /** As `Deno.build.arch` has it. */
  readonly arch: typeof Deno.build.arch;
  readonly npmPackage: string;
}

const targets = {
  "x86_64-unknown-linux-gnu": {
    arch: "x86_64",
    npmPackage: "@deno/linux-x64-glibc",
  },
  "aarch64-unknown-linux-gnu": {
    arch: "aarch64",
    npmPackage: "@deno/linux-arm64-glibc",
  },
} as const satisfies Record<string, TargetFacts>;

/** A machine that executables can be made for. */
export type Target = keyof typeof targets;

/** All targets. */
export const TARGETS: readonly Target[] = Object.keys(targets) as Target[];

/**
 * Reads the name of a target.
 *
 * @throws {Error} If the target is unknown; the message lists the known ones
 */
export function parseTarget(name: string): Target {
  const target = TARGETS.find((target) => target === name);
  if (target !== undefined) return target;
  throw new Error(
    `Cannot compile for "${name}": the targets are ${TARGETS.join(" and ")}`,
  );
}

/**
 * Returns the target that is the running machine.
 *
 * @throws {Error} If it is not a target
 */
export function getOwnTarget(): Target {
  const { os, arch, target } = Deno.build;
  const own = TARGETS.find((target) => targets[target].arch === arch);
  if (os === "linux" && own !== undefined) return own;
  return parseTarget(target);
}

/** Returns what the kernel and Deno call a target's machine. */
export function machineOf(
  target: Target,
): (typeof targets)[Target]["arch"] {
  return targets[target].arch;
}

/** Returns the npm package that holds deno for a target. */
export function npmPackageOf(target: Target): string {
  return targets[target].npmPackage;
}
