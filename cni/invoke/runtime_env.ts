/**
 * The environment that a runtime passes to a plugin.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";

/** Values of the CNI_* variables; absent ones become empty. */
export interface RuntimeArgs {
  /** CNI_COMMAND. */
  readonly command: string;
  /** CNI_CONTAINERID. */
  readonly containerId?: string;
  /** CNI_NETNS: path of the sandbox's network namespace. */
  readonly netns?: string;
  /** CNI_IFNAME: name of the interface inside the sandbox. */
  readonly ifName?: string;
  /** CNI_ARGS: the text, or the pairs to join. */
  readonly args?: string | readonly (readonly [key: string, value: string])[];
  /** CNI_PATH: directories with plugins, joined by `:`. */
  readonly path?: string;
}

/**
 * Builds a plugin's environment from the runtime's. Sets all six CNI_* variables,
 * those without a value to "", so that the runtime's own never leak through.
 *
 * Source: containernetworking/cni pkg/invoke/args.go `AsEnv`.
 *
 * @param base The environment of the runtime; it is not changed
 */
export function runtimeEnv(
  args: RuntimeArgs,
  base: Environment,
): Record<string, string> {
  return {
    ...base,
    CNI_COMMAND: args.command,
    CNI_CONTAINERID: args.containerId ?? "",
    CNI_NETNS: args.netns ?? "",
    CNI_ARGS: formatArgs(args.args ?? ""),
    CNI_IFNAME: args.ifName ?? "",
    CNI_PATH: args.path ?? "",
  };
}

function formatArgs(args: NonNullable<RuntimeArgs["args"]>): string {
  return typeof args === "string"
    ? args
    : args.map(([key, value]) => `${key}=${value}`).join(";");
}
