/**
 * Names the parts of the source tree for the lint rules.
 *
 * @module
 */

const PROJECT_ROOT = new URL("../../", import.meta.url);

/** The directories and files that end up in the executables. */
export const PRODUCT: readonly string[] = [
  "net/",
  "ffi/",
  "base/",
  "cni/",
  "metadata/",
  "libcni/",
  "kube/",
  "ipam/",
  "plugins/",
  "node/",
  "daemon/",
  "cli/",
  "testing/conform/",
  "main.ts",
  "mod.ts",
  "libcni.ts",
  "nftables.ts",
  "traffic_control.ts",
];

/** The files that speak for the process: its arguments, streams and exit code. */
export const PROCESS_OWNERS = [
  "cni/call/answer.ts",
  "cni/skel.ts",
  "base/process/stdio.ts",
  "daemon/caller/ask_daemon.ts",
  "main.ts",
  "base/service/wrong_netns.ts",
  "ffi/own_netns.ts",
  "plugins/noop/main.ts",
  "base/command_line/",
  "cli/main.ts",
  "cli/trace/start.ts",
  "cli/trace/start_spans.ts",
];

/**
 * Returns the path of a file from the project's root, as `net/ip.ts`.
 *
 * @returns `undefined` for a file outside the project
 */
export function projectPath(filename: string): string | undefined {
  const root = decodeURIComponent(PROJECT_ROOT.pathname);
  return filename.startsWith(root) ? filename.slice(root.length) : undefined;
}

/**
 * Returns the path from the project's root of a relative import in `path`.
 *
 * @returns `undefined` where the import leaves the project
 */
export function resolveImport(
  path: string,
  specifier: string,
): string | undefined {
  const target = new URL(specifier, new URL(path, PROJECT_ROOT));
  return projectPath(decodeURIComponent(target.pathname));
}

/**
 * Returns the leading part of a path that a pattern names, as `plugins/ptp/`
 * of `plugins/ptp/plugin.ts` for a pattern of `plugins/`, `*` and `/`.
 *
 * @param pattern A directory if it ends in `/`, else a file; `*` is one path component
 * @returns `undefined` if the path is not in there
 */
export function matchedPart(path: string, pattern: string): string | undefined {
  const source = pattern.replaceAll(".", "\\.").replaceAll("*", "[^/]+");
  const end = pattern.endsWith("/") ? "" : "$";
  return new RegExp(`^${source}${end}`).exec(path)?.[0];
}

/** Reports whether `path` is in one of the places; see {@linkcode matchedPart}. */
export function isIn(path: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => matchedPart(path, pattern) !== undefined);
}

/**
 * Reports whether a file is a test, or serves only tests: it is in `tests`, is
 * called `testing.ts`, or is in a directory of that name.
 */
export function isTest(path: string): boolean {
  return /^tests\/|(^|\/)testing(\.ts$|\/)|_test\.ts$/.test(path);
}

/** Reports whether a file's code ends up in the executables. */
export function isProduct(path: string): boolean {
  return isIn(path, PRODUCT) && !isTest(path);
}

/**
 * Returns the path of the linted file, if it is product code.
 *
 * @returns `undefined` for tests, scripts and files outside the project
 */
export function productPath(
  context: Deno.lint.RuleContext,
): string | undefined {
  const path = projectPath(context.filename);
  return path !== undefined && isProduct(path) ? path : undefined;
}
