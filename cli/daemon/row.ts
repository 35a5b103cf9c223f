/**
 * The command `cni daemon`, also `multus daemon`, without its implementation.
 *
 * @module
 */

import type { CommandRow } from "../../base/command_line/command.ts";
import { DAEMON_FLAGS } from "./options.ts";

/**
 * Describes the command of a program.
 *
 * @param socketDir Default directory of the sockets
 */
export function describeDaemon(socketDir: string): CommandRow {
  const flag = { ...DAEMON_FLAGS["socket-dir"], default: socketDir };
  return {
    name: "daemon",
    summary: "Run plugin calls for other processes on this node",
    about: [
      "Plugins hand their calls to the daemon, unless daemonSocket " +
      "in their configuration names a different socket, or none. The daemon also caches the Kubernetes objects that multus needs. Without a daemon, plugins run their calls locally.",
    ],
    flags: { ...DAEMON_FLAGS, "socket-dir": flag },
    isService: true,
    load: async () => (await import("./command.ts")).daemon,
  };
}
