/**
 * The bodies of requests: objects and patches.
 *
 * @module
 */

import { applyJsonPatch, isJsonPatch, PatchError } from "./json_patch.ts";
import { applyMergePatch, isObject } from "./merge_patch.ts";
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

/** @returns Undefined if it is not one */
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
