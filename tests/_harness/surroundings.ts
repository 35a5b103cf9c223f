/**
 * Surroundings in which a test runs a plugin.
 *
 * @module
 */

import type { Invoker } from "../../cni/call/surroundings.ts";
import type { Surroundings } from "../../cni/call/surroundings.ts";

/** This process's network namespace, as the host's. */
export const OWN_NETNS = "/proc/self/ns/net";

/** Fails the test if a plugin runs another one. */
const noInvoker: Invoker = {
  invoke: ({ type }) => Promise.reject(new Error(`plugin "${type}" was run`)),
};

/** Surroundings without an environment, other plugins, or a log. */
export function surroundingsWith(
  more: Partial<Surroundings> = {},
): Surroundings {
  return {
    env: {},
    invoker: noInvoker,
    hostNetns: OWN_NETNS,
    onStderr: () => {},
    ...more,
  };
}
