/**
 * Assertions on the outcome of a plugin call.
 *
 * @module
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { CallOutput } from "../../testing/test_hosts.ts";

/** Asserts that a call succeeded and had nothing to say on stderr. */
export function assertSuccess({ exitCode, stdout, stderr }: CallOutput): void {
  assertEquals({ exitCode, stderr }, { exitCode: 0, stderr: "" }, stdout);
}

/** Asserts that a call failed with a code, and with a text in message or details. */
export function assertFailure(
  output: CallOutput,
  code: number,
  text: string,
): void {
  assertEquals(output.exitCode, 1, output.stdout);
  assertEquals(output.json.code, code, output.stdout);
  const { msg, details } = output.json;
  assertStringIncludes(
    details === undefined ? `${msg}` : `${msg}; ${details}`,
    text,
  );
}
