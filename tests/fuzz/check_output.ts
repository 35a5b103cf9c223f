/**
 * Properties of the output that a runtime relies on, whatever a plugin was given.
 *
 * @module
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import { ErrorCode } from "../../base/error.ts";
import type { DispatchOutput } from "../../cni/call/context.ts";
import { isSpecVersion } from "../../cni/version.ts";

/** Codes that have a meaning to all; from 100 on they are the plugins' own. */
export const KNOWN_CODES: readonly number[] = Object.values(ErrorCode);

/** Fails unless stdout holds one document or nothing, as command and exit code ask. */
export function checkOutput(output: DispatchOutput, env: Environment): void {
  const { stdout, stderr, exitCode } = output;
  assert(stderr === "" || stderr.endsWith("\n"), "a log line without an end");
  const command = env["CNI_COMMAND"] || "none";
  if (exitCode !== 0) return checkFailure(output, command);
  const isSilent = !["ADD", "VERSION"].includes(command);
  assertEquals(stdout === "", isSilent);
  if (isSilent) return;
  const { cniVersion } = JSON.parse(stdout);
  // VERSION answers with the caller's version, which may be one to come.
  if (command === "VERSION") assertMatch(cniVersion, /^\d+\.\d+\.\d+$/);
  else assert(isSpecVersion(cniVersion));
}

function checkFailure(
  { stdout, exitCode }: DispatchOutput,
  command: string,
): void {
  assertEquals(exitCode, 1);
  const { cniVersion, code, msg, details, differences, ...others } = JSON.parse(
    stdout,
  );
  assert(isSpecVersion(cniVersion));
  assert(KNOWN_CODES.includes(code) || code >= 100, `unknown code ${code}`);
  assert(typeof msg === "string" && msg !== "");
  assert(["undefined", "string"].includes(typeof details) && details !== "");
  assertEquals(others, {});
  if (differences === undefined) return;
  // The objects of CHECK, the first one's text in the message.
  assertEquals(command, "CHECK");
  const further = `${details ?? ""}`.split("\n").filter((line) =>
    line.startsWith("also: ")
  );
  assertEquals(differences.length, 1 + further.length);
  for (const object of differences) {
    assert(object === null || typeof object.kind === "string");
  }
}
