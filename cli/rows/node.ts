/**
 * The commands that show the node's state, and its daemon.
 *
 * @module
 */

import type { CommandRow } from "../../tool/command.ts";
import { describeDaemon } from "../../node/daemon/row.ts";
import { FOLDERS, pick } from "../flags.ts";
import { NETWORK } from "./arguments.ts";

/** The commands that show the node's state. */
export const NODE_COMMANDS: readonly CommandRow[] = [
  {
    name: "list",
    summary: "Shows the attachments of this node",
    about: [
      "Includes attachments made by this tool and by runtimes with the same " +
      "cache. EXISTS shows whether the namespace still exists; no is a problem.",
    ],
    args: [{ ...NETWORK, isOptional: true }],
    flags: pick("wide", "exit-code", ...FOLDERS),
    examples: {
      "cni list": "show all",
      "cni list pods --json | jq -r '.[].addresses[]'":
        "list the addresses in use",
    },
    load: async () => (await import("../commands/list.ts")).list,
  },
  {
    name: "networks",
    summary: "Shows the configured networks and their problems",
    flags: pick("exit-code", ...FOLDERS),
    examples: {
      "cni networks": "show all",
      "cni networks --exit-code > /dev/null": "use in a script",
    },
    load: async () => (await import("../commands/networks.ts")).networks,
  },
  {
    name: "plugins",
    summary: "Shows the installed plugins and whether they work",
    about: [
      "Asks each plugin for its versions. --timeout applies to each plugin.",
    ],
    flags: pick("exit-code", ...FOLDERS),
    timeout: "5s",
    examples: {
      "cni plugins --cni-path dist/bin:/opt/cni/bin":
        "show which of two folders a plugin comes from",
    },
    load: async () => (await import("../commands/plugins.ts")).plugins,
  },
  describeDaemon("/run/cni"),
];
