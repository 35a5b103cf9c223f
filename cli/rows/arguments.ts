/**
 * Arguments and flags that several commands have.
 *
 * @module
 */

import type { Argument, FlagName } from "../command.ts";

/** A network. */
export const NETWORK: Argument = {
  name: "NETWORK",
  summary:
    "name of a network, or the path of its configuration, with a slash in it",
  completes: "network",
};
/** A namespace to attach, or that is attached. */
export const NETNS: Argument = {
  name: "NETNS",
  summary: "path of a network namespace, or its name as ip netns has it",
  completes: "netns",
};
/** Where things are. */
export const FOLDERS: readonly FlagName[] = [
  "cni-path",
  "conf-dir",
  "cache-dir",
];
