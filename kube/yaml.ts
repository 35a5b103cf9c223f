/**
 * YAML, as people write it.
 *
 * @module
 */

import { JSON_SCHEMA, load, YAMLException } from "js-yaml";
import { CniError, ErrorCode } from "../cni/error.ts";

/** What a YAMLException tells. */
interface Problem {
  readonly reason: string;
  /** Both from 0. */
  readonly mark?: { readonly line: number; readonly column: number };
}

/**
 * Parses a YAML document that may hold secrets.
 *
 * @param what The document, as the error message shall call it
 * @throws {CniError} 7 with the place of the problem, and nothing that is there
 */
export function parseYaml(text: string, what: string): unknown {
  try {
    // Without dates: all that is not JSON is text. The last of two keys counts.
    return load(text, { schema: JSON_SCHEMA, json: true });
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    // The types of js-yaml are a package of their own, which may not be there.
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
