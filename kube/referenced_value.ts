/**
 * Values that a configuration has as a file's path or inline as base64.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../base/error.ts";

/** The source of a configuration. */
export interface Origin {
  /** Its name in error messages, such as `kubeconfig "/x"`. */
  readonly what: string;
  /** Directory that its relative paths refer to. */
  readonly directory: string;
}

/**
 * Returns the error for an unusable configuration.
 *
 * @param why The problem, with the key and without its value
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
 * Reads a file named by a key.
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

/** Resolves a path in a configuration. */
export function resolveIn({ directory }: Origin, file: string): string {
  return file.startsWith("/") ? file : join(directory, file);
}

/** A value that may have both forms; inline data take precedence. */
export interface PemValue {
  /** The key of the file; the key of the data has the suffix `-data`. */
  readonly key: string;
  readonly file?: string | undefined;
  /** Base64. */
  readonly data?: string | undefined;
}

/**
 * Reads a PEM.
 *
 * @param label End of the label of a required block, such as `CERTIFICATE`
 * @returns Undefined if the configuration has neither form
 * @throws {CniError} 7 if it cannot be read, or has no such block
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

/** Reports whether a text contains a PEM block whose label has this end. */
export function hasPem(text: string, label: string): boolean {
  return new RegExp(`-----BEGIN ([A-Z ]+ )?${label}-----`).test(text);
}

function decodeBase64(origin: Origin, key: string, data: string): string {
  try {
    return new TextDecoder().decode(Uint8Array.fromBase64(data));
  } catch {
    // V8's message may contain part of the secret.
    throw unusable(origin, `${key}: it is not base64`);
  }
}

/**
 * Checks a token.
 *
 * @returns The token without surrounding white space
 * @throws {CniError} 7 if it is not valid in a header
 */
export function checkToken(origin: Origin, key: string, token: string): string {
  const trimmed = token.trim();
  if (/^[\x20-\x7e]+$/.test(trimmed)) return trimmed;
  throw unusable(origin, `${key}: it has invalid characters`);
}
