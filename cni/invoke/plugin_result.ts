/**
 * Reading the result that another plugin answered with.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, describeError, ErrorCode } from "../error.ts";
import { decode, type JsonObject, parseJson } from "../json.ts";
import type { Result } from "../result.ts";
import { decodeResult } from "../result_decoding.ts";
import { once } from "../types.ts";
import { DEFAULT_VERSION } from "../version.ts";

/** A result in the shape of the version that it names. */
export interface ResultDocument extends JsonObject {
  cniVersion: string;
}

/** What a run of a plugin came to. */
export interface PluginOutput {
  /** What the plugin printed. */
  readonly stdout: string;
  /** The result of ADD, if it need not be read from that. */
  readonly result: Result | undefined;
}

/** A result in its own version and as a value. */
export interface PluginResult {
  /** What the plugin printed, with the version, and keys that nobody knows. */
  readonly document: ResultDocument;
  /** What it says. */
  readonly result: Result;
}

/**
 * Reads what a plugin answered to ADD.
 *
 * @param configVersion The cniVersion of the plugin's configuration
 * @throws {CniError} 6 if it is no result, 1 if nobody knows its version
 */
export function readPluginResult(
  { stdout, result }: PluginOutput,
  configVersion: string,
): PluginResult {
  const document = parsePluginResult(stdout, configVersion);
  return { document, result: result ?? decodeResult(document) };
}

const objectSchema = once(() => z.looseObject({}));

/**
 * Parses what a plugin printed on ADD. A result that does not say its version
 * has that of the configuration; `null` is an empty result.
 *
 * Source: containernetworking/cni pkg/invoke/exec.go `fixupResultVersion`.
 *
 * @param configVersion The cniVersion of the plugin's configuration
 * @throws {CniError} 6 if it is no JSON object
 */
export function parsePluginResult(
  stdout: string,
  configVersion: string,
): ResultDocument {
  const document = parseObject(stdout);
  const named = document["cniVersion"];
  const cniVersion = (typeof named === "string" ? named : "") ||
    configVersion || DEFAULT_VERSION;
  return { ...document, cniVersion };
}

function parseObject(stdout: string): JsonObject {
  try {
    const document = parseJson(stdout, "result") ?? {};
    return decode(objectSchema(), document, "result") as JsonObject;
  } catch (error) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      `failed to unmarshal raw result: ${describeError(error)}`,
    );
  }
}
