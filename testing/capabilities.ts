/**
 * The capabilities of this machine, so that a test that cannot run here is
 * skipped by name and with a reason, and counted.
 *
 * @module
 */

import { join } from "@std/path/posix";

/** Where Debian's containernetworking-plugins puts the Go plugins. */
export const DEBIAN_PLUGIN_DIR = "/usr/lib/cni";

/** A test's name and whether it is skipped; the first argument of `Deno.test()`. */
export interface TestHeader {
  /** The test's name, with the reason if it is skipped. */
  readonly name: string;
  /** Whether it is skipped. */
  readonly ignore: boolean;
}

/** Reports whether a path resolves to an executable file. */
export function isExecutable(path: string): boolean {
  try {
    const { isFile, mode } = Deno.statSync(path);
    return isFile && ((mode ?? 0) & 0o111) !== 0;
  } catch {
    return false;
  }
}

/** Reports whether PATH resolves to a command. */
export function hasCommand(name: string): boolean {
  const directories = (Deno.env.get("PATH") ?? "").split(":");
  return directories.some((directory) => isExecutable(join(directory, name)));
}

function tryUnshare(...flags: readonly string[]): boolean {
  if (!hasCommand("unshare")) return false;
  const command = new Deno.Command("unshare", { args: [...flags, "true"] });
  return command.outputSync().success;
}

/**
 * What is missing to create network and mount namespaces; undefined if nothing
 * is. Root, or CAP_SYS_ADMIN, is not enough in a chroot: without a mount at `/`,
 * the mounts of a new namespace cannot be made private.
 */
export const missingForNetns: string | undefined = tryUnshare("-n", "-m")
  ? undefined
  : tryUnshare("-n")
  ? "needs a root directory that is a mount point"
  : "needs root";

/** Whether network and mount namespaces can be created. */
export const canUseNetns: boolean = missingForNetns === undefined;

/**
 * Finds a Go plugin of containernetworking to compare with, in the directory that
 * `CNI_GO_PLUGINS` names or else where Debian has them.
 *
 * @param name The plugin's type, as `host-local`
 */
export function goPlugin(name: string): string | undefined {
  const directory = Deno.env.get("CNI_GO_PLUGINS") || DEBIAN_PLUGIN_DIR;
  const path = join(directory, name);
  return isExecutable(path) ? path : undefined;
}

/** What a test needs: whether it is skipped, and why, as the end of its name. */
export interface Needs {
  /** Whether it is skipped. */
  readonly ignore: boolean;
  /** The reason; empty if it is not. */
  readonly suffix: string;
}

/**
 * Returns how to skip a test unless a condition holds: a suffix that gives its
 * name the reason, and `ignore`.
 *
 * @param reason What the test needs, as `needs nft`
 */
export function ignoreUnless(condition: boolean, reason: string): Needs {
  return {
    ignore: !condition,
    suffix: condition ? "" : ` (skipped: ${reason})`,
  };
}

/** Skips what works in network namespaces where none can be made. */
export const needsRoot: Needs = ignoreUnless(
  canUseNetns,
  missingForNetns ?? "",
);

/** Skips what needs user namespaces where none can be made, as in a chroot. */
export function needsUserNamespaces(): Needs {
  return ignoreUnless(
    tryUnshare("--user", "--map-root-user"),
    "needs user namespaces",
  );
}

/** Puts needs together: what is skipped for one of them is skipped. */
export function allOf(...needs: readonly Needs[]): Needs {
  return {
    ignore: needs.some(({ ignore }) => ignore),
    suffix: needs.map(({ suffix }) => suffix).join(""),
  };
}

/**
 * Returns the header of a test or step that works in network namespaces:
 * `Deno.test(requireRoot("..."), () => {...})`.
 *
 * @param others Its other needs
 */
export function requireRoot(
  name: string,
  ...others: readonly Needs[]
): TestHeader {
  const { ignore, suffix } = allOf(...others, needsRoot);
  return { name: name + suffix, ignore };
}

/** The body of a test. */
export type TestBody = (t: Deno.TestContext) => void | Promise<void>;

/** Registers a test that works in network namespaces, as {@linkcode requireRoot}. */
export function rootTest(name: string, body: TestBody): void;
/** Registers a test that works in network namespaces and needs more. */
export function rootTest(name: string, needs: Needs, body: TestBody): void;
export function rootTest(name: string, ...rest: (Needs | TestBody)[]): void {
  const needs = rest.slice(0, -1) as Needs[];
  Deno.test(requireRoot(name, ...needs), rest.at(-1) as TestBody);
}
