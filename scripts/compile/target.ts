/**
 * The machines that executables can be made for.
 *
 * @module
 */

const targets = {
  "x86_64-unknown-linux-gnu": {
    /** As Deno and the kernel call the machine. */
    arch: "x86_64",
    /** As Debian, Kubernetes and the Go plugins call it. */
    debian: "amd64",
    /** The npm package that has deno for it. */
    npmPackage: "@deno/linux-x64-glibc",
  },
  "aarch64-unknown-linux-gnu": {
    arch: "aarch64",
    debian: "arm64",
    npmPackage: "@deno/linux-arm64-glibc",
  },
} as const;

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

/** Returns the names of a target's machine. */
export function namesOf(target: Target): (typeof targets)[Target] {
  return targets[target];
}
