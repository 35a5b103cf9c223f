/**
 * Running plugins as they run on the node.
 *
 * @module
 */

import {
  DEFAULT_SOCKET,
  isForDaemon,
  listSockets,
  NO_DAEMON,
  readKeys,
} from "../../daemon/wire/daemon_socket.ts";
import { execInvoker } from "../../cni/invoke/exec_invoker.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import { dispatch } from "../../cni/skel.ts";
import type { Invocation, Invoker } from "../../cni/call/context.ts";
import { fileExists } from "../../ffi/socket/unix_stream.ts";
import { findPlugin } from "../../plugins/registry.ts";
import type { CniCall } from "../flags.ts";

/**
 * Creates an invoker that runs a plugin as a process if there is a node daemon
 * which that process may ask, as a runtime does. Otherwise this project's
 * plugins run in this process.
 */
export function createNodeInvoker(): Invoker {
  const inProcess = createInvoker(dispatch, findPlugin);
  return {
    invoke: (invocation) =>
      (mayReachDaemon(invocation) ? execInvoker : inProcess).invoke(invocation),
  };
}

function mayReachDaemon({ type, env, stdin }: Invocation): boolean {
  // From sources, this executable is deno, not a plugin.
  if (import.meta.dirname !== undefined) return false;
  if (!isForDaemon((name) => env[name])) return false;
  return listSockets(type, readKeys(stdin))
    .some((path) => path !== DEFAULT_SOCKET || fileExists(path));
}

/** Returns the environment of plugins: with `--no-daemon`, they use no daemon. */
export function readPluginEnv(
  { env, flags }: Pick<CniCall, "env" | "flags">,
): CniCall["env"] {
  return flags["no-daemon"] ? { ...env, [NO_DAEMON]: "1" } : env;
}
