/**
 * Stands in for the part of `jsr:@std/path/posix` that the code uses, where
 * jsr.io is out of reach. Works on the text alone, except that `resolve` may
 * ask for the working directory.
 *
 * Source: https://jsr.io/@std/path; POSIX.1-2017 `basename`, `dirname`.
 *
 * @module
 */

/** Reports whether a path begins at the root. */
export function isAbsolute(path: string): boolean {
  return path.startsWith("/");
}

/**
 * Removes `.`, `..` and doubled slashes from a path; a slash at the end stays.
 *
 * `..` above the root is dropped, and above a relative path it is kept; an
 * empty path becomes `.`. Symbolic links are not looked at.
 */
export function normalize(path: string): string {
  const root = isAbsolute(path) ? "/" : "";
  const kept: string[] = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") kept.push(part);
    else if (kept.length > 0 && kept.at(-1) !== "..") kept.pop();
    else if (root === "") kept.push(part);
  }
  const text = kept.join("/");
  if (text === "") return root || (path.endsWith("/") ? "./" : ".");
  return root + text + (path.endsWith("/") ? "/" : "");
}

/** Joins paths with slashes and normalizes the result; empty ones are skipped. */
export function join(...paths: string[]): string {
  return normalize(paths.filter((path) => path !== "").join("/"));
}

/**
 * Joins paths from the last absolute one on into a normalized absolute path
 * without a slash at the end.
 *
 * Relative paths alone are taken from the working directory.
 */
export function resolve(...pathSegments: string[]): string {
  let resolved = "";
  for (const path of pathSegments) {
    resolved = isAbsolute(path) ? path : `${resolved}/${path}`;
  }
  const start = pathSegments.some(isAbsolute) ? "" : `${Deno.cwd()}/`;
  return withoutTrailingSlashes(normalize(start + resolved));
}

/** Returns the path without its last part: `.` if it has one part only. */
export function dirname(path: string): string {
  const trimmed = withoutTrailingSlashes(path);
  const slash = trimmed.lastIndexOf("/");
  if (slash < 0) return ".";
  return withoutTrailingSlashes(trimmed.slice(0, slash)) || "/";
}

/**
 * Returns the last part of a path.
 *
 * @param suffix Removed from the end of that part, unless it is the whole part
 */
export function basename(path: string, suffix = ""): string {
  const trimmed = withoutTrailingSlashes(path);
  const name = trimmed === "/"
    ? "/"
    : trimmed.slice(trimmed.lastIndexOf("/") + 1);
  const hasSuffix = name.endsWith(suffix) && name !== suffix;
  return hasSuffix ? name.slice(0, name.length - suffix.length) : name;
}

/** Returns the last part from its last dot on; a dot at its very start does not count. */
export function extname(path: string): string {
  const name = basename(path);
  const dot = name.lastIndexOf(".");
  return dot <= 0 || name === ".." ? "" : name.slice(dot);
}

/** Keeps the one slash of the root. */
function withoutTrailingSlashes(path: string): string {
  let end = path.length;
  while (end > 1 && path[end - 1] === "/") end--;
  return path.slice(0, end);
}
