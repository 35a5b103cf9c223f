/**
 * A plugin that writes down what it is asked, and calls of it with the
 * environment and the configuration that the reference library's own tests use.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import type { DispatchInput } from "../../cni/call/context.ts";
import type { Call, Plugin } from "../../cni/plugin.ts";
import { dispatch } from "../../cni/skel.ts";
import { netConf } from "../../cni/config/types.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { contextWith } from "./call_context.ts";

/** The methods of a plugin. */
export const OPERATIONS = ["add", "check", "del", "gc", "status"] as const;
/** One of {@linkcode OPERATIONS}. */
export type Operation = typeof OPERATIONS[number];

/** A complete environment without the command. */
export const ENV: Environment = {
  // Not the log that the node's /etc/cni/log.json names.
  CNI_LOG_FILE: "stderr",
  CNI_CONTAINERID: "some-container-id",
  CNI_NETNS: "/proc/0/ns/net",
  CNI_IFNAME: "eth0",
  CNI_ARGS: "some=extra;more=args",
  CNI_PATH: "/some/cni/path",
};

/** A configuration that only the recorder serves. */
export const CONFIG = {
  name: "skel-test",
  type: "test",
  some: "config",
  cniVersion: "9.8.7",
};

/** For what reaches the callback of every command. */
export const CURRENT = { ...CONFIG, cniVersion: "1.1.0" };

/** A plugin that writes down what it was asked, and may do more. */
export function recorder(
  { versions = ["9.8.7", "10.0.0"], ...extras }: Partial<Plugin> = {},
): { plugin: Plugin; calls: [Operation, Call][] } {
  const calls: [Operation, Call][] = [];
  const operations = OPERATIONS.map((name) => [
    name,
    (call: Call): unknown => {
      calls.push([name, call]);
      return extras[name]?.(call);
    },
  ]);
  const plugin = {
    name: "test",
    versions,
    configSchema: () => netConf({}),
    ...extras,
    ...Object.fromEntries(operations),
  };
  return { plugin, calls };
}

/** A recorder that serves the real versions. */
export function current(
  extras: Partial<Plugin> = {},
): { plugin: Plugin; calls: [Operation, Call][] } {
  return recorder({ versions: SPEC_VERSIONS, ...extras });
}

/** The outcome of a run. */
export interface Outcome {
  readonly exitCode: number;
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  readonly json: any;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a plugin; stdout must hold one document or nothing. */
export async function run(
  plugin: Plugin,
  env: Environment,
  config: unknown = CONFIG,
  more: Partial<DispatchInput> = {},
): Promise<Outcome> {
  const text = typeof config === "string" ? config : JSON.stringify(config);
  const output = await dispatch(plugin, {
    // Never the log of the machine.
    ...contextWith({ env: { CNI_LOG_FILE: "stderr", ...env } }),
    stdin: () => new TextEncoder().encode(text),
    ...more,
  });
  const { stdout } = output;
  return { ...output, json: stdout === "" ? undefined : JSON.parse(stdout) };
}

/** Runs one command with a whole environment. */
export function runCommand(
  plugin: Plugin,
  command: string,
  config: unknown = CONFIG,
  more: Partial<DispatchInput> = {},
): Promise<Outcome> {
  return run(plugin, { ...ENV, CNI_COMMAND: command }, config, more);
}

/** The outcome of success that is not ADD's. */
export const SILENT = { exitCode: 0, stdout: "", stderr: "", json: undefined };

/** Asserts that a run ended with the expected error document. */
export function assertFailure(
  { exitCode, json, stdout }: Outcome,
  expected: { code: number; msg?: string; details?: string },
): void {
  assertEquals(exitCode, 1, stdout);
  assertEquals({ ...json, ...expected }, json);
  assert(!stdout.endsWith("\n"));
}
