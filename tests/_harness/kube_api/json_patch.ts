/**
 * JSON patches, as an API server applies them.
 *
 * Source: RFC 6902; github.com/evanphx/json-patch, by which a test for null
 * passes on a missing member
 *
 * @module
 */

import { isObject } from "./merge_patch.ts";

/** An operation that cannot be carried out. */
export class PatchError extends Error {}

/** An operation of a patch. */
interface Operation {
  readonly op: string;
  readonly path: string;
  readonly value?: unknown;
}

/**
 * Returns a value as a patch leaves it.
 *
 * @throws {PatchError} If a test fails, or a path does not exist
 */
export function applyJsonPatch(target: unknown, patch: unknown): unknown {
  const result = structuredClone(target);
  for (const operation of patch as Operation[]) apply(result, operation);
  return result;
}

/** Reports whether a value is a patch of operations that are understood. */
export function isJsonPatch(value: unknown): boolean {
  return Array.isArray(value) &&
    value.every((operation) =>
      isObject(operation) && typeof operation["path"] === "string" &&
      ["test", "add", "replace", "remove"].includes(String(operation["op"]))
    );
}

function apply(root: unknown, { op, path, value }: Operation): void {
  const steps = path.split("/").slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = steps.pop() ?? "";
  let parent: unknown = root;
  for (const step of steps) {
    parent = Array.isArray(parent)
      ? parent[Number(step)]
      : isObject(parent)
      ? parent[step]
      : undefined;
  }
  if (Array.isArray(parent) && op === "add" && last === "-") {
    parent.push(structuredClone(value));
    return;
  }
  if (Array.isArray(parent) && op === "remove" && Number(last) in parent) {
    parent.splice(Number(last), 1);
    return;
  }
  if (!isObject(parent)) throw new PatchError(`missing path: "${path}"`);
  if (op === "test") {
    if (canonical(parent[last] ?? null) === canonical(value ?? null)) return;
    throw new PatchError(`testing value ${path} failed`);
  }
  if (op !== "add" && !(last in parent)) {
    throw new PatchError(`missing key: "${path}"`);
  }
  if (op === "remove") delete parent[last];
  else parent[last] = structuredClone(value);
}

/** Formats a value, whatever the order of its keys. */
export function canonical(value: unknown): string {
  return JSON.stringify(
    value,
    (_key, part) =>
      isObject(part) ? Object.fromEntries(Object.entries(part).sort()) : part,
  );
}
