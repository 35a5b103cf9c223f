/**
 * Runs the commands of `multus`, for its installation and operation. Runtimes
 * call it without arguments.
 *
 * Importing this module runs the command.
 *
 * @module
 */

import { SHIM_DIRECTORY } from "../../daemon/wire/daemon_socket.ts";
import type { Program } from "../../base/command_line/command.ts";
import { OWN_ROWS } from "../../base/command_line/own_rows.ts";
import { runMain } from "../../base/command_line/run.ts";
import { describeClusterGc } from "../../ipam/whereabouts/command.ts";
import { describeDaemon } from "../../cli/daemon/row.ts";
import { INSTALL_FLAGS } from "./install/install_flags.ts";

/** Time that a command has to end after a signal, in ms. */
const GRACE_MS = 500;

const multus: Program = {
  name: "multus",
  about: "A CNI plugin that attaches a pod to several networks. Runtimes " +
    "call it without arguments.",
  rows: [
    {
      name: "install",
      summary:
        "Install multus, its credentials and its configuration on a node",
      about: [
        "The configuration is generated from the master network's. Runs once, " +
        "or with --watch until SIGTERM.",
      ],
      flags: INSTALL_FLAGS,
      isService: true,
      graceMs: GRACE_MS,
      load: async () => (await import("./install/command.ts")).install,
    },
    describeDaemon(SHIM_DIRECTORY),
    describeClusterGc("multus"),
    ...OWN_ROWS,
  ],
};

runMain(multus);
