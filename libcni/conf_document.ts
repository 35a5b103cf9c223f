/**
 * Reads configuration documents key by key, matching keys exactly, with the Go
 * library's error messages.
 *
 * Source: containernetworking/cni libcni/conf.go `NetworkConfFromBytes`.
 *
 * @module
 */

import * as z from "zod/mini";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../base/error.ts";
import {
  decode,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../base/json/json.ts";
import { compareVersions, CURRENT_VERSION } from "../cni/version.ts";

/** The name of a document in errors. */
export type DocumentKind = "configuration" | "configuration list";

/** Builds the error for a malformed document. */
export function malformed(
  kind: DocumentKind,
  problem: string,
  { code = ErrorCode.InvalidNetworkConfig, details = "" }: {
    readonly code?: number;
    readonly details?: string;
  } = {},
): CniError {
  return new CniError(code, `error parsing ${kind}: ${problem}`, { details });
}

/**
 * Runs a parser and adds the kind of document to its error.
 *
 * @throws {CniError} With the code of the parser's error
 */
export function decodeAs<T>(kind: DocumentKind, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const { code } = toCniError(error);
    throw malformed(kind, describeError(error), { code });
  }
}

/**
 * Parses a document; null counts as an empty object.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is not an object
 */
export function parseDocument(
  kind: DocumentKind,
  bytes: Uint8Array,
): JsonObject {
  return decodeAs(kind, () => {
    const document = parseJson(bytes, "it") ?? {};
    decode(z.looseObject({}), document, "it");
    return document as JsonObject;
  });
}

/**
 * Reads a string.
 *
 * @returns Undefined if it is absent
 * @throws {CniError} 7 If it is anything else, including null
 */
export function readText(
  document: JsonObject,
  key: string,
): string | undefined {
  const value = document[key];
  if (value === undefined || typeof value === "string") return value;
  throw malformedList(`invalid ${key} type ${nameType(value)}`);
}

/**
 * Reads a boolean, which may also be a string in any case.
 *
 * @returns False if it is absent
 * @throws {CniError} 7 If it is anything else
 */
export function readBool(document: JsonObject, key: string): boolean {
  const value = document[key];
  if (value === undefined) return false;
  if (typeof value === "boolean") return value;
  if (typeof value !== "string") {
    throw malformedList(`invalid type ${nameType(value)} for ${key}`);
  }
  const word = value.toLowerCase();
  if (word === "true" || word === "false") return word === "true";
  throw malformedList(`invalid value ${JSON.stringify(word)} for ${key}`);
}

/**
 * Reads the `plugins` of a list.
 *
 * @returns Undefined if absent
 * @throws {CniError} 7 If they are not an array, or it is empty
 */
export function readPlugins(document: JsonObject): JsonValue[] | undefined {
  const plugins = document["plugins"];
  if (plugins === undefined) return undefined;
  if (!Array.isArray(plugins)) {
    throw malformedList(`invalid 'plugins' type ${nameType(plugins)}`);
  }
  if (plugins.length === 0) throw malformedList("no plugins in list");
  return plugins;
}

/**
 * Chooses the newest supported version from `cniVersions` and `cniVersion`.
 *
 * @returns `cniVersion` unchecked if `cniVersions` is absent or has no
 *   supported version; "" if that is absent too
 * @throws {CniError} 7 If a version is not a string, or cannot be compared
 */
export function readVersion(document: JsonObject): string {
  const cniVersion = readText(document, "cniVersion") ?? "";
  const offers = readVersions(document);
  if (offers === undefined) return cniVersion;
  const spoken = offers.filter((version, index) =>
    isSpoken(version, `invalid cniVersions entry ${version} at index ${index}`)
  );
  const problem = `invalid cniVersion ${cniVersion}`;
  if (cniVersion !== "" && isSpoken(cniVersion, problem)) {
    spoken.push(cniVersion);
  }
  return spoken.sort(compareVersions).at(-1) ?? cniVersion;
}

function readVersions(document: JsonObject): string[] | undefined {
  const versions = document["cniVersions"];
  if (versions === undefined) return undefined;
  if (!Array.isArray(versions)) {
    throw malformedList(`invalid type for cniVersions: ${nameType(versions)}`);
  }
  return versions.map((version, index) => {
    if (typeof version === "string") return version;
    throw malformedList(
      `invalid type for cniVersions index ${index}: ${nameType(version)}`,
    );
  });
}

function isSpoken(version: string, problem: string): boolean {
  try {
    return compareVersions(version, CURRENT_VERSION) <= 0;
  } catch (error) {
    throw malformedList(`${problem}: ${describeError(error)}`);
  }
}

function malformedList(problem: string): CniError {
  return malformed("configuration list", problem);
}

function nameType(value: JsonValue): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
