/**
 * Reading the answer of a daemon that runs plugins: a JSON object, or a plugin's error.
 *
 * @module
 */

import { CniError } from "../../base/error.ts";

/** Parses a JSON object. Returns undefined if the text is not a JSON object. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null;
    return isObject && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

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
