/**
 * The command `multus install`, without its implementation.
 *
 * @module
 */

import type { CommandRow } from "../../base/command_line/command.ts";
import { INSTALL_FLAGS } from "./install/options.ts";

/** Time that the command has to exit after a signal, in ms. */
const GRACE_MS = 500;

/** The command. */
export const INSTALL: CommandRow = {
  name: "install",
  summary: "Install multus, its credentials and its configuration on a node",
  about: [
    "Generates the configuration from the master network's configuration. Runs " +
    "once or, with --watch, until SIGTERM.",
  ],
  flags: INSTALL_FLAGS,
  isService: true,
  graceMs: GRACE_MS,
  load: async () => (await import("./install/command.ts")).install,
};
