/**
 * The compiled executables, which `deno task test` builds.
 *
 * @module
 */

import { ignoreUnless, type Needs } from "../../testing/capabilities.ts";
import { type Spawned, spawnIn } from "./spawn_in.ts";
import type { CallOptions, TestHosts } from "../../testing/test_hosts.ts";

/** Where they are; empty if they were not built. */
export const BIN: string = Deno.env.get("CNI_BIN") ?? "";

/** Skips tests of the executables if they are not built. */
export const needsBin: Needs = ignoreUnless(
  BIN !== "",
  "needs CNI_BIN, as `deno task test` sets it",
);

/** A call of a plugin's executable. */
export interface ProcessCall {
  readonly type: string;
  readonly command: string;
  readonly config: unknown;
  /** That of this project if undefined. */
  readonly path?: string;
}

/** Starts a plugin in a temporary host, where it finds the executables. */
export function startPlugin(
  hosts: TestHosts,
  { type, command, config, path = `${BIN}/${type}` }: ProcessCall,
  options: CallOptions = {},
): Spawned {
  const env = {
    ...hosts.environment(command, options),
    CNI_PATH: BIN,
    PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
  };
  return spawnIn(hosts.host, { path, env, stdin: JSON.stringify(config) });
}
