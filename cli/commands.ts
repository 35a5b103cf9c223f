/**
 * The commands of `cni`.
 *
 * @module
 */

import type { Program } from "../tool/command.ts";
import { NETNS_COMMANDS } from "./rows/netns.ts";
import { NETWORK_COMMANDS } from "./rows/network.ts";
import { NODE_COMMANDS } from "./rows/node.ts";
import { OWN_COMMANDS } from "./rows/own.ts";

/** The tool. */
export const cni: Program = {
  name: "cni",
  about: "Attaches network namespaces to container networks with CNI " +
    "plugins, and shows the node's networks, plugins and attachments.",
  rows: [
    ...NETWORK_COMMANDS,
    ...NODE_COMMANDS,
    ...NETNS_COMMANDS,
    ...OWN_COMMANDS,
  ],
};
