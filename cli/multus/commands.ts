/**
 * Runs the commands of `multus`, for its installation and operation. Runtimes
 * call it without arguments.
 *
 * Importing this module runs the command.
 *
 * @module
 */

import { BUILT_IN_COMMANDS } from "../../base/command_line/built_in_commands.ts";
import { runProgram } from "../../base/command_line/run.ts";
import { SHIM_DIRECTORY } from "../../daemon/wire/daemon_socket.ts";
import { describeClusterGc } from "../../ipam/whereabouts/command.ts";
import { INSTALL } from "../../plugins/multus/command.ts";
import { describeDaemon } from "../daemon/row.ts";

runProgram({
  name: "multus",
  about: "A CNI plugin that attaches a pod to several networks. Runtimes " +
    "call it without arguments.",
  rows: [
    INSTALL,
    describeDaemon(SHIM_DIRECTORY),
    describeClusterGc("multus"),
    ...BUILT_IN_COMMANDS,
  ],
});
