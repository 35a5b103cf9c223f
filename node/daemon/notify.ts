/**
 * Telling the service manager how the daemon is.
 *
 * @module
 */

import type { Environment } from "../../cni/args.ts";
import { sendDatagram } from "../../ffi/unix_socket.ts";

/**
 * Sends a state, such as `READY=1`, if a service manager waits for one.
 *
 * Source: sd_notify(3).
 *
 * @throws {SyscallError} If the service manager cannot be reached
 */
export function notify(env: Environment, state: string): void {
  const path = env["NOTIFY_SOCKET"];
  if (path) sendDatagram(path, state);
}
