/**
 * The context of calls in tests.
 *
 * @module
 */

import type { Invoker } from "../../cni/call/context.ts";
import type { CallContext } from "../../cni/call/context.ts";

/** This process's network namespace, as the host's. */
export const OWN_NETNS = "/proc/self/ns/net";

/** Fails the test if a plugin runs another one. */
const noInvoker: Invoker = {
  invoke: ({ type }) => Promise.reject(new Error(`plugin "${type}" was run`)),
};

/** A context without an environment, other plugins, or a log. */
export function contextWith(
  more: Partial<CallContext> = {},
): CallContext {
  return {
    env: {},
    invoker: noInvoker,
    hostNetns: OWN_NETNS,
    onStderr: () => {},
    ...more,
  };
}
