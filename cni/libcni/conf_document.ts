/**
 * The documents that configurations are, read key by key to the letter, with
 * errors in the words of the Go library.
 *
 * Source: containernetworking/cni libcni/conf.go `NetworkConfFromBytes`.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, describeError, ErrorCode, toCniError } from "../error.ts";
import { decode, type JsonObject, type JsonValue, parseJson } from "../json.ts";
import { compareVersions, CURRENT_VERSION } from "../version.ts";

/** What errors call a document. */
export type DocumentKind = "configuration" | "configuration list";

/** Builds the error for a document that is no configuration. */
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
 * Has what is thrown say which kind of document was parsed.
 *
 * @throws {CniError} With the code of what was thrown
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
 * Parses a document; null is an empty one.
 *
 * @throws {CniError} 6 If it is not JSON, 7 if it is no object
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
 * Reads a text.
 *
 * @returns Undefined if it is absent
 * @throws {CniError} 7 If it is anything else, null too
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
 * Reads a boolean, which may be written as a text in any case.
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
 * Reads what the list has as plugins.
 *
 * @returns Undefined if they are absent
 * @throws {CniError} 7 If they are no array, or an empty one
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
 * Chooses the newest version offered by `cniVersions` and `cniVersion` that we
 * speak.
 *
 * @returns `cniVersion`, unseen, if there are no `cniVersions` or none will do;
 *   "" if that is absent too
 * @throws {CniError} 7 If a version is no text, or none that can be compared
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
