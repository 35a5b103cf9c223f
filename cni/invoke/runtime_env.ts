/**
 * The environment that a runtime gives to a plugin.
 *
 * @module
 */

import type { Environment } from "../args.ts";

/** What the CNI_* variables shall say; what is left out is empty. */
export interface RuntimeArgs {
  /** CNI_COMMAND. */
  readonly command: string;
  /** CNI_CONTAINERID. */
  readonly containerId?: string;
  /** CNI_NETNS: path of the sandbox's network namespace. */
  readonly netns?: string;
  /** CNI_IFNAME: name of the interface inside the sandbox. */
  readonly ifName?: string;
  /** CNI_ARGS: the text as it is, or pairs to make it of. */
  readonly args?: string | readonly (readonly [key: string, value: string])[];
  /** CNI_PATH: folders with plugins, joined by `:`. */
  readonly path?: string;
}

/**
 * Makes a plugin's environment of the runtime's. All six CNI_* variables are
 * set, those without a value to "", so that none of the runtime's own is left.
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
