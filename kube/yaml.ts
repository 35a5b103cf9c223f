/**
 * Parses YAML.
 *
 * @module
 */

import { JSON_SCHEMA, load, YAMLException } from "js-yaml";
import { CniError, ErrorCode } from "../base/error.ts";

/** The details of a YAMLException. */
interface Problem {
  readonly reason: string;
  /** Both start at 0. */
  readonly mark?: { readonly line: number; readonly column: number };
}

/**
 * Parses a YAML document that may hold secrets.
 *
 * @param what The document's name in error messages
 * @throws {CniError} 7 with the problem's position, and none of the content
 */
export function parseYaml(text: string, what: string): unknown {
  try {
    // Without dates: any scalar that is not JSON is text. The last duplicate
    // key wins.
    return load(text, { schema: JSON_SCHEMA, json: true });
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    // The types of js-yaml are in a separate package, which may be missing.
    const { reason: said, mark } = error as Problem;
    const reason = said.replace(/\s*["<(].*$/s, "");
    const { line, column } = mark ?? { line: 0, column: 0 };
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `Cannot parse ${what}: ${reason} at line ${line + 1}, column ${
        column + 1
      }`,
    );
  }
}
