/**
 * Reading the error of a plugin that a daemon ran.
 *
 * @module
 */

import { CniError } from "../../base/error.ts";
import { parseObject } from "../../base/json/parse_object.ts";

/** Parses a CNI error. Returns undefined if the text is not a CNI error. */
export function parseDaemonError(body: string): CniError | undefined {
  const { code, msg, details } = parseObject(body) ?? {};
  if (typeof code !== "number" || typeof msg !== "string" || msg === "") {
    return undefined;
  }
  return new CniError(code, msg, {
    details: typeof details === "string" ? details : "",
  });
}
