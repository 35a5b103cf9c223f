/**
 * Reading the answer of a daemon that runs plugins: a JSON object, or a plugin's error.
 *
 * @module
 */

import { CniError } from "../../base/error.ts";

/** Parses an object; undefined if the text is not one. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null;
    return isObject && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Parses the error of a CNI plugin; undefined if the text is not one. */
export function parseDaemonError(body: string): CniError | undefined {
  const { code, msg, details } = parseObject(body) ?? {};
  if (typeof code !== "number" || typeof msg !== "string" || msg === "") {
    return undefined;
  }
  return new CniError(code, msg, {
    details: typeof details === "string" ? details : "",
  });
}
