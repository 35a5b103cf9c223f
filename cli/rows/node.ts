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
      "They are those that the tool and runtimes with the same cache have " +
      "made. EXISTS says whether the namespace still does: no is a problem.",
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
    summary: "Shows the networks that are configured, and what is wrong",
    flags: ["exit-code", ...FOLDERS],
    examples: [
      { line: "cni networks", what: "show all" },
      { line: "cni networks --exit-code > /dev/null", what: "ask in a script" },
    ],
    load: async () => (await import("../commands/networks.ts")).networks,
  },
  {
    name: "plugins",
    summary: "Shows the plugins that are installed, and whether they work",
    about: [
      "Each is asked for its versions, and has the time of --timeout to answer.",
    ],
    flags: ["exit-code", ...FOLDERS],
    timeout: "5s",
    examples: [
      {
        line: "cni plugins --cni-path dist/bin:/opt/cni/bin",
        what: "see which of two folders a plugin would come from",
      },
    ],
    load: async () => (await import("../commands/plugins.ts")).plugins,
  },
];
