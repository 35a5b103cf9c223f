/**
 * Reading the result that another plugin printed.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, describeError, ErrorCode } from "../error.ts";
import { decode, type JsonObject, type JsonValue, parseJson } from "../json.ts";
import { once } from "../types.ts";
import { DEFAULT_VERSION } from "../version.ts";

/** A result in the shape of the version that it names. */
export interface ResultDocument extends JsonObject {
  cniVersion: string;
}

const objectSchema = once(() => z.record(z.string(), z.custom<JsonValue>()));

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
    return decode(objectSchema(), parseJson(stdout, "result") ?? {}, "result");
  } catch (error) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      `failed to unmarshal raw result: ${describeError(error)}`,
    );
  }
}
