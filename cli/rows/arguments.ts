/**
 * Arguments that several commands share.
 *
 * @module
 */

import type { Argument } from "../../tool/command.ts";

/** A network. */
export const NETWORK: Argument = {
  name: "NETWORK",
  summary: "name of a network, or path of its configuration (with a slash)",
  completes: "network",
};
/** A namespace that is, or will be, attached. */
export const NETNS: Argument = {
  name: "NETNS",
  summary: "path of a network namespace, or its name in ip netns",
  completes: "netns",
};
