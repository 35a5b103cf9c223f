/**
 * The bodies of requests: objects and patches.
 *
 * @module
 */

import { isCustom, type KubeObject, type NewObject } from "./objects.ts";
import type { ApiCall } from "./operations.ts";
import {
  badRequest,
  patchRefused,
  unsupportedMediaType,
  unsupportedPatchType,
} from "./status.ts";

const JSON_TYPES = [
  "application/json",
  "application/yaml",
  "application/vnd.kubernetes.protobuf",
];
/** Those of custom resources. */
const PATCH_TYPES = [
  "application/json-patch+json",
  "application/merge-patch+json",
  "application/apply-patch+yaml",
];

/** Reads an object. An absent type is taken for JSON. */
export function readObject(
  { body, contentType, resource }: ApiCall,
): NewObject {
  if (!["", "application/json"].includes(contentType)) {
    throw unsupportedMediaType(JSON_TYPES);
  }
  const object = parseJson(
    body,
    (why) =>
      `the object provided is unrecognized (must be of type ${resource.kind}): ` +
      `couldn't get version/kind; json parse error: ${why} (${body})`,
  );
  const metadata = isObject(object["metadata"]) ? object["metadata"] : {};
  return { ...object, metadata: { name: "", ...metadata } };
}

/** Returns a function that applies the patch, or throws a StatusError. */
export function readPatch(
  { body, contentType, resource }: ApiCall,
): (stored: KubeObject) => unknown {
  const describe = (why: string): string => `error decoding patch: ${why}`;
  if (contentType === "application/merge-patch+json") {
    const patch = parseJson(body, describe);
    return (stored) => applyMergePatch(stored, patch);
  }
  if (contentType === "application/json-patch+json") {
    const patch = tryToParse(body);
    if (!isJsonPatch(patch)) throw badRequest(describe("not a JSON patch"));
    return (stored) => applyOrRefuse(stored, patch);
  }
  throw isCustom(resource)
    ? unsupportedMediaType(PATCH_TYPES)
    : unsupportedPatchType();
}

function applyOrRefuse(stored: KubeObject, patch: unknown): unknown {
  try {
    return applyJsonPatch(stored, patch);
  } catch (error) {
    throw error instanceof PatchError ? patchRefused() : error;
  }
}

/** @param describe Formats the refusal from Go's description of the fault */
function parseJson(
  text: string,
  describe: (why: string) => string,
): Record<string, unknown> {
  const value = tryToParse(text);
  if (isObject(value)) return value;
  const why = value === undefined
    ? "unexpected end of JSON input"
    : `json: cannot unmarshal ${
      typeNameOf(value)
    } into Go value of type map[string]interface {}`;
  throw badRequest(describe(why));
}

/** @returns Undefined if the text is not valid JSON */
export function tryToParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function typeNameOf(value: unknown): string {
  return Array.isArray(value) ? "array" : typeof value;
}

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

/** Returns a value as a patch leaves it. */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Record<string, unknown> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = applyMergePatch(result[key], value);
  }
  return result;
}

/** Reports whether a value is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
