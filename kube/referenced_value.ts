/**
 * Values that a configuration names by a file, or holds itself as base64.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../cni/error.ts";

/** Where a configuration is from. */
export interface Origin {
  /** As error messages shall call it, such as `kubeconfig "/x"`. */
  readonly what: string;
  /** What relative paths in it begin at. */
  readonly folder: string;
}

/**
 * Makes the error of a configuration that is of no use.
 *
 * @param why What is wrong, with the key and without its value
 */
export function unusable(
  { what }: Origin,
  why: string,
  cause?: unknown,
): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot use ${what}: ${why}`,
    cause === undefined ? {} : { cause },
  );
}

/**
 * Reads a file that a key names.
 *
 * @throws {CniError} 7 if it cannot be read, or is empty
 */
export function readNamedFile(
  origin: Origin,
  key: string,
  file: string,
): string {
  const path = resolveIn(origin, file);
  let text: string;
  try {
    text = Deno.readTextFileSync(path).trim();
  } catch (error) {
    throw unusable(origin, `${key}: "${path}" cannot be read`, error);
  }
  if (text === "") throw unusable(origin, `${key}: "${path}" is empty`);
  return text;
}

/** Returns the path that a configuration means. */
export function resolveIn({ folder }: Origin, file: string): string {
  return file.startsWith("/") ? file : join(folder, file);
}

/** A value of which a configuration may have both forms; the data count. */
export interface PemValue {
  /** The key of the file; that of the data has `-data` after it. */
  readonly key: string;
  readonly file?: string | undefined;
  /** Base64. */
  readonly data?: string | undefined;
}

/**
 * Reads a PEM.
 *
 * @param label What it must have at least one of, such as `CERTIFICATE`; what ends so is one
 * @returns Undefined if the configuration has none
 * @throws {CniError} 7 if it cannot be read, or has no such thing
 */
export function readPem(
  origin: Origin,
  { key, file, data }: PemValue,
  label: string,
): string | undefined {
  if (!data && !file) return undefined;
  const [name, pem] = data
    ? [`${key}-data`, decodeBase64(origin, `${key}-data`, data)]
    : [key, readNamedFile(origin, key, file ?? "")];
  if (hasPem(pem, label)) return pem;
  throw unusable(origin, `${name}: it has no PEM block of a ${label}`);
}

/** Says whether a text has a PEM block whose label ends so. */
export function hasPem(text: string, label: string): boolean {
  return new RegExp(`-----BEGIN ([A-Z ]+ )?${label}-----`).test(text);
}

function decodeBase64(origin: Origin, key: string, data: string): string {
  try {
    return new TextDecoder().decode(Uint8Array.fromBase64(data));
  } catch {
    // What V8 says may show some of it.
    throw unusable(origin, `${key}: it is not base64`);
  }
}

/**
 * Checks a token.
 *
 * @returns It, without white space around it
 * @throws {CniError} 7 if no header could have it
 */
export function checkToken(origin: Origin, key: string, token: string): string {
  const trimmed = token.trim();
  if (/^[\x20-\x7e]+$/.test(trimmed)) return trimmed;
  throw unusable(origin, `${key}: it has characters that no token may have`);
}
