/**
 * The administrator's list of the sysctls that configurations are permitted to set.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import {
  readTextFile,
  unlessMissing,
  withIoFailure,
} from "../../base/files/io.ts";
import type { Sysctl } from "./sysctls.ts";

/** The file. Without this file, all sysctls are allowed. */
const ALLOWLIST = "/etc/cni/tuning/allowlist.conf";

/**
 * Checks sysctls against the list.
 *
 * @throws {CniError} 7 if a sysctl is not allowed, or a line is not a regular
 * expression; 5 if the file cannot be read
 */
export async function checkAllowed(sysctls: readonly Sysctl[]): Promise<void> {
  if (sysctls.length === 0) return;
  const text = withIoFailure(
    `read "${ALLOWLIST}"`,
    () => unlessMissing(() => readTextFile(ALLOWLIST)),
  );
  if (text === undefined) return;
  const { compileRe2 } = await import("./re2.ts");
  checkAgainst(text, sysctls.map(({ name }) => name), compileRe2);
}

/**
 * Checks names against the text of a list. Each line is a regular expression, which
 * can match any part of a name.
 *
 * @param compile Throws a SyntaxError if a pattern is malformed
 * @throws {CniError} 7 if a name is not allowed, or a line is not a regular
 *   expression
 */
export function checkAgainst(
  text: string,
  names: readonly string[],
  compile: (pattern: string) => RegExp,
): void {
  const patterns = text.split("\n").map((line) => line.trim())
    .filter((line) => line !== "");
  const isAllowed = (name: string): boolean =>
    patterns.some((pattern) => parse(pattern, compile).test(name));
  const refused = names.find((name) => !isAllowed(name));
  if (refused === undefined) return;
  const list = `[${patterns.join(" ")}]`;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Sysctl ${refused} is not allowed. Only the following sysctls are allowed: ${list}`,
  );
}

function parse(
  pattern: string,
  compile: (pattern: string) => RegExp,
): RegExp {
  try {
    return compile(pattern);
  } catch (error) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `Cannot parse regular expression ${
        JSON.stringify(pattern)
      } in "${ALLOWLIST}"`,
      { cause: error },
    );
  }
}
