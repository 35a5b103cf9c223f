/**
 * The commands that show the node's state.
 *
 * @module
 */

import type { CommandRow } from "../command.ts";
import { FOLDERS, NETWORK } from "./arguments.ts";

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
    flags: ["wide", "exit-code", ...FOLDERS],
    examples: [
      { line: "cni list", what: "show all" },
      {
        line: "cni list pods --json | jq -r '.[].addresses[]'",
        what: "list the addresses in use",
      },
    ],
    load: async () => (await import("../commands/list.ts")).list,
  },
  {
    name: "networks",
    summary: "Shows the configured networks and their problems",
    flags: ["exit-code", ...FOLDERS],
    examples: [
      { line: "cni networks", what: "show all" },
      { line: "cni networks --exit-code > /dev/null", what: "use in a script" },
    ],
    load: async () => (await import("../commands/networks.ts")).networks,
  },
  {
    name: "plugins",
    summary: "Shows the installed plugins and whether they work",
    about: [
      "Asks each plugin for its versions. --timeout applies to each plugin.",
    ],
    flags: ["exit-code", ...FOLDERS],
    timeout: "5s",
    examples: [
      {
        line: "cni plugins --cni-path dist/bin:/opt/cni/bin",
        what: "show which of two folders a plugin comes from",
      },
    ],
    load: async () => (await import("../commands/plugins.ts")).plugins,
  },
];
