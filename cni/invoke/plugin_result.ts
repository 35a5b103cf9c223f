/**
 * Reading another plugin's result.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import {
  decode,
  type JsonObject,
  once,
  parseJson,
} from "../../base/json/json.ts";
import type { Result } from "../result/result.ts";
import { decodeResult } from "../result/decoding.ts";
import { DEFAULT_VERSION } from "../version.ts";

/** A result in the shape of the version that it names. */
export interface ResultDocument extends JsonObject {
  cniVersion: string;
}

/** The output of a plugin's ADD. */
export interface PluginOutput {
  /** The plugin's output. */
  readonly stdout: string;
  /** The result, if it is available without parsing. */
  readonly result: Result | undefined;
}

/** A result in its own version and as a value. */
export interface PluginResult {
  /** The document the plugin printed, with its version and unknown keys. */
  readonly document: ResultDocument;
  /** The decoded result. */
  readonly result: Result;
}

/**
 * Reads a plugin's answer to ADD.
 *
 * @param configVersion The cniVersion of the plugin's configuration
 * @throws {CniError} 6 if it is not a result, 1 if its version is unknown
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
 * Parses a plugin's output for ADD. A result without a version has the
 * configuration's; `null` is an empty result.
 *
 * Source: containernetworking/cni pkg/invoke/exec.go `fixupResultVersion`.
 *
 * @param configVersion The cniVersion of the plugin's configuration
 * @throws {CniError} 6 if it is not a JSON object
 */
export function parsePluginResult(
  stdout: string,
  configVersion: string,
): ResultDocument {
  const document = parseResult(stdout);
  const named = document["cniVersion"];
  const cniVersion = (typeof named === "string" ? named : "") ||
    configVersion || DEFAULT_VERSION;
  return { ...document, cniVersion };
}

function parseResult(stdout: string): JsonObject {
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
